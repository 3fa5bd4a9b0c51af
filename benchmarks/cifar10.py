"""The task of `benchmarks.real_search`: CIFAR-10 (Krizhevsky 2009), some of its images."""

import os
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from search_spaces import Signature, TensorType
from trainers.task import Data
from trainers.tasks.classification import Classification, split

if TYPE_CHECKING:
    import torch

_MEAN = (0.491, 0.482, 0.447)
_DEVIATION = (0.247, 0.243, 0.262)


@dataclass(frozen=True)
class Cifar10(Classification):
    """60/20/20 of ``images`` images of the original training set; half of each batch is mirrored."""

    path: str = "../shared/data/real/cifar10_jpeg.npz"
    images: int = 10_000
    split_seed: int = 0
    signature: Signature = Signature(TensorType((3, 32, 32)), TensorType((10,)))

    def load(self) -> Data:
        """Decode the images, of about zero mean and unit deviation, float32 [images, 3, 32, 32]."""
        from PIL import Image

        with np.load(self.path) as file:
            blob, offsets = file["blob"], file["offsets"]
            chosen = np.random.default_rng(0).permutation(np.flatnonzero(file["split"] == "train"))[: self.images]
            _, labels = np.unique(file["label"][chosen], return_inverse=True)
        pixels = np.stack([np.asarray(Image.open(BytesIO(blob[offsets[at] : offsets[at + 1]]))) for at in chosen])
        scaled = (pixels / 255 - _MEAN) / _DEVIATION
        return split(scaled.transpose(0, 3, 1, 2).astype("float32"), labels.astype("int64"), self.split_seed)

    def augment(self, inputs: "torch.Tensor", generator: "torch.Generator") -> "torch.Tensor":
        """Mirror about half of the images."""
        import torch

        mirrored = torch.rand((len(inputs), 1, 1, 1), generator=generator, device=inputs.device) < 0.5
        return torch.where(mirrored, inputs.flip(-1), inputs)


def path(data: str | None) -> str:
    """Where the file is; SystemExit saying what is missing."""
    file = Path(data or os.environ.get("NAS_BENCHMARK_DATA", "../shared/data")) / "real" / "cifar10_jpeg.npz"
    if not file.is_file():
        raise SystemExit(f"{file} is missing; give --data DIR or set NAS_BENCHMARK_DATA")
    return str(file.resolve())
