"""How a leg can fail. A failure is a value that travels; a user's exception never crosses a process border."""

import os
import traceback
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_MESSAGE_CHARACTERS = 2_000
_TRACEBACK_CHARACTERS = 6_000


class Diverged(Exception):  # noqa: N818 - a verdict on a candidate, not an error
    """Raised by a trainer whose loss is no longer finite; ``step`` is the optimiser step, from 0."""

    def __init__(self, step: int, loss: float = float("nan")) -> None:
        super().__init__(f"the loss became {loss} at step {step}")
        self.step = step


class FailureKind(StrEnum):
    """Why a leg ended without its measurement (DESIGN, "Outcomes")."""

    INFEASIBLE = "infeasible"
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    ERROR = "error"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    CANCELLED = "cancelled"
    STORAGE = "storage"


@dataclass(frozen=True, slots=True)
class Failure:
    """``stage`` says where (build, load, train, checkpoint, start); ``error`` is the exception's type name and
    ``frame`` its innermost frame as ``file:line function``, by which repeated errors are recognised.
    """

    kind: FailureKind
    message: str
    stage: str = "train"
    error: str = ""
    frame: str = ""
    traceback: str = ""

    @classmethod
    def of(cls, error: BaseException, stage: str, kind: FailureKind = FailureKind.ERROR) -> "Failure":
        """Record of an exception: message and traceback are cut to a few kB."""
        frames = traceback.extract_tb(error.__traceback__)
        last = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno} {frames[-1].name}" if frames else ""
        text = "".join(traceback.format_exception(error))
        return cls(
            kind=kind,
            message=_clean(_message(error))[:_MESSAGE_CHARACTERS],
            stage=stage,
            error=type(error).__name__,
            frame=_clean(last),
            traceback=_clean(text)[-_TRACEBACK_CHARACTERS:],
        )

    def to_json(self) -> dict[str, Any]:
        """Plain form for the log; empty texts are left out."""
        fields = {name: getattr(self, name) for name in ("message", "stage", "error", "frame", "traceback")}
        return {"kind": self.kind.value, **{name: text for name, text in fields.items() if text}}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Failure":
        """Inverse of `to_json`."""
        return cls(**{"message": "", "stage": "", **plain, "kind": FailureKind(plain["kind"])})


def _clean(text: str) -> str:
    """Replace lone surrogates (a file name in another encoding), which JSON cannot hold."""
    return text.encode("utf-8", "replace").decode()


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # a user's __str__ may itself fail
        return f"(its text cannot be made: {type(broken).__name__})"
