"""What a device and its links can do: the few numbers that the cost model multiplies with (MODELS.md 4.1).

They are measured or fitted, never built in. All rates are per second, all sizes in bytes.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import ceil, inf, isfinite
from typing import Any

import numpy as np

from trainers.parallelism.arrays import FloatArray

MEASURED_FROM = float(2**20)
"""Bytes above which a measured table is trusted more than the closed form."""
UNLIMITED = ("memory_bytes", "fresh_from_bytes")
"""Rates of a device that may be infinite."""


@dataclass(frozen=True, slots=True)
class OperatorRate:
    """Rate of one kind of operator: ``t = launch + max(F / (R s(F)), B / beta)``, ``s(F) = F / (F + F_half)``."""

    flops_per_second: float
    """R: peak rate."""
    half_flops: float
    """F_half: an operator of this size runs at half the peak rate."""
    bytes_per_second: float
    """beta."""
    launch_seconds: float
    """lambda: the least that an operator takes on the device."""

    def __post_init__(self) -> None:
        for name in ("flops_per_second", "bytes_per_second"):
            _check(name, getattr(self, name), least=0, excluded=True)
        for name in ("half_flops", "launch_seconds"):
            _check(name, getattr(self, name), least=0)


@dataclass(frozen=True)
class Link:
    """What a group of ``ranks`` processes on ``nodes`` machines needs for a message: L + B G; measured all-reduces.

    ``measured`` holds (bytes, seconds) of all-reduces in ascending order of bytes. A message from one process to
    another takes L and G too, or what is measured of it.
    """

    ranks: int
    nodes: int
    latency_seconds: float
    """L."""
    seconds_per_byte: float
    """G."""
    measured: tuple[tuple[float, float], ...] = ()
    send_latency_seconds: float | None = None
    send_seconds_per_byte: float | None = None
    slow_down: float = 1.0
    """What a rank's own computing takes longer while all of the group compute: they share memory and caches."""

    def __post_init__(self) -> None:
        _check("latency_seconds", self.latency_seconds, least=0)
        _check("seconds_per_byte", self.seconds_per_byte, least=0)
        _check("send_latency_seconds", self.send_latency_seconds or 0.0, least=0)
        _check("send_seconds_per_byte", self.send_seconds_per_byte or 0.0, least=0)
        _check("slow_down", self.slow_down, least=0, excluded=True)
        sizes = [size for size, _ in self.measured]
        if sizes != sorted(set(sizes)):
            raise ValueError("link: measured = sizes out of order; give (bytes, seconds) by ascending bytes, each once")

    @cached_property
    def trusted(self) -> FloatArray:
        """Bytes and seconds [2, sizes] of what is measured at 1 MiB and above."""
        return np.array([entry for entry in self.measured if entry[0] >= MEASURED_FROM]).T


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Rates of one device with one ``dtype``.

    A rate is of a kind, or of one operator of torch as ``"kind/name"``; those that have no rate of their own take that
    of their kind, or else that of ``"other"``.
    """

    device: str
    dtype: str
    operators: Mapping[str, OperatorRate]
    host_seconds: float
    """What the host needs to issue an operator; the device waits where its operators are shorter."""
    exchange_host_seconds: float
    """The same for a collective inside a network."""
    optimizer_bytes_per_second: float
    memory_bytes: float = inf
    context_bytes: float = 0.0
    tensor_seconds: float = 0.0
    """Of the optimiser and the clipping of gradients for each tensor of parameters, whatever its size."""
    step_seconds: float = 0.0
    """Of a training step, whatever the network: its batch, its schedule, the loop."""
    fresh_from_bytes: float = inf
    """What an operator writes is memory fresh from the system where it is as much: glibc keeps no such piece."""
    fresh_seconds_per_byte: float = 0.0
    """What each byte of fresh memory takes beside."""

    def __post_init__(self) -> None:
        if "other" not in self.operators:
            raise ValueError(
                f"device {self.device}: operators = {sorted(self.operators)}, a rate of 'other' is missing"
            )

    def rate(self, kind: str) -> OperatorRate:
        """Rate of operators of a ``kind``, or of one operator of it, as ``"kind/name"``."""
        known = self.operators
        return known.get(kind) or known.get(kind.partition("/")[0]) or known["other"]


@dataclass(frozen=True, slots=True)
class Machine:
    """Devices of one kind and their links."""

    device: DeviceRates
    links: tuple[Link, ...] = ()
    devices_per_node: int = 1
    overlap: float = 1.0
    """rho: the part of the backward pass that gradients can be exchanged behind."""
    log_error: float = 0.0
    """Standard deviation of log(measured / predicted), from the fit."""

    def nodes(self, ranks: int, stride: int = 1) -> int:
        """Nodes that a group spans whose ``ranks`` are every ``stride``-th device."""
        return min(ranks, ceil(ranks * stride / self.devices_per_node))

    def link(self, ranks: int, nodes: int = 1) -> Link:
        """The link of a group: its own, else that of the group nearest in size; raise ValueError without any.

        Groups inside a node do not stand for groups across nodes, nor the other way.
        """
        alike = [link for link in self.links if (link.nodes > 1) == (nodes > 1)]
        if not alike:
            where = "across nodes" if nodes > 1 else "inside a node"
            raise ValueError(f"machine {self.device.device}: no link {where} is known; calibrate with such a group")
        return min(alike, key=lambda link: (abs(link.ranks - ranks), abs(link.nodes - nodes)))

    def slow_down(self, ranks: int) -> float:
        """Factor of computing where ``ranks`` compute at once: that of the group on one node nearest in size."""
        inside = [link for link in self.links if link.nodes == 1]
        if ranks == 1 or not inside:
            return 1.0
        return min(inside, key=lambda link: abs(link.ranks - ranks)).slow_down

    def to_json(self) -> str:
        """As text that ``from_json`` reads back to an equal value; what is infinite is null."""
        values = asdict(self)
        for name in UNLIMITED:
            if values["device"][name] == inf:
                values["device"][name] = None
        return json.dumps(values, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Machine":
        """Read what ``to_json`` wrote; raise ValueError where a field is missing, unknown or out of its range."""
        try:
            values = json.loads(text)
            return cls(**(values | {"device": _device(values["device"]), "links": tuple(map(_link, values["links"]))}))
        except (KeyError, TypeError) as error:
            raise ValueError(f"rates of a machine: {error}; measure them again with 'nas calibrate'") from error


def _device(values: dict[str, Any]) -> DeviceRates:
    operators = {kind: OperatorRate(**rate) for kind, rate in values["operators"].items()}
    unlimited = {name: inf for name in UNLIMITED if name in values and values[name] is None}
    return DeviceRates(**(values | {"operators": operators} | unlimited))


def _link(values: dict[str, Any]) -> Link:
    return Link(**(values | {"measured": tuple((size, seconds) for size, seconds in values["measured"])}))


def _check(name: str, value: float, least: float, excluded: bool = False) -> None:
    if not isfinite(value) and value != inf or value < least or (excluded and value == least):
        rule = "above" if excluded else "at least"
        raise ValueError(f"rates: {name} = {value!r}, expected a number {rule} {least}")
