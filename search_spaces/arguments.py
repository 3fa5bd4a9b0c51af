"""Checks of the arguments that the built-in spaces take from configuration."""

from collections.abc import Sequence
from typing import Any

from search_spaces.layout import nearest


def int_range(name: str, value: Any, least: int) -> tuple[int, int]:
    """A pair (low, high) of ints, ``least`` or more; one int stands for both."""
    pair = (value, value) if _is_int(value) else value
    if not isinstance(pair, Sequence) or len(pair) != 2 or not all(map(_is_int, pair)):
        raise ValueError(f"{name} = {value!r} must be a pair of ints, low and high")
    low, high = pair
    if not least <= low <= high:
        raise ValueError(f"{name} = {value!r}: low must be at least {least}, and high at least low")
    return low, high


def int_of(name: str, value: Any, least: int) -> int:
    """One int, ``least`` or more."""
    if not _is_int(value) or value < least:
        raise ValueError(f"{name} = {value!r} must be an int of at least {least}")
    return int(value)


def ints(name: str, value: Any, least: int = 1) -> list[int]:
    """A list of different ints, ``least`` or more, in increasing order."""
    options = [value] if _is_int(value) else value
    if not isinstance(options, Sequence) or not options or not all(_is_int(item) and item >= least for item in options):
        raise ValueError(f"{name} = {value!r} must list ints of at least {least}")
    return sorted(options)


def odd(name: str, value: Any) -> list[int]:
    """A list of different odd ints in increasing order: sides of kernels that can keep an image's size."""
    options = ints(name, value)
    if any(option % 2 == 0 for option in options):
        raise ValueError(f"{name} = {options!r} must be odd, so that a layer keeps the image's size")
    return options


def name_of(name: str, value: Any, known: Sequence[str]) -> str:
    """One name out of ``known``."""
    if not isinstance(value, str):
        raise ValueError(f"{name} = {value!r} must be one of {', '.join(known)}")
    return names(name, value, known)[0]


def names(name: str, value: Any, known: Sequence[str]) -> list[str]:
    """A list of names out of ``known``."""
    options = [value] if isinstance(value, str) else value
    if not isinstance(options, Sequence) or not options:
        raise ValueError(f"{name} = {value!r} must list at least one of {', '.join(known)}")
    for option in options:
        if option not in known:
            raise ValueError(f"{name}: {option!r} is not known; {nearest(option, dict.fromkeys(known))}")
    return list(options)


def rates(name: str, value: Any) -> list[float]:
    """A list of rates from 0 to below 1, in increasing order."""
    options = value if isinstance(value, Sequence) else [value]
    if not options:
        raise ValueError(f"{name} = {value!r} must list at least one rate")
    for option in options:
        if isinstance(option, bool) or not isinstance(option, int | float) or not 0 <= option < 1:
            raise ValueError(f"{name}: {option!r} must be a rate of at least 0 and below 1")
    return sorted(map(float, options))


def flags(name: str, value: Any) -> list[bool]:
    """A list of True, False or both."""
    options = [value] if isinstance(value, bool) else value
    if not isinstance(options, Sequence) or not options or not all(isinstance(option, bool) for option in options):
        raise ValueError(f"{name} = {value!r} must list true, false or both")
    return list(options)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
