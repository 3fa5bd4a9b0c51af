"""Sums of any shape among the operators of torch: reductions, scans, what is looked up and added at places."""

from collections.abc import Callable, Mapping

from search_spaces.aten_call import AtenCall
from search_spaces.operators import COPY, WorkDepth, elementwise, embedding_gradient, lg, mean, reduction, scatter


def reduced(name: str, call: AtenCall) -> WorkDepth:
    """Each element of the result is made of as many of ``self``."""
    results = call.result.numel()
    length = max(1, call.self.numel() // results)
    return results * _REDUCTIONS.get(name, reduction)(length)


def _embedding_gradient(call: AtenCall) -> WorkDepth:
    tokens = max(1, call.indices.numel())
    return embedding_gradient(tokens, call.grad_output.numel() // tokens)


def _scattered(argument: str) -> Callable[[AtenCall], WorkDepth]:
    """All elements of ``argument`` may meet at one place."""

    def formula(call: AtenCall) -> WorkDepth:
        elements = max(1, getattr(call, argument).numel())
        return scatter(elements, elements)

    return formula


def _scan(call: AtenCall) -> WorkDepth:
    """Sums up to each element along ``dim`` (Ladner and Fischer 1980: D = lg n with W below 4 n; here W = n)."""
    length = call.self.shape[call.dim] if call.self.ndim else 1
    return WorkDepth(call.self.numel(), lg(length))


def _gathered(call: AtenCall) -> WorkDepth:
    """Each element of the result is the sum of as many of ``grad_output``, where those are more."""
    sums, results = call.grad_output.numel(), call.written
    return WorkDepth(max(0, sums - results), lg(max(1, sums // results)))


def _copied(call: AtenCall) -> WorkDepth:
    return COPY


def _variance(length: int) -> WorkDepth:
    return mean(length) + elementwise(length, 2) + mean(length)


def _norm(length: int) -> WorkDepth:
    return elementwise(length) + reduction(length) + elementwise(1)


def _log_of_sum(length: int) -> WorkDepth:
    return reduction(length) + elementwise(length, 2) + reduction(length) + elementwise(1, 2)


_REDUCTIONS: Mapping[str, Callable[[int], WorkDepth]] = {
    "mean": mean,
    "var": _variance,
    "var_mean": _variance,
    "std": lambda length: _variance(length) + elementwise(1),
    "std_mean": lambda length: _variance(length) + elementwise(1),
    "linalg_vector_norm": _norm,
    "norm": _norm,
    "logsumexp": _log_of_sum,
}
"""Of one row; the others (sum, maximum...) take one operation for two elements."""

SCATTERS: Mapping[str, Callable[[AtenCall], WorkDepth]] = {
    "embedding": _copied,
    "embedding_dense_backward": _embedding_gradient,
    "index": _copied,
    "index_select": _copied,
    "gather": _copied,
    "take": _copied,
    "index_put": _scattered("values"),
    "index_put_": _scattered("values"),
    "_index_put_impl_": _scattered("values"),
    "_unsafe_index": _copied,
    "_unsafe_index_put": _scattered("values"),
    "index_add": _scattered("source"),
    "index_add_": _scattered("source"),
    "scatter_add": _scattered("src"),
    "scatter_add_": _scattered("src"),
}
SUMS: Mapping[str, Callable[[AtenCall], WorkDepth]] = {
    "cumsum": _scan,
    "cumprod": _scan,
    **{f"upsample_nearest{dims}d_backward": _gathered for dims in (1, 2, 3)},
}
