"""A search as a Ray job: the study's file goes to a cluster, and the search runs there beside its workers."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any


def submit(
    file: Path,
    arguments: Sequence[str] = (),
    address: str | None = None,
    folder: Path | None = None,
    client: Any = None,
    modules: Sequence[Path] = (),
) -> str:
    """Submit ``nas search FILE arguments...`` to the cluster at ``address``; return the job's id.

    ``address`` is that of its dashboard, by default RAY_ADDRESS or this machine's. ``folder``, by default that of
    ``file``, is sent along, so that code and data beside the file are found; ``modules`` are files and packages from
    elsewhere that go along too. Where the user has a token
    (RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH, or the one that Ray keeps in the home folder) the request carries it.
    ``client`` stands for Ray's own, for tests. Raises ValueError where the file is not in the folder, or no cluster
    answers or takes the job.
    """
    folder = (folder or file.parent).resolve()
    try:
        inside = file.resolve().relative_to(folder)
    except ValueError:
        raise ValueError(
            f"{file} is not in {folder}, the folder that goes to the cluster; give one that holds it"
        ) from None
    if not file.is_file():
        raise ValueError(f"{file}: no such file")
    client = client or _connect(address)
    entrypoint = shlex.join(["nas", "search", str(inside), *arguments])
    surroundings: dict[str, Any] = {"working_dir": str(folder)}
    with TemporaryDirectory(prefix="nas-submit-") as staging:
        outside = [str(_package(path, Path(staging))) for path in modules if not path.is_relative_to(folder)]
        if outside:
            surroundings["py_modules"] = outside
        try:
            return str(client.submit_job(entrypoint=entrypoint, runtime_env=surroundings))
        except RuntimeError as error:
            raise ValueError(f"the cluster does not take the job ({error})") from error


def _package(path: Path, staging: Path) -> Path:
    """The path of a package; a module that is one file becomes one of the same name, for jobs take folders only."""
    if path.is_dir():
        return path
    package = staging / path.stem
    package.mkdir()
    copyfile(path, package / "__init__.py")
    return package


def _connect(address: str | None) -> Any:
    """Connect to a cluster's dashboard, with the user's token where there is one."""
    given = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    if given or (Path.home() / ".ray" / "auth_token").is_file():
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # Ray looks at the token in this mode only
    from ray.job_submission import JobSubmissionClient

    try:
        return JobSubmissionClient(address)
    except Exception as error:  # Ray's own kinds for what is refused vary
        raise ValueError(
            f"address = {address!r}: no cluster takes the job ({error}); give its dashboard, as in http://HEAD:8265"
        ) from error
