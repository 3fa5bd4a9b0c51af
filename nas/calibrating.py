"""`nas calibrate`: measure the present device and its links, and keep the rates in the user's cache."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.calibration import LONG, Calibration, calibrate
from cluster.known_machine import as_trained
from cluster.machine_file import cache_folder, save
from nas.errors import ConfigError, StorageError
from nas.present_machine import present_device

MOST_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What was measured, and the file that holds it."""

    calibration: Calibration
    path: Path

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        measured, key = self.calibration, self.calibration.key
        device = measured.machine.device
        return {
            "file": str(self.path),
            "device": key.device,
            "torch": key.torch,
            "dtype": key.dtype,
            "threads": key.threads,
            "seconds": measured.seconds,
            "networks": measured.networks,
            "calls": measured.calls,
            "log_error": measured.machine.log_error,
            "memory_bytes": device.memory_bytes,
            "context_bytes": device.context_bytes,
            "host_seconds": device.host_seconds,
            "optimizer_bytes_per_second": device.optimizer_bytes_per_second,
            "tensor_seconds": device.tensor_seconds,
            "step_seconds": device.step_seconds,
            "rates": {
                kind: {
                    "flops_per_second": rate.flops_per_second,
                    "half_flops": rate.half_flops,
                    "bytes_per_second": rate.bytes_per_second,
                    "launch_seconds": rate.launch_seconds,
                }
                for kind, rate in device.operators.items()
            },
            "links": [
                {
                    "ranks": link.ranks,
                    "latency_seconds": link.latency_seconds,
                    "seconds_per_byte": link.seconds_per_byte,
                    "send_latency_seconds": link.send_latency_seconds,
                    "send_seconds_per_byte": link.send_seconds_per_byte,
                    "slow_down": link.slow_down,
                }
                for link in measured.machine.links
            ],
            "failures": list(measured.failures),
        }

    def lines(self) -> list[tuple[str, str]]:
        """As names and values for people."""
        measured, device = self.calibration, self.calibration.machine.device
        kinds = [(kind, rate) for kind, rate in device.operators.items() if "/" not in kind]
        found = [
            ("device", f"{measured.key.device}, {measured.key.dtype}, {measured.key.threads} thread(s)"),
            ("measured", f"{measured.calls:,} operators of {measured.networks} networks in {measured.seconds:.0f} s"),
            ("error", f"{measured.machine.log_error:.0%} of a step of theirs (one standard deviation)"),
        ]
        for kind, rate in kinds:
            computed = f"{rate.flops_per_second / 1e9:7.1f} GFLOP/s, " if rate.flops_per_second > 1e6 else " " * 17
            found.append(
                (
                    kind,
                    f"{computed}{rate.bytes_per_second / 1e9:6.1f} GB/s, {rate.launch_seconds * 1e6:5.1f} µs at least",
                )
            )
        for link in measured.machine.links:
            latency, rate_text = link.latency_seconds * 1e6, f"{1e-9 / max(link.seconds_per_byte, 1e-15):.1f} GB/s"
            told = f"{latency:.0f} µs, {rate_text}; each computes {link.slow_down:.2f} times as long"
            found.append((f"{link.ranks} ranks", told))
        found += [("failed", failure) for failure in measured.failures]
        return [*found, ("file", str(self.path))]


def calibrate_here(device: str, seconds: float | None, say: Callable[[str], None]) -> Calibrated:
    """Measure and keep; ``device`` is "auto", "cpu" or "cuda".

    Raises ConfigError for a device that is not here and for seconds out of range, StorageError where the cache cannot
    be written.
    """
    seconds = LONG if seconds is None else seconds
    if not 0 < seconds <= MOST_SECONDS:
        raise ConfigError(f"--seconds {seconds:g}: choose more than 0, at most {MOST_SECONDS:g}")
    place = present_device(device)
    threads, dtype = as_trained(place)
    measured = calibrate(place, threads, dtype, seconds, say=say)
    folder = cache_folder()
    try:
        return Calibrated(measured, save(measured.machine, measured.key, folder))
    except OSError as error:
        raise StorageError(
            f"{folder}: the rates cannot be kept there ({error.strerror}); name another folder by NAS_CACHE"
        ) from error
