"""Bayesian optimisation by a Gaussian process with expected improvement (Ament et al. 2023), by Optuna's sampler.

Several objectives by expected hypervolume improvement (Daulton et al. 2020), constraints by the probability that they
hold (Gardner et al. 2014), pending trials by their joint improvement.
"""

from optuna.samplers import BaseSampler, GPSampler

from nas.strategies.optuna_sampler import Model, OptunaStrategy
from nas.strategies.tpe import parzen_model

_MOST_RESULTS = 200
_MOST_PENDING = 16


class GaussianProcess(OptunaStrategy):
    """The process knows nothing of conditions: a decision that is not active counts as if it had a usual value.

    A fit takes tenths of a second and grows with the cube of the results: above 200 the proposals are those of `tpe`.
    """

    def model(self, results: int) -> Model:
        """The Gaussian process; TPE above 200 results."""
        if results > _MOST_RESULTS:
            return parzen_model(self.parameters)
        return Model("gp", _sampler, self.parameters.filled, _MOST_RESULTS, _MOST_PENDING)


def _sampler(seed: int) -> BaseSampler:
    return GPSampler(seed=seed, n_startup_trials=0)
