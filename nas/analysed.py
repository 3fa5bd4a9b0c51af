"""The network that ``nas analyze`` looks at: of a space, or of a module of the user's own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nas.config import SearchConfig
from nas.config_check import SUPERVISED, checked_settings, checked_space, checked_task, guarded, named
from nas.config_text import complete, parse_setting
from nas.errors import ConfigError
from nas.graph_metrics import StepSize
from search_spaces import (
    Architecture,
    Infeasible,
    MetaBuildError,
    SearchSpace,
    Signature,
    TensorType,
    load_object,
    meta_network,
)
from trainers import Failure

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line says; exactly one of ``space`` and ``module`` is given.

    ``task`` and ``input`` (as ``"3x32x32"`` or ``"64:int64"``) say what the network reads, ``batch`` how many samples.
    """

    space: str | None = None
    sample: int | None = None
    architecture: str | None = None
    module: str | None = None
    task: str | None = None
    input: str | None = None
    batch: int | None = None
    settings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Analysed:
    """A ``network``, on the meta device where it can be built so.

    ``what`` describes it as JSON values: space and architecture, or module; and the task, if it says the input. Then
    ``loss`` is the task's for tracing; None: cross-entropy. ``config`` is that of a search for such a network.
    """

    what: Mapping[str, Any]
    network: "Module"
    signature: Signature
    size: StepSize
    config: SearchConfig
    loss: "Callable[[Any], Tensor] | None" = None


def resolve(request: Request) -> Analysed:
    """Build what is asked for; raise ConfigError where it is unknown, contradictory, or cannot be built at all."""
    _check_choice(request)
    config = _config(request)
    task = checked_task(config)
    signature: Signature = task.signature
    if request.input is not None:
        signature = Signature(_tensor_type(request.input), signature.output)
    told: dict[str, Any] = (
        {"task": request.task or config.to_plain()["search"]["task"]} if request.input is None else {}
    )
    if config.search.trainer == SUPERVISED:
        checked_settings(config)
    loss = _loss(task) if request.input is None and config.search.trainer == SUPERVISED else None
    size = StepSize.of(config.trainer, {})
    if request.batch is not None:
        size = replace(size, batch=request.batch)
    if request.module is not None:
        return Analysed({"module": request.module, **told}, _of_module(request.module), signature, size, config, loss)
    space, architecture = _of_space(request, config, signature)
    what = {"space": request.space, "architecture": str(architecture), **told}
    return Analysed(what, _built(space, architecture, signature), signature, size, config, loss)


def _loss(task: Any) -> "Callable[[Any], Tensor]":
    from trainers.traced_loss import traced_loss

    with guarded("search.task"):
        return traced_loss(task, task.load)


def _check_choice(request: Request) -> None:
    if (request.space is None) == (request.module is None):
        raise ConfigError("nas analyze: name a search space or, by --module, your own network; one of the two")
    for option, value in (("--sample", request.sample), ("--architecture", request.architecture)):
        if request.module is not None and value is not None:
            raise ConfigError(f"{option} {value}: it chooses from a space, and --module names a network; leave one out")
    if request.sample is not None and request.architecture is not None:
        raise ConfigError(
            f"--sample {request.sample}, --architecture {request.architecture}: both say which architecture; give one"
        )


def _config(request: Request) -> SearchConfig:
    given = [parse_setting(text) for text in request.settings]
    if request.task is not None:
        given.insert(0, (("search", "task"), request.task))
    if request.space is not None:
        given.insert(0, (("search", "space"), request.space))
    return SearchConfig.from_plain(complete({}, given))


def _of_space(request: Request, config: SearchConfig, signature: Signature) -> tuple[SearchSpace, Architecture]:
    import numpy as np

    space = checked_space(config)
    with named("--task or --input"):
        space.check_signature(signature)
    if request.architecture is None:
        return space, space.sample(np.random.default_rng(request.sample or 0))
    with named(f"--architecture {request.architecture}"):
        return space, space.parse(request.architecture)


def _built(space: SearchSpace, architecture: Architecture, signature: Signature) -> "Module":
    try:
        return meta_network(space, architecture, signature)
    except Infeasible as infeasible:
        raise ConfigError(f"--architecture {architecture}: the space calls it infeasible: {infeasible}") from infeasible
    except MetaBuildError:
        return _called(lambda: space.build(architecture, signature), f"{space.name}.build()")


def _of_module(code: str) -> "Module":
    from torch import nn

    from search_spaces.meta_device import MetaDevice

    where, found = f"--module {code}", load_object(code, "--module")
    if isinstance(found, nn.Module):
        return found
    if not callable(found):
        raise ConfigError(_no_network(where, found))
    try:
        with MetaDevice():
            network = found()
    except (Exception, SystemExit):
        return _called(found, where)
    return _network(network, where)


def _called(make: Callable[[], Any], where: str) -> "Module":
    try:
        network = make()
    except (Exception, SystemExit) as error:
        failure = Failure.of(error, "build")
        raise ConfigError(f"{where}: building failed at {failure.frame}: {failure.error}: {failure.message}") from error
    return _network(network, where)


def _network(made: Any, where: str) -> "Module":
    from torch import nn

    if not isinstance(made, nn.Module):
        raise ConfigError(_no_network(where, made))
    return made


def _no_network(where: str, found: Any) -> str:
    return (
        f"{where}: this gives a value of type {type(found).__name__}; name a torch.nn.Module, or what returns "
        "one when it is called without arguments"
    )


def _tensor_type(text: str) -> TensorType:
    shape, _, dtype = text.partition(":")
    try:
        sizes = tuple(int(size) for size in shape.split("x"))
        found = TensorType(sizes, dtype or "float32")
    except ValueError:
        raise ConfigError(_no_input(text)) from None
    import torch

    if not isinstance(getattr(torch, found.dtype, None), torch.dtype):
        raise ConfigError(_no_input(text))
    return found


def _no_input(text: str) -> str:
    return (
        f"--input {text}: expected the shape of one sample, sizes of at least 1 joined by x, and a dtype of torch if "
        "it is not float32, as 3x32x32 or 64:int64"
    )
