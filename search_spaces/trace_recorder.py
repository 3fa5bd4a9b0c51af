"""Records the operators of torch that run on the meta device: costs, edges, and what is kept how long.

Each distinct call, of an operator on tensors of one look, is worked out once: where a network repeats blocks, all but
the first take little more than the making of their results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from search_spaces.aten_call import AtenCall
from search_spaces.aten_costs import Cost, cost
from search_spaces.aten_habits import Habit, habit_of
from search_spaces.meta_results import Look, known_looks, look, make, own_looks, shared
from search_spaces.module_paths import ModulePaths, sequence_number
from search_spaces.operator_graph import Phase, Role
from search_spaces.storage_lives import Life, StorageLives

_META = torch.device("meta")
_PERMANENT = (Role.PARAMETER, Role.BUFFER)


@dataclass(frozen=True, slots=True)
class _Known:
    """One distinct call: its cost, None where it computes nothing.

    ``looks`` are those of its results where these are all new, so that they can be made without running it;
    ``several`` is the type of their collection, None for one result alone.
    """

    cost: Cost | None
    looks: tuple[Look | None, ...] | None
    several: type | None


class Call(NamedTuple):
    """A recorded call: ``inputs`` are the places of those whose results it reads."""

    name: str
    cost: Cost
    phase: Phase
    parameters: int
    inputs: tuple[int, ...]


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within its context calls are recorded, in their order.

    ``kept`` are the lives that autograd keeps for the backward pass, each with the place of the first call that keeps
    it; ``unknown`` the operators without a formula.
    """

    def __init__(self, paths: ModulePaths) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []
        self.lives = StorageLives(self.calls)
        self.kept: list[tuple[int, Life]] = []
        self.unknown: set[str] = set()
        self.phase = Phase.FORWARD
        self._paths = paths
        self._path = ""
        self._sequence = -1
        self._habits: dict[int, Habit] = {}  # by identity: torch hashes its operators slowly
        self._known: dict[tuple[Any, ...], _Known] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch else wraps each call, and loads its compiler for that."""
        return False

    def saving(self) -> saved_tensors_hooks:
        """Within this context, note what autograd keeps for the backward pass."""
        return saved_tensors_hooks(self._keep, lambda tensor: tensor)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run ``func``, or make results as it would, and record it."""
        habit = self._habits.get(id(func)) or self._habits.setdefault(id(func), habit_of(func))
        if habit.views:
            return func(*args, **kwargs) if kwargs else func(*args)
        if habit.decomposes:
            with self:
                return func.decompose(*args, **(kwargs or {}))
        kwargs = kwargs or {}
        key, tensors, on_meta = _described(func, args, kwargs)
        if not on_meta:
            args, kwargs = _on_meta(args, kwargs)
            key, tensors, _ = _described(func, args, kwargs)
        known = self._known.get(key)
        if known is None:
            known, result = self._first(habit, func, args, kwargs, tensors)
            self._known[key] = known
        elif known.looks is not None:
            result = _made(known)
        else:
            result = args[0] if habit.in_place else func(*args, **kwargs)
        self._record(habit, known, args, kwargs, tensors, result)
        return result

    def _first(
        self, habit: Habit, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: list[Tensor]
    ) -> tuple[_Known, Any]:
        """Work out a call that was not seen before."""
        looks: tuple[Look | None, ...] | None = None if habit.written else known_looks(habit.name, args, kwargs)
        if looks is not None:
            result: Any = _made(_Known(None, looks, tuple if len(looks) > 1 else None))
        else:
            result = func(*args, **kwargs)
            looks = own_looks(result, tensors)
        several = type(result) if isinstance(result, (tuple, list)) else None
        results = _tensors(result)
        changed = habit.changed(args, kwargs)
        if habit.allocates or not results or (looks is None and not changed and shared(results, tensors)):
            return _Known(None, looks, several), result
        read = [tensor for tensor in tensors if not (habit.overwrites and _replaced(tensor, changed))]
        written = [*changed, *(tensor for tensor in results if not shared([tensor], changed))]
        counted = cost(func, AtenCall(func, args, kwargs, results), read, written)
        if not counted.known:
            self.unknown.add(habit.name)
        return _Known(counted, looks, several), result

    def _record(
        self,
        habit: Habit,
        known: _Known,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        tensors: list[Tensor],
        result: Any,
    ) -> None:
        if known.cost is None:
            for tensor in _tensors(result):
                self.lives.begin(tensor)
            return
        changed = habit.changed(args, kwargs) if habit.written else []
        inputs, parameters = set(), 0
        alive = self.lives.alive
        for tensor in tensors:
            life = alive.get(tensor.untyped_storage()._cdata)
            if life is None or (habit.overwrites and _replaced(tensor, changed)):
                continue
            if life.writer is not None:
                inputs.add(life.writer)
            if life.role is Role.PARAMETER:
                parameters += min(tensor.numel(), life.bytes // tensor.element_size())
        place = len(self.calls)
        for tensor in (*changed, *_tensors(result)):
            self.lives.begin(tensor).writer = place
        name = f"{path}.{habit.name}" if (path := self._where()) else habit.name
        self.calls.append(Call(name, known.cost, self.phase, parameters, tuple(sorted(inputs))))

    def _where(self) -> str:
        if self.phase is Phase.FORWARD:
            self._sequence = sequence_number()
            return self._paths.current
        path = self._paths.of_gradient()
        if path is not None:
            self._path = path
        return self._path

    def _keep(self, tensor: Tensor) -> Tensor:
        """Autograd keeps arguments after it made a call's node and before the call runs, results after it ran."""
        life = self.lives.alive.get(tensor.untyped_storage()._cdata)
        if life is not None and not life.kept and life.role not in _PERMANENT:
            life.kept = True
            self.kept.append((len(self.calls) - (sequence_number() == self._sequence), life))
        return tensor


def _described(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], list[Tensor], bool]:
    """All that looks and cost of the results depend on, hashable; the tensors among it; whether all is on meta."""
    key: list[Any] = [id(func)]
    tensors: list[Tensor] = []
    on_meta = True
    for value in (*args, *kwargs, *kwargs.values()) if kwargs else args:
        if isinstance(value, Tensor):
            tensors.append(value)
            key += (value.shape, value.stride(), value.dtype)
        elif isinstance(value, (list, tuple)):
            key.append(len(value))
            for item in value:
                if isinstance(item, Tensor):
                    tensors.append(item)
                    key += (item.shape, item.stride(), item.dtype)
                else:
                    key += (type(item), item)
        else:
            on_meta = on_meta and (type(value) is not torch.device or value.type == "meta")
            key += (type(value), value)
    for tensor in tensors:
        on_meta = on_meta and tensor.is_meta
    return tuple(key), tensors, on_meta


def _replaced(tensor: Tensor, changed: list[Tensor]) -> bool:
    """Whether all of its storage is written, by a call that does not look at what was there."""
    if not any(tensor is other for other in changed):
        return False
    return tensor.numel() * tensor.element_size() >= tensor.untyped_storage().nbytes()


def _on_meta(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """The same call, of and for tensors on the meta device."""
    args, named = tree_map_only(Tensor, lambda tensor: tensor if tensor.is_meta else make(look(tensor)), (args, kwargs))
    return args, {**named, "device": _META} if named.get("device") is not None else dict(named)


def _made(known: _Known) -> Any:
    assert known.looks is not None
    results = [None if wanted is None else make(wanted) for wanted in known.looks]
    return results[0] if known.several is None else known.several(results)


def _tensors(result: Any) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    return [value for value in result if isinstance(value, Tensor)] if isinstance(result, (tuple, list)) else []
