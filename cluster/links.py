"""Links between the devices of this machine, measured by short-lived groups of processes."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import numpy as np

from trainers.parallelism.collective_costs import fit
from trainers.parallelism.rates import Link

MOST_RANKS = 8
"""Of a group of processes that is made to measure a link."""
STARTING_SECONDS = 45.0
"""Until the processes of a group have torch and each other; a group that is not through by then is ended."""
SHARE = 0.08
"""Of a calibration's seconds, for the messages of one group."""


def measure_links(device: str, threads: int, devices: int, seconds: float) -> tuple[list[Link], list[str]]:
    """Links of groups of 2 and of all ``devices``, and in words why one could not be measured."""
    links, failures = [], []
    for ranks in sorted({2, min(devices, MOST_RANKS)} - {1}) if devices > 1 else ():
        try:
            links.append(measure_link(device, threads, ranks, max(SHARE * seconds, 0.5)))
        except (OSError, RuntimeError, ValueError) as error:
            failures.append(f"link of {ranks} devices: {error}")
    return links, failures


def measure_link(device: str, threads: int, ranks: int, seconds: float) -> Link:
    """Measure all-reduces and messages among ``ranks`` new processes; raise RuntimeError where one of them fails."""
    answer = json.loads(_run(device, threads, ranks, seconds))
    latency, byte = _line(answer["send"])
    link = fit(ranks, 1, [(float(size), float(time)) for size, time in answer["all_reduce"]])
    slow_down = float(answer["slow_down"])
    return replace(link, send_latency_seconds=latency, send_seconds_per_byte=byte, slow_down=slow_down)


def _run(device: str, threads: int, ranks: int, seconds: float) -> str:
    """What rank 0 prints; all processes have ended when this returns."""
    deadline = monotonic() + STARTING_SECONDS + 3 * seconds
    with TemporaryDirectory(prefix="nas-link-") as folder:
        store = str(Path(folder) / "store")
        processes = [
            subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "cluster.link_probe"),
                    *(device, str(rank), str(ranks), store, str(threads), str(seconds)),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(ranks)
        ]
        try:
            answers = [process.communicate(timeout=max(deadline - monotonic(), 0.1)) for process in processes]
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"its processes were not through in {STARTING_SECONDS + 3 * seconds:.0f} s") from error
        finally:
            _end(processes)
    for process, (_, told) in zip(processes, answers, strict=True):
        if process.returncode:
            raise RuntimeError((told.strip().splitlines() or ["it ended"])[-1])
    return answers[0][0]


def _end(processes: Sequence["subprocess.Popen[str]"]) -> None:
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _line(measured: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Latency and seconds a byte of messages, by least squares on relative errors; neither below 0."""
    from scipy.optimize import nnls

    size, time = np.array(measured, float).T
    (latency, byte), _ = nnls(np.stack([1 / time, size / time], 1), np.ones(len(time)))
    return float(latency), float(byte)
