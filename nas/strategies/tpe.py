"""Tree-structured Parzen estimator (Bergstra et al. 2011; multivariate as in Falkner et al. 2018), by Optuna's sampler.

Proposes where the density of the good results over that of all others is greatest; several objectives as in Ozaki et
al. 2022, constraints by feasible results first, pending trials as bad ones (the constant liar).
"""

from optuna.samplers import BaseSampler, TPESampler

from nas.strategies.optuna_parameters import Parameters
from nas.strategies.optuna_sampler import Model, OptunaStrategy

_VALUES = 2_000
_RESULTS = (50, 400)
"""The sampler's time is in proportion to results times parameters: about 3 ms a thousand values. Of categories it is
shown half as much, for there repeats have it asked twice."""
_AGAIN = 1 / 3
"""Only of categories: repeats sharpen their frequencies, while a density over numbers shrinks to a point."""


class TreeParzenEstimator(OptunaStrategy):
    """TPE over all decisions jointly; those of a conditional space in groups that are active together."""

    def model(self, results: int) -> Model:
        """TPE, shown as many results as 2,000 values make (1,000 of categories), 50 to 400."""
        return parzen_model(self.parameters)


def parzen_model(parameters: Parameters) -> Model:
    """TPE for a space of ``parameters``."""
    least, most = _RESULTS
    values = _VALUES // 2 if parameters.categorical else _VALUES
    results = min(most, max(least, values // parameters.count))

    def make(seed: int) -> BaseSampler:
        return TPESampler(seed=seed, n_startup_trials=0, multivariate=True, group=parameters.conditional)

    again = _AGAIN if parameters.categorical else 0.0
    return Model("tpe", make, parameters.point, results, results // 4, again)
