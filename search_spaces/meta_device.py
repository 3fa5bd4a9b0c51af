"""Building networks on the meta device without initialising them: what has no values needs none drawn."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import init
from torch.utils._device import DeviceContext, _device_constructors

_FILLS: frozenset[Callable[..., Any]] = frozenset(
    {
        Tensor.bernoulli_,
        Tensor.fill_,
        Tensor.normal_,
        Tensor.uniform_,
        Tensor.zero_,
        init.constant_,
        init.kaiming_normal_,
        init.kaiming_uniform_,
        init.normal_,
        init.trunc_normal_,
        init.uniform_,
    }
)
"""They write their first argument and return it."""


class MetaDevice(DeviceContext):
    """As ``with torch.device("meta")``, and filling a tensor that is there does nothing."""

    def __init__(self) -> None:
        super().__init__(torch.device("meta"))
        self._constructors = frozenset(_device_constructors())

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call ``func``, unless all it would do is to fill a tensor of the meta device."""
        if func in _FILLS:
            tensor = args[0] if args else (kwargs or {}).get("tensor")
            if isinstance(tensor, Tensor) and tensor.is_meta:
                return tensor
        elif func in self._constructors:
            kwargs = kwargs or {}
            if kwargs.get("device") is None:
                kwargs["device"] = self.device
        return func(*args, **kwargs) if kwargs else func(*args)
