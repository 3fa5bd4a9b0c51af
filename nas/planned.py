"""The plans of an analysed network on this machine: what each is predicted to take, which are worth their devices."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cluster.device_memory import local_devices
from cluster.planner import MEMORY_ERROR, Option, Workloads, degrees, pareto, priced, reach
from nas.analysed import Analysed
from nas.errors import ConfigError
from nas.plan_check import check_plan
from nas.present_machine import present_device, trial_rates
from search_spaces.operator_graph import OperatorGraph
from trainers import Plan, numbers_to_json
from trainers.parallelism.calibrated import Calibrated
from trainers.parallelism.memory import fits
from trainers.parallelism.rates import Machine
from trainers.parallelism.workload import Workload, columns, torch_operator

if TYPE_CHECKING:
    from trainers.parallelism.applied_cuts import AppliedCuts

_SMALL = 2
"""Samples of the second trace, from which other batches follow; a norm needs two."""


@dataclass(frozen=True)
class Planned:
    """``every`` plan of up to ``devices`` for a global ``batch`` that can be priced on a ``machine``.

    ``limits`` say why there are no others, ``said`` how the rates were found where they were not kept.
    """

    machine: Machine
    devices: int
    batch: int
    every: tuple[Option, ...]
    limits: tuple[str, ...] = ()
    said: tuple[str, ...] = ()

    @cached_property
    def offered(self) -> tuple[Option, ...]:
        """Those that fit and are worth their devices, fewest first."""
        return pareto(option for option in self.every if self._fits(option))

    @cached_property
    def too_large(self) -> tuple[Option, ...]:
        """Those that do not fit a device's memory, the smallest first."""
        return tuple(sorted((o for o in self.every if not self._fits(o)), key=lambda option: option.memory_bytes))

    @cached_property
    def slower(self) -> tuple[Option, ...]:
        """Those that fit, where one of as few devices is as fast."""
        return tuple(option for option in self.every if self._fits(option) and option not in self.offered)

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        rates = self.machine.device
        dropped = [("memory", option) for option in self.too_large] + [("slower", option) for option in self.slower]
        return {
            "devices": self.devices,
            "batch": self.batch,
            "device": rates.device,
            "dtype": rates.dtype,
            **numbers_to_json({"device_memory_bytes": rates.memory_bytes}),
            "memory_log_error": MEMORY_ERROR,
            "options": [self._plain(option) for option in self.offered],
            "dropped": [{"reason": reason, **self._plain(option)} for reason, option in dropped],
            "limits": list(self.limits),
            "said": list(self.said),
        }

    def samples_per_second(self, option: Option) -> float:
        """Of training, under this option."""
        return self.batch / option.seconds

    def _fits(self, option: Option) -> bool:
        return fits(option.memory_bytes, MEMORY_ERROR, self.machine)

    def _plain(self, option: Option) -> dict[str, Any]:
        return {
            "plan": str(option.plan),
            "devices": option.devices,
            "seconds": option.seconds,
            "log_error": option.log_error,
            "samples_per_second": self.samples_per_second(option),
            "memory_bytes": option.memory_bytes,
        }


def plan_network(of: Analysed, graph: OperatorGraph, devices: int, say: Callable[[str], None]) -> Planned:
    """Price the network whose step is ``graph``, with the rates that are kept or those of a short calibration."""
    said: list[str] = []

    def told(line: str) -> None:
        said.append(line)
        say(line)

    machine = trial_rates(of.config.trainer, min(devices, local_devices(present_device())), say=told)
    whole = columns(graph, kind=torch_operator)
    work, limits = _workloads(of, whole)
    within = reach(machine, devices)
    if within < devices:
        limits.append(f"more than {within} devices: no link between machines is known")
    cuts = _cuts(of, graph, whole, within)
    if cuts.refusal:
        limits.append(cuts.refusal)
    model = Calibrated(machine, of.size.optimizer)
    every = priced(work, model, devices, graph.batch, cuts=cuts.starts)
    return Planned(machine, devices, graph.batch, tuple(every), tuple(limits), tuple(said))


def _cuts(of: Analysed, graph: OperatorGraph, work: Workload, devices: int) -> "AppliedCuts":
    """Of pipelines that trials with these settings could have."""
    from search_spaces.tracing import class_loss
    from trainers.parallelism.applied_cuts import AppliedCuts, applied_cuts

    stages = [number for number in degrees(devices) if number > 1]
    if not stages:
        return AppliedCuts()
    try:
        check_plan(of.config, Plan(pipeline=stages[0]))
    except ConfigError as error:
        return AppliedCuts(refusal=str(error))
    return applied_cuts(of.network, of.signature, graph, work, stages, of.loss or class_loss)


def _workloads(of: Analysed, whole: Workload) -> tuple[Workloads, list[str]]:
    """Workloads at any batch, or at that of ``whole`` alone, and why."""
    from search_spaces.tracing import TraceError, class_loss, trace
    from trainers.parallelism.scaling import Scaled

    samples = int(whole.samples)
    other = _SMALL if samples > _SMALL else 2 * samples
    try:
        graph = trace(of.network, of.signature, other, of.loss or class_loss)
        return Scaled(whole, columns(graph, kind=torch_operator)), []
    except (TraceError, ValueError) as error:

        def alone(asked: int) -> Workload:
            if asked != samples:
                raise ValueError(f"the work of {asked} samples is unknown")
            return whole

        return alone, [f"plans that share the batch: {error}"]
