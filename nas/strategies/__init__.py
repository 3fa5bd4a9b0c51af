"""Strategies: each proposes candidates and learns from what became of them. One algorithm a file."""

from nas.strategies.strategy import Strategy
from search_spaces import Registry

STRATEGIES = Registry(
    kind="strategy",
    group="nas.strategies",
    builtin={
        "random": "nas.strategies.random:RandomSearch",
        "exhaustive": "nas.strategies.exhaustive:ExhaustiveSearch",
        "local": "nas.strategies.local:LocalSearch",
        "evolution": "nas.strategies.evolution:RegularizedEvolution",
        "nsga2": "nas.strategies.nsga2:NSGA2",
        "tpe": "nas.strategies.tpe:TreeParzenEstimator",
        "gp": "nas.strategies.gp:GaussianProcess",
    },
)

__all__ = ["STRATEGIES", "Strategy"]
