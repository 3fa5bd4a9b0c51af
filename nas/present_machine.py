"""The present machine as trials would use it: which device, in which number type, with which rates."""

from collections.abc import Callable, Mapping
from typing import Any

from cluster import ClusterSpec
from cluster.known_machine import known_machine
from cluster.machine_file import device_name
from nas.config_check import named
from nas.errors import ConfigError
from trainers.parallelism.rates import Machine

_PRECISIONS = ("float32", "bfloat16", "float16")


def present_device(name: str = "auto") -> str:
    """Torch's name of the device that is called "auto" (a GPU where there is one), "cpu" or "cuda".

    Raises ConfigError for another name, and for a GPU that is not there.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise ConfigError(f'--device {name}: it is "auto", "cpu" or "cuda"')
    if name == "cpu":
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda:0"
    if name == "cuda":
        raise ConfigError("--device cuda: torch sees no GPU here; use cpu")
    return "cpu"


def unlike_here(cluster: ClusterSpec) -> str:
    """Why rates of the present machine say nothing of a cluster's devices; empty where they seem to be alike."""
    device = present_device()
    here = "cpu" if device == "cpu" else device_name(device)
    there = sorted({node.kind for node in cluster})
    if len(there) == 1 and (there[0].lower() in here.lower() or (there[0] == "gpu" and device != "cpu")):
        return ""
    return f"plans are priced by the rates of this machine's device ({here}), and the cluster has {', '.join(there)}"


def trial_rates(
    settings: Mapping[str, Any],
    devices: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Machine:
    """Rates of a device as trials with these ``settings`` of the trainer use it; see ``known_machine``."""
    device = present_device()
    return known_machine(device, dtype=_dtype(settings, device), devices=devices, say=say)


def _dtype(settings: Mapping[str, Any], device: str) -> str | None:
    """What forward passes compute in where the settings name it; raises ConfigError where the device cannot."""
    precision = settings.get("precision")
    if precision not in _PRECISIONS:  # "auto", or a word of the user's own trainer
        return None
    from trainers.precision import precision_for

    with named("trainer", "trainer"):
        chosen = precision_for(precision, device).dtype
    return "float32" if chosen is None else str(chosen).removeprefix("torch.")
