"""The fidelities at which trials are compared."""

from math import isclose

from trainers import Fidelity


def rungs(minimum: Fidelity, maximum: Fidelity, eta: float) -> tuple[Fidelity, ...]:
    """``minimum * eta^k`` below ``maximum``, and ``maximum``; integers stay integers."""
    levels: list[Fidelity] = []
    level = minimum
    while level < maximum and not isclose(level, maximum):  # 0.09 * 10 is no rung below 0.9
        levels.append(level)
        level = level * eta
        level = int(level) if float(level).is_integer() else level
    return (*levels, maximum)
