"""Numbers of architectures as people read them; Python itself writes no int of more than 4,300 digits."""

from math import floor, inf, log10

_EXACT = 10**12


def size_text(size: int | float) -> str:
    """A number of assignments, as `Domain.size` gives it: exact below 10^12, else rounded, as ``about 1.4e26``."""
    if size == inf:
        return "infinitely many"
    return f"{size:,}" if size < _EXACT else power_text(log10(size))


def power_text(log10_size: float) -> str:
    """The same, rounded, from the logarithm alone."""
    exponent = floor(log10_size)
    digits = round(10 ** (log10_size - exponent), 1)
    return f"about 1.0e{exponent + 1}" if digits == 10 else f"about {digits:.1f}e{exponent}"
