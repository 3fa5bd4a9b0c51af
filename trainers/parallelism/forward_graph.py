"""The forward pass of a network as a graph of calls in the order in which they run (torch.fx; Reed et al. 2022)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import fx, nn

_NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


class UnknownGraphError(Exception):
    """A network whose forward pass cannot be followed; the text says why."""


def forward_graph(network: nn.Module) -> fx.Graph:
    """The calls of ``network``, which takes one input; both its modes are the same graph.

    Followed are the network itself and all modules inside it that can be; any other is one call. Raises
    UnknownGraphError where that is the network itself.
    """
    tracer = _Tracer({})
    try:
        texts = [_text(tracer, network, training) for training in (True, False)]
        graph = tracer.trace(network)
    except Exception as error:
        raise UnknownGraphError(
            f"its forward() cannot be followed without data ({type(error).__name__}: {str(error).splitlines()[0]})"
            if str(error)
            else f"its forward() cannot be followed without data ({type(error).__name__})"
        ) from error
    if texts[0] != texts[1]:
        raise UnknownGraphError(
            "its forward() itself asks whether it is training; move that into a module of its own, such as nn.Dropout"
        )
    _keep_defaults(graph)
    _without_identities(network, graph)
    return graph


class _Tracer(fx.Tracer):
    """Follows a module unless it is torch's, or alone cannot be followed, or differs between its modes."""

    def __init__(self, judged: dict[nn.Module, bool]) -> None:
        super().__init__()
        self._judged = judged

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether ``m`` is one call."""
        if super().is_leaf_module(m, module_qualified_name) or isinstance(m, _NORMS):
            return True
        if m not in self._judged:
            self._judged[m] = _opaque(_Tracer(self._judged), m)
        return self._judged[m]


def _opaque(tracer: _Tracer, module: nn.Module) -> bool:
    try:
        return _text(tracer, module, True) != _text(tracer, module, False)
    except Exception:
        return True


def _text(tracer: _Tracer, module: nn.Module, training: bool) -> str:
    with in_mode(module, training):
        return str(tracer.trace(module))


@contextmanager
def in_mode(network: nn.Module, training: bool) -> Iterator[None]:
    """Let all modules of ``network`` be ``training`` or not; then each goes back to the mode that it had."""
    modes = [(module, module.training) for module in network.modules()]
    network.train(training)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _keep_defaults(graph: fx.Graph) -> None:
    """Put their defaults in place of all inputs but the first."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for node in placeholders[1:]:
        if not node.args and node.users:
            raise UnknownGraphError(f"it takes {len(placeholders)} inputs, and a task gives one")
        default = node.args[0] if node.args else None
        for user in list(node.users):
            user.args, user.kwargs = (_with(given, node, default) for given in (user.args, user.kwargs))
        graph.erase_node(node)


def _without_identities(network: nn.Module, graph: fx.Graph) -> None:
    """Let what an identity returns be what it takes: a tensor that passes a border is then sent once."""
    for node in graph.nodes:
        if node.op == "call_module" and type(network.get_submodule(str(node.target))) is nn.Identity and node.args:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def _with(given: Any, node: fx.Node, value: Any) -> Any:
    """The arguments ``given`` with ``value`` in place of ``node``."""
    return fx.node.map_arg(given, lambda other: value if other is node else other)
