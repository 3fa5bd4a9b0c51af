"""Fidelity rules: how far each trial is trained, and which trial goes on. One rule a file, the contract apart."""

from nas.fidelity.asha import AsynchronousHalving
from nas.fidelity.asha_stop import StoppingHalving
from nas.fidelity.contract import Continue, Decision, FidelityRule, Verdict
from nas.fidelity.full import FullFidelity
from nas.fidelity.hyperband import Hyperband
from nas.fidelity.levels import rungs
from nas.fidelity.median import MedianStopping
from nas.fidelity.sha import SuccessiveHalving
from search_spaces import Registry

RULES = Registry(
    kind="fidelity rule",
    group="nas.fidelity_rules",
    builtin={
        "none": "nas.fidelity:FullFidelity",
        "median": "nas.fidelity:MedianStopping",
        "sha": "nas.fidelity:SuccessiveHalving",
        "asha": "nas.fidelity:AsynchronousHalving",
        "asha-stop": "nas.fidelity:StoppingHalving",
        "hyperband": "nas.fidelity:Hyperband",
    },
)

__all__ = [
    "RULES",
    "AsynchronousHalving",
    "Continue",
    "Decision",
    "FidelityRule",
    "FullFidelity",
    "Hyperband",
    "MedianStopping",
    "StoppingHalving",
    "SuccessiveHalving",
    "Verdict",
    "rungs",
]
