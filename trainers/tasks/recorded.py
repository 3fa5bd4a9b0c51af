"""A task whose results were recorded before: a table takes the place of training."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from search_spaces import Architecture, Infeasible, SearchSpace, Signature, TensorType
from search_spaces.recorded import RecordedSpace, read_arrays, read_spec
from trainers.measurement import Fidelity
from trainers.task import Data

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


class Recorded:
    """The table at ``path`` (`search_spaces.recorded`).

    ``codes`` [rows, decisions] are places of options, ``fidelities`` [F], ``metric:NAME`` and ``seconds`` [rows, F],
    ``cost:NAME`` [rows]. A code without a row is infeasible.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.spec = read_spec(path)
        # every task has one; nothing is built for this one
        self.signature = Signature(TensorType((1,)), TensorType((1,)))

    @cached_property
    def fidelities(self) -> list[int | float]:
        """Fidelities at which there are results, increasing."""
        return list(self._arrays["fidelities"].tolist())

    @property
    def resumable(self) -> bool:
        """Whether going on from a fidelity to a higher one pays the difference; else it pays all of the higher one."""
        return bool(self.spec.get("resumable", False))

    def measure(self, architecture: Architecture, fidelity: Fidelity) -> dict[str, float]:
        """Metrics recorded at ``fidelity``, and costs; NaN where a run diverged.

        Raises Infeasible for a code without a row, ValueError for a fidelity at which nothing was recorded.
        """
        row, at = self._row(architecture), self._place(fidelity)
        return {name: float(values[row, at] if values.ndim == 2 else values[row]) for name, values in self._metrics}

    def seconds(self, architecture: Architecture, start: Fidelity, until: Fidelity) -> float:
        """Seconds of going on from ``start`` to ``until`` and validating once; 1 where the table has no times."""
        if "seconds" not in self._arrays:
            return 1.0
        row, times = self._row(architecture), self._arrays["seconds"]
        paid = float(times[row, self._place(until)])
        if self.resumable and start:
            paid -= float(times[row, self._place(start)])
        return max(paid, 0.0) + float(self.spec.get("validation_seconds", 0.0))

    def load(self) -> Data:
        """There are no samples."""
        raise ValueError(f'{self.path} holds results, no data: search it with task = "table:PATH" and no trainer')

    def loss(self, outputs: "torch.Tensor", targets: "torch.Tensor") -> "torch.Tensor":
        """There is nothing to train."""
        raise ValueError(f"{self.path} holds results: there is nothing to train")

    def metrics(self, outputs: "torch.Tensor", targets: "torch.Tensor") -> dict[str, float]:
        """There is nothing to measure."""
        raise ValueError(f"{self.path} holds results: there is nothing to measure")

    def augment(self, inputs: "torch.Tensor", generator: "torch.Generator") -> "torch.Tensor":
        """Leave the batch as it is."""
        return inputs

    @cached_property
    def _arrays(self) -> "Mapping[str, NDArray[Any]]":
        return {name: values for name, values in read_arrays(self.path).items() if name != "spec"}

    @cached_property
    def _metrics(self) -> "list[tuple[str, NDArray[Any]]]":
        named = [(name.partition(":"), values) for name, values in self._arrays.items()]
        return [(parts[2], values) for parts, values in named if parts[0] in ("metric", "cost") and parts[1]]

    @cached_property
    def _space(self) -> SearchSpace:
        return RecordedSpace(self.path)

    @cached_property
    def _rows(self) -> dict[bytes, int]:
        return {code.tobytes(): row for row, code in enumerate(self._arrays["codes"].astype(np.int64))}

    def _row(self, architecture: Architecture) -> int:
        slots = self._space.domain.slots
        try:
            code = np.array([slot.decision.index(architecture[slot.name]) for slot in slots], dtype=np.int64)
        except KeyError as error:
            raise ValueError(f"the table has a decision {error}, which the space has not") from None
        row = self._rows.get(code.tobytes())
        if row is None:
            raise Infeasible("the table has no row for it")
        return row

    def _place(self, fidelity: Fidelity) -> int:
        if fidelity not in self.fidelities:
            some = ", ".join(f"{level:g}" for level in self.fidelities[:12])
            raise ValueError(
                f"fidelity = {fidelity}: the table records {some}{'...' if len(self.fidelities) > 12 else ''}; "
                "choose [fidelity] min, max and eta so that every rung is one of them"
            )
        return self.fidelities.index(fidelity)
