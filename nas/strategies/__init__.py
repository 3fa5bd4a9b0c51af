"""Strategies: each proposes candidates and learns from what became of them. One algorithm a file."""

from nas.strategies.strategy import Strategy
from search_spaces import Registry

STRATEGIES = Registry(
    kind="strategy",
    group="nas.strategies",
    builtin={
        "random": "nas.strategies.random:RandomSearch",
        "evolution": "nas.strategies.evolution:RegularizedEvolution",
        "tpe": "nas.strategies.tpe:TreeParzenEstimator",
        "gp": "nas.strategies.gp:GaussianProcess",
    },
)

__all__ = ["STRATEGIES", "Strategy"]
