"""The first thing that a worker process runs: finds our packages, or says what is wrong with its installation.

It travels by value, because a worker may have none of our packages, or a user's folders of the same names before them.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from cluster.collectives import Post
from cluster.installation import PACKAGES, Installation


def start_message(
    driver: Installation, recipe: bytes, code: Mapping[str, Any], post: Post, log_bytes: int
) -> dict[str, Any]:
    """Return what a rank is started with, of built-in types only; ``code`` is what `cluster.user_code` deposited."""
    return {
        "installation": driver.plain(),
        "packages": PACKAGES,
        "path": [os.path.abspath(entry) for entry in sys.path],
        "folder": os.getcwd(),
        "recipe": recipe,
        "code": code,
        "post": asdict(post),
        "log_bytes": log_bytes,
    }


def rank_class(control: Callable[[Any], Any]) -> type:
    """Return the class of a rank's process; ``control`` marks methods that run while a leg does.

    A class made in a function is pickled by value; its methods import all that they need.
    """

    class Rank:
        def start(self, message: dict[str, Any]) -> dict[str, Any]:
            """Search our packages first and the user's folders last; then make the worker."""
            import os
            import socket
            import sys

            def ours(folder: str) -> list[str]:
                return [name for name in message["packages"] if os.path.isdir(os.path.join(folder, name))]

            driver_root = message["installation"]["root"]
            here = [os.path.abspath(entry) for entry in sys.path]
            complete = (entry for entry in [driver_root, *here] if len(ours(entry)) == len(message["packages"]))
            root = next(complete, None)
            hiding = [entry for entry in here if entry != root and ours(entry)]
            path = [entry for entry in here if entry not in hiding]
            if root is not None and root not in path:
                path.insert(0, root)
            sys.path[:] = list(dict.fromkeys([*path, *message["path"], message["folder"], *hiding]))
            if os.path.isdir(message["folder"]):
                os.chdir(message["folder"])
            try:
                from cluster.worker import begin
            except ImportError as error:
                where = f"{socket.gethostname()} ({sys.executable})"
                text = f"a worker on {where} cannot import ray-nas ({error}); the driver has it in {driver_root}"
                return {"mismatch": f"{text}. Install the same version on every node"}
            self._worker, answer = begin(message)
            return answer

        def join(self, port: int) -> dict[str, Any]:
            assert self._worker is not None
            self._worker.join(port)
            return {}

        def run(self, order: Any) -> Any:
            assert self._worker is not None
            return self._worker.run(order)

        @control
        def watch(self, *arguments: Any) -> Any:
            assert self._worker is not None
            return self._worker.watch(*arguments)

        @control
        def halt(self, token: str) -> None:
            assert self._worker is not None
            self._worker.halt(token)

    return Rank
