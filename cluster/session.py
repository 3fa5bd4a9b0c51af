"""What a Ray that we start needs on this machine: a folder, variables, signal handlers; all of it goes again."""

import fcntl
import os
import secrets
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time

_PREFIX = "nas-ray-"
_LOCK = "owner.lock"
_SOCKET_PATH_BYTES = 107
_SESSION_BYTES = len("/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store.000")
_YOUNG_SECONDS = 60.0
_REACH_SECONDS = 5.0


def prepare(environment: MutableMapping[str, str], local: bool) -> None:
    """Set what Ray reads from the environment when it starts; what the user has set stays.

    A local Ray turns on tokens by itself (unless RAY_AUTH_MODE says otherwise), and writes one into the home folder
    unless it finds one in the environment. With a fresh random one nothing is written and other users stay out.
    """
    environment.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not local:
        return
    environment.setdefault("RAY_preload_python_modules", "torch")
    # Where the driver was killed, Ray's agents would ask its dead control process for 60 s more before they go.
    environment.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    given = environment.get("RAY_AUTH_TOKEN") or environment.get("RAY_AUTH_TOKEN_PATH")
    if environment.get("RAY_AUTH_MODE", "token").lower() == "token" and not given:
        environment["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


@contextmanager
def few_attempts(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Let Ray try three times to connect to a cluster, not twenty, which take minutes where it refuses."""
    name = "RAY_gcs_server_port_wait_time_s"
    unset = name not in environment
    environment.setdefault(name, "3")
    try:
        yield
    finally:
        if unset:
            environment.pop(name, None)


def check_reachable(address: str) -> None:
    """Raise ConnectionError where nothing listens at ``host:port``: Ray itself would try for many minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
        except OSError as error:
            raise ConnectionError(f"{host} port {port}: {error.strerror or error}") from error


class SessionFolder:
    """The folder of one local Ray: sockets and logs. Its lock, held while this process lives, tells it from litter."""

    def __init__(self) -> None:
        _sweep()
        base = tempfile.gettempdir()
        if len(os.fsencode(base)) + len(_PREFIX) + 8 + _SESSION_BYTES > _SOCKET_PATH_BYTES:
            base = "/tmp"  # a socket's path has a fixed size
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        self._lock = open(self.path / _LOCK, "w")  # noqa: SIM115 - held, not used
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _sweep() -> None:
    """Delete the folders of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.stat().st_uid != os.getuid() or time() - folder.stat().st_mtime < _YOUNG_SECONDS:
                continue
            with open(folder / _LOCK) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def kept_signal_handlers() -> Iterator[None]:
    """Keep the handlers of SIGINT and SIGTERM, which ``ray.init`` replaces."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            with suppress(ValueError):  # only the main thread may set one, and Ray has then not done so either
                signal.signal(number, handler)
