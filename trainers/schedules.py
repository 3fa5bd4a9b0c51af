"""Learning-rate schedules, as factors of the base rate over a run's progress."""

from math import cos, pi


def warm_up_cosine(step: int, steps: int, warm_up_steps: int) -> float:
    """Linear warm-up, then half a cosine down to 0 (Loshchilov and Hutter 2017, eq. 5, one period).

    ``step`` counts from 0; ``steps`` is the run's whole length, whatever the leg; the factor is in (0, 1].
    """
    if step < warm_up_steps:
        return (step + 1) / (warm_up_steps + 1)
    progress = (step - warm_up_steps) / max(1, steps - warm_up_steps)
    return 0.5 * (1 + cos(pi * min(1.0, progress)))
