"""Mixed precision: which number type the forward pass computes in, and the scaling that float16 needs."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Precision:
    """``dtype`` None is plain float32; ``scaler`` is there for float16 only (Micikevicius et al. 2018)."""

    device_type: str
    dtype: torch.dtype | None = None
    scaler: torch.amp.GradScaler | None = None

    def autocast(self) -> AbstractContextManager[object]:
        """Context of a forward pass."""
        return torch.autocast(self.device_type, self.dtype) if self.dtype else nullcontext()


def precision_for(name: str, device: str) -> Precision:
    """Choose by the setting ``precision``: "auto" is bfloat16 or else float16 on an accelerator, float32 on a CPU.

    Raises ValueError for float16 on a CPU.
    """
    kind = torch.device(device).type
    if name == "auto":
        name = "float32" if kind != "cuda" else "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    if name == "float16" and kind == "cpu":
        raise ValueError('precision = "float16": a CPU trains in float32 or bfloat16; use "auto"')
    if name == "float32":
        return Precision(kind)
    if name == "bfloat16":
        return Precision(kind, torch.bfloat16)
    return Precision(kind, torch.float16, torch.amp.GradScaler(kind))
