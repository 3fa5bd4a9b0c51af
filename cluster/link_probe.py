"""One rank of a short-lived group that measures its link: run as a program by `cluster.links`.

Rank 0 prints ``{"all_reduce": [[bytes, seconds], ...], "send": [[bytes, seconds], ...], "slow_down": factor}``, medians
over repeats: what messages take, and what computing takes longer where all ranks compute at once.
"""

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from statistics import median
from time import perf_counter

import torch
from torch import distributed, nn
from torch._C._distributed_c10d import FileStore

from cluster.operator_timing import TimedDevice

SIZES = tuple(2**exponent for exponent in (10, 12, 14, 16, 18, 20, 22, 24))
"""Bytes of a message."""
ROUNDS, STEPS = 6, 8
"""Of computing alone and together, and the training steps of each."""


def main(device: str, rank: int, ranks: int, store: str, threads: int, seconds: float) -> None:
    """Join, measure, leave."""
    place = torch.device("cuda", rank) if device != "cpu" else torch.device("cpu")
    torch.set_num_threads(threads)
    if place.type == "cuda":
        torch.cuda.set_device(place)
    distributed.init_process_group(
        "nccl" if place.type == "cuda" else "gloo",
        store=FileStore(store, ranks),
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=30),
    )
    messages = [torch.ones(size // 4, device=place) for size in SIZES]
    reduced = _measured(messages, distributed.all_reduce, seconds / 2, rank)
    sent = _measured(messages, lambda message: _there_and_back(message, rank), seconds / 2, rank)
    slow_down = _slow_down(TimedDevice(str(place), threads), rank)
    if rank == 0:
        answer = {"all_reduce": reduced, "send": [(size, both / 2) for size, both in sent], "slow_down": slow_down}
        sys.stdout.write(json.dumps(answer) + "\n")
    distributed.barrier()
    distributed.destroy_process_group()


def _slow_down(device: TimedDevice, rank: int) -> float:
    """Seconds of training steps while all ranks take them, over those while rank 0 does alone; at least 1."""
    network = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 16, 3))
    network = network.to(device.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.randn(64, 16, 16, 16, device=device.device).contiguous(memory_format=torch.channels_last)
    taken: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * ROUNDS):
        together = number % 2 == 1
        distributed.barrier()
        if together or rank == 0:
            taken[together].append(device.of(lambda: _steps(network, images)))
    if rank:
        return 1.0
    return max(median(taken[True][1:]) / median(taken[False][1:]), 1.0)


def _steps(network: nn.Module, images: torch.Tensor) -> None:
    for _ in range(STEPS):
        network(images).sum().backward()


def _there_and_back(message: torch.Tensor, rank: int) -> None:
    if rank == 0:
        distributed.send(message, 1)
        distributed.recv(message, 1)
    elif rank == 1:
        distributed.recv(message, 0)
        distributed.send(message, 0)


def _measured(
    messages: list[torch.Tensor], exchange: Callable[[torch.Tensor], object], seconds: float, rank: int
) -> list[tuple[int, float]]:
    """Medians, sizes mixed; rank 0 says after each round whether there is time for another."""
    taken: list[list[float]] = [[] for _ in messages]
    began, again = perf_counter(), torch.ones(1, device=messages[0].device)
    while again.item() > 0:
        for known, message in zip(taken, messages, strict=True):
            known.append(_timed(exchange, message))
            message.fill_(1.0)
        more = perf_counter() - began < seconds or len(taken[0]) < 3
        again.fill_(float(more if rank == 0 else 0))
        distributed.broadcast(again, 0)
    return [(size, median(known[1:])) for size, known in zip(SIZES, taken, strict=True)]


def _timed(exchange: Callable[[torch.Tensor], object], message: torch.Tensor) -> float:
    distributed.barrier()
    began = perf_counter()
    exchange(message)
    if message.is_cuda:
        torch.cuda.synchronize(message.device)
    return perf_counter() - began


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5]), float(sys.argv[6]))
