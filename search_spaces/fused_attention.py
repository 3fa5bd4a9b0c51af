"""Attention on the meta device as on real ones: one fused operator (Dao et al. 2022), where a CPU would fuse it.

Without this torch takes its plain formula on the meta device, which keeps all scores for the backward pass.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from torch import Tensor
from torch.library import Library

_LOCK = Lock()
"""Torch takes one kernel for an operator and a device at a time."""


@contextmanager
def fused_attention() -> Iterator[None]:
    """Within this context ``scaled_dot_product_attention`` of meta tensors is fused, in the whole process."""
    with _LOCK:
        library = Library("aten", "IMPL")  # type: ignore[no-untyped-call]
        try:
            library.impl("scaled_dot_product_attention", _attention, "AutogradMeta")  # type: ignore[no-untyped-call]
            yield
        finally:
            library._destroy()  # type: ignore[no-untyped-call]


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    result: Any
    if dropout_p == 0.0 and _fusible(query, key, value, attn_mask):
        mask = _additive(attn_mask, query)
        result = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, is_causal, attn_mask=mask, scale=scale
        )
    else:
        result = torch.ops.aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    output: Tensor = result[0]
    return output


def _fusible(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """The conditions of torch's fused kernel for CPUs: ``use_flash_attention_cpp`` in its ``sdp_utils_cpp.cpp``."""
    parts = (query, key, value)
    if any(part.ndim != 4 or part.stride(-1) != 1 or 0 in part.shape for part in parts):
        return False
    if len({(part.shape[0], part.shape[1], part.shape[3]) for part in parts}) > 1:
        return False
    return mask is None or (mask.ndim in (2, 4) and not mask.requires_grad)


def _additive(mask: Tensor | None, query: Tensor) -> Tensor | None:
    """What is added to the scores: torch turns a mask of truth values into 0 and minus infinity."""
    if mask is None or mask.dtype is not torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, float("-inf"))
