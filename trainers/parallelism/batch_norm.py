"""Batch normalisation over the samples of all ranks (Ioffe and Szegedy 2015, algorithm 1), on CPUs as well."""

from typing import Any

import torch
from torch import distributed, nn
from torch.nn.modules.batchnorm import _BatchNorm


class _Sum(torch.autograd.Function):
    """Sum over ranks; its gradient is the sum of the ranks' gradients."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor) -> torch.Tensor:
        total = tensor.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        total = gradient.contiguous().clone()
        distributed.all_reduce(total)
        return total


class GlobalBatchNorm(_BatchNorm):
    """Takes the place of BatchNorm1d, 2d and 3d; same parameters, buffers and state.

    ``idle`` ranks, which have no sample of a batch, join the sums with nothing.
    """

    idle: bool = False

    def _check_input_dim(self, input: torch.Tensor) -> None:  # noqa: A002 - torch's name
        if input.dim() < 2:
            raise ValueError(f"batch norm: expected [samples, channels, ...], got {input.dim()} dims")

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - torch's name
        """Normalise ``input`` [samples, channels, ...]."""
        self._check_input_dim(input)
        if not self.training:
            return super().forward(input)
        dims = [dim for dim in range(input.dim()) if dim != 1]
        count, mean, variance = self._statistics(input, dims)
        if self.running_mean is not None:
            self._track(count, mean.detach(), variance.detach())
        shape = [1, -1] + [1] * (input.dim() - 2)
        scale = torch.rsqrt(variance + self.eps)
        if self.weight is not None:
            scale = scale * self.weight
        shift = -mean * scale if self.bias is None else self.bias - mean * scale
        return input * scale.view(shape).to(input.dtype) + shift.view(shape).to(input.dtype)

    def _statistics(self, input: torch.Tensor, dims: list[int]) -> tuple[torch.Tensor, ...]:  # noqa: A002
        """Count, mean [channels] and biased variance [channels] over all ranks.

        Count, sum and sum of squares are reduced in float64: their differences would cost float32 its digits.
        """
        values = input.float()
        variance, mean = torch.var_mean(values, dims, correction=0)
        count = 0 if self.idle else values.numel() // values.shape[1]
        mean, variance = mean.double(), variance.double()
        sums = torch.cat([mean.new_full((1,), count), count * mean, count * (variance + mean * mean)])
        total: torch.Tensor = _Sum.apply(sums)  # type: ignore[no-untyped-call]
        everywhere = total[:1].detach()
        mean, square = (total[1:] / everywhere).chunk(2)
        return everywhere, mean.float(), (square - mean * mean).clamp(min=0).float()

    def _track(self, count: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        momentum = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_((variance * count / (count - 1).clamp(min=1)).float(), momentum)


def make_global(network: nn.Module) -> nn.Module:
    """Replace every BatchNorm1d, 2d and 3d inside ``network``, which shares its parameters with the result."""
    if type(network) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
        return _global_twin(network)
    for name, child in list(network.named_children()):
        setattr(network, name, make_global(child))
    return network


def _global_twin(norm: Any) -> GlobalBatchNorm:
    twin = GlobalBatchNorm(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    if norm.affine:
        twin.weight, twin.bias = norm.weight, norm.bias
    twin.running_mean, twin.running_var = norm.running_mean, norm.running_var
    twin.num_batches_tracked = norm.num_batches_tracked
    return twin.train(norm.training)
