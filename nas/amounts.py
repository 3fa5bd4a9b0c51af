"""Counts and bytes in three digits, for tables and figures."""

_DECIMAL = ("", " k", " M", " G", " T", " P", " E")
_BINARY = (" B", " KiB", " MiB", " GiB", " TiB", " PiB")


def amount(value: float) -> str:
    """A count in powers of 1,000, whole below: ``832``, ``1.24 M``."""
    return _scaled(value, 1000, _DECIMAL)


def memory(size: float) -> str:
    """Bytes in powers of 1,024: ``512 B``, ``1.50 MiB``."""
    return _scaled(size, 1024, _BINARY)


def _scaled(value: float, base: int, units: tuple[str, ...]) -> str:
    power = 0
    while power < len(units) - 1 and value / base**power >= base - 0.5:
        power += 1
    if not power:
        return f"{value:,.0f}{units[0]}"
    scaled = value / base**power
    return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f}{units[power]}"
