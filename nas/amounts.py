"""Counts, bytes and seconds in three digits, for tables and figures."""

_DECIMAL = ("", " k", " M", " G", " T", " P", " E")
_BINARY = (" B", " KiB", " MiB", " GiB", " TiB", " PiB")
_SECONDS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))


def amount(value: float) -> str:
    """A count in powers of 1,000, whole below: ``832``, ``1.24 M``."""
    return _scaled(value, 1000, _DECIMAL)


def memory(size: float) -> str:
    """Bytes in powers of 1,024: ``512 B``, ``1.50 MiB``."""
    return _scaled(size, 1024, _BINARY)


def time(seconds: float) -> str:
    """Seconds, or thousandths or millionths of one: ``2.50 s``, ``12.4 ms``."""
    unit, size = next((entry for entry in _SECONDS if seconds >= 0.9995 * entry[1]), _SECONDS[-1])
    return f"{_digits(seconds / size)} {unit}"


def _scaled(value: float, base: int, units: tuple[str, ...]) -> str:
    power = 0
    while power < len(units) - 1 and value / base**power >= base - 0.5:
        power += 1
    if not power:
        return f"{value:,.0f}{units[0]}"
    return _digits(value / base**power) + units[power]


def _digits(value: float) -> str:
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"
