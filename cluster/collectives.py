"""The process group of a gang: one store for its life, a prefix of it for each leg.

A new store for each leg would race for ports and stall on name look-ups; a prefix costs nothing. All of torch is
imported when it is needed.
"""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store, TCPStore


class RendezvousError(RuntimeError):
    """A rank did not come to the start of a leg in time."""


@dataclass(frozen=True, slots=True)
class Post:
    """A rank's place in its gang.

    ``device`` is the torch device of this rank, ``threads`` its CPU threads. Rank 0 opens the store on ``host``, an
    address of its node; ``spans`` says whether the gang has ranks on several nodes.
    """

    rank: int
    world_size: int
    device: str = "cpu"
    threads: int = 1
    host: str = "127.0.0.1"
    own_address: str = "127.0.0.1"
    spans: bool = False
    rendezvous_seconds: float = 30.0
    collective_seconds: float = 600.0

    @property
    def backend(self) -> str:
        """Backend of the process group: NCCL between GPUs, gloo between CPUs."""
        return "nccl" if self.device.startswith("cuda") else "gloo"


def open_store(post: Post) -> "TCPStore":
    """Open the gang's store on a free port of ``post.host`` alone (rank 0)."""
    from torch._C._distributed_c10d import TCPStore

    listening = socket.create_server((post.host, 0))
    port = listening.getsockname()[1]
    return TCPStore(
        post.host,
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listening.detach(),
        timeout=timedelta(seconds=post.rendezvous_seconds),
    )


def join_store(post: Post, port: int) -> "TCPStore":
    """Connect to the store that rank 0 has opened."""
    from torch._C._distributed_c10d import TCPStore

    timeout = timedelta(seconds=post.rendezvous_seconds)
    return TCPStore(post.host, port, is_master=False, wait_for_workers=False, timeout=timeout)


@contextmanager
def process_group(post: Post, store: "Store", token: str) -> Iterator[None]:
    """Hold the default process group of a leg; raise RendezvousError where a rank does not come in time."""
    import torch.distributed as dist
    from torch._C._distributed_c10d import PrefixStore

    mine = PrefixStore(token, store)
    _meet(post, mine)
    if post.backend == "nccl":
        import torch

        torch.cuda.set_device(post.device)
    elif post.spans:
        _use_interface_of(post.own_address)
    dist.init_process_group(
        post.backend,
        store=mine,
        rank=post.rank,
        world_size=post.world_size,
        timeout=timedelta(seconds=post.collective_seconds),
    )
    try:
        yield
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _meet(post: Post, store: "Store") -> None:
    """Wait until all ranks are here: the process group's own time limit is that of its collectives, far longer."""
    import torch.distributed as dist

    store.set(f"here/{post.rank}", "1")
    for rank in range(post.world_size):
        try:
            store.wait([f"here/{rank}"], timedelta(seconds=post.rendezvous_seconds))
        except dist.DistStoreError as error:
            raise RendezvousError(f"rank {rank} did not come within {post.rendezvous_seconds:g} s") from error


class HaltSwitch:
    """Whether the running leg was told to end; ranks of one gang hear it at the same report.

    Every rank asks once a report. Rank 0 decides for the n-th asking and writes it to the store; the others read it.
    """

    def __init__(self, post: Post, store: "Store | None", token: str, pulled: Event) -> None:
        self._post, self._pulled, self._asked = post, pulled, 0
        self._store: Store | None = None
        if store is not None:
            from torch._C._distributed_c10d import PrefixStore

            self._store = PrefixStore(f"{token}/halt", store)

    def __call__(self) -> bool:
        """Return rank 0's answer to this asking."""
        if self._store is None:
            return self._pulled.is_set()
        self._asked += 1
        if self._post.rank > 0:
            limit = timedelta(seconds=self._post.collective_seconds)
            self._store.wait([str(self._asked)], limit)
            return bool(self._store.get(str(self._asked)) == b"1")
        pulled = self._pulled.is_set()
        self._store.set(str(self._asked), "1" if pulled else "0")
        return pulled

    def release(self) -> None:
        """Let no rank wait for an answer of rank 0, whose leg is over."""
        if self._store is not None and self._post.rank == 0:
            with suppress(RuntimeError):
                self._store.set(str(self._asked + 1), "1")


def _use_interface_of(address: str) -> None:
    """Bind gloo to the network interface of ``address``: between nodes its own choice may be the loopback."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with suppress(OSError):  # an interface without an address
                answer = fcntl.ioctl(probe.fileno(), 0x8915, request)  # SIOCGIFADDR
                if socket.inet_ntoa(answer[20:24]) == address:
                    os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
                    return
