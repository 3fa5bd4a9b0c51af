"""The plans of an analysed network on this machine: what each is predicted to take, which are worth their devices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cluster.device_memory import local_devices
from cluster.planner import MEMORY_ERROR, degrees, priced, reach, worthwhile
from nas.analysed import Analysed
from nas.errors import ConfigError
from nas.plan_check import check_plan
from nas.present_machine import present_device, trial_rates
from search_spaces.operator_graph import OperatorGraph
from trainers import Plan, numbers_to_json
from trainers.parallelism.calibrated import Calibrated
from trainers.parallelism.gains import Gain, would_gain
from trainers.parallelism.memory import fits
from trainers.parallelism.option import Option
from trainers.parallelism.rates import Machine
from trainers.parallelism.workload import columns, torch_operator


@dataclass(frozen=True)
class Planned:
    """``every`` plan of up to ``devices`` for a global ``batch`` that can be priced on a ``machine``.

    ``gains`` are what other ways would gain at most, once they can be applied. ``limits`` say why there are no other
    plans, ``said`` how the rates were found where they were not kept.
    """

    machine: Machine
    devices: int
    batch: int
    every: tuple[Option, ...]
    gains: tuple[Gain, ...] = ()
    limits: tuple[str, ...] = ()
    said: tuple[str, ...] = ()

    @cached_property
    def offered(self) -> tuple[Option, ...]:
        """Those that fit and are worth their devices, fewest first."""
        return worthwhile(self.every, self.machine)

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
            "would_gain": [{"by": gain.what, "at_most": gain.times, "why": gain.why} for gain in self.gains],
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
            **option.to_json(),
            "devices": option.devices,
            "samples_per_second": self.samples_per_second(option),
        }


def plan_network(
    of: Analysed, graph: OperatorGraph, devices: int, say: Callable[[str], None], machine: Machine | None = None
) -> Planned:
    """Price the network whose step is ``graph``, with the rates of a ``machine``, else of this one.

    These are the ones that are kept, or those of a short calibration.
    """
    from search_spaces.tracing import class_loss
    from trainers.parallelism.traced_step import TracedStep

    said: list[str] = []

    def told(line: str) -> None:
        said.append(line)
        say(line)

    machine = machine or trial_rates(of.config.trainer, min(devices, local_devices(present_device())), say=told)
    within = reach(machine, devices)
    stages = [number for number in degrees(within) if number > 1]
    refused = _refused(of, stages)
    step = TracedStep.of(of.network, of.signature, graph.batch, () if refused else stages, of.loss or class_loss)
    limits = [*step.limits, *refused]
    if within < devices:
        limits.append(f"more than {within} devices: no link between machines is known")
    model = Calibrated(machine, of.size.optimizer)
    every = priced(step.work, model, devices, graph.batch, cuts=step.starts)
    gains = would_gain(graph, columns(graph, kind=torch_operator), machine, devices)
    return Planned(machine, devices, graph.batch, tuple(every), gains, tuple(limits), tuple(said))


def _refused(of: Analysed, stages: Sequence[int]) -> list[str]:
    """Why trials with these settings can have no pipeline, if so."""
    try:
        for number in stages[:1]:
            check_plan(of.config, Plan(pipeline=number))
    except ConfigError as error:
        return [str(error)]
    return []
