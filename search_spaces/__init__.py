"""Search spaces: what can be built, as decisions, and how a network is built from their values.

Importing this package, or the declaration of a space, loads no torch: modules are imported when a network is
built.
"""

from search_spaces.bound import Bound, Infeasible, broken
from search_spaces.candidate import Candidate, CandidateSpace
from search_spaces.decisions import Cell, Choice, Decision, Float, Integer, Repeat, When
from search_spaces.domain import Domain
from search_spaces.hyperparameters import hyperparameter_domain
from search_spaces.registry import Reference, Registry, UnknownPluginError, load_object
from search_spaces.signature import Signature, TensorType
from search_spaces.space import SearchSpace
from search_spaces.statics import MetaBuildError, count_parameters, meta_network, static_metrics
from search_spaces.values import Architecture, Value, Values

SPACES = Registry(
    kind="space",
    group="nas.search_spaces",
    builtin={
        "mlp": "search_spaces.mlp:MLP",
        "convnet": "search_spaces.convnet:ConvNet",
        "cell201": "search_spaces.cell201:Cell201",
        "mobile": "search_spaces.mobile:Mobile",
        "transformer": "search_spaces.transformer:Transformer",
    },
)

__all__ = [
    "SPACES",
    "Architecture",
    "Bound",
    "Candidate",
    "CandidateSpace",
    "Cell",
    "Choice",
    "Decision",
    "Domain",
    "Float",
    "Infeasible",
    "Integer",
    "MetaBuildError",
    "Reference",
    "Registry",
    "Repeat",
    "SearchSpace",
    "Signature",
    "TensorType",
    "UnknownPluginError",
    "Value",
    "Values",
    "When",
    "broken",
    "count_parameters",
    "hyperparameter_domain",
    "load_object",
    "meta_network",
    "static_metrics",
]
