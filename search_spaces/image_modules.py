"""Parts that the networks for images share: norms, the stem's stride, squeeze-and-excitation."""

from torch import Tensor, nn

_STEM_LIMIT = 64
"""A stem brings larger images down below this."""


def norm(kind: str, width: int) -> nn.BatchNorm2d | nn.GroupNorm:
    """Batch norm, or group norm of the most groups up to 8 that divide ``width``."""
    if kind == "batch":
        return nn.BatchNorm2d(width)
    groups = next(groups for groups in (8, 7, 6, 5, 4, 3, 2, 1) if width % groups == 0)
    return nn.GroupNorm(groups, width)


def stem_stride(side: int, least: int = 1) -> int:
    """``least``, doubled until it brings ``side`` below the limit."""
    stride = least
    while side // stride >= _STEM_LIMIT:
        stride *= 2
    return stride


class SqueezeExcitation(nn.Module):
    """Scales each channel by a gate of the channels' means (Hu et al. 2018, eqs. 2 to 4)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(width, hidden)
        self.excite = nn.Linear(hidden, width)
        nn.init.kaiming_normal_(self.squeeze.weight, nonlinearity="relu")
        nn.init.xavier_normal_(self.excite.weight)
        for layer in (self.squeeze, self.excite):
            nn.init.zeros_(layer.bias)

    def forward(self, features: Tensor) -> Tensor:
        """[batch, channels, height, width] to the same shape."""
        gates: Tensor = self.excite(self.squeeze(features.mean((2, 3))).relu()).sigmoid()
        return features * gates[:, :, None, None]
