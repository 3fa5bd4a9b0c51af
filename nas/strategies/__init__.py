"""Strategies: each proposes candidates and learns from what became of them. One algorithm a file."""

from nas.strategies.strategy import HeedsTime, Strategy
from search_spaces import Registry

STRATEGIES = Registry(
    kind="strategy",
    group="nas.strategies",
    builtin={
        "auto": "nas.strategies.auto:Auto",
        "random": "nas.strategies.random:RandomSearch",
        "exhaustive": "nas.strategies.exhaustive:ExhaustiveSearch",
        "local": "nas.strategies.local:LocalSearch",
        "evolution": "nas.strategies.evolution:RegularizedEvolution",
        "tpe": "nas.strategies.tpe:TreeParzenEstimator",
        "gp": "nas.strategies.gp:GaussianProcess",
        "nsga2": "nas.strategies.nsga2:NSGA2",
        "predictor": "nas.strategies.predictor:Predictor",
    },
)

__all__ = ["STRATEGIES", "HeedsTime", "Strategy"]
