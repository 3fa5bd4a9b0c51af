"""Records the operators of torch that run on the meta device: costs, edges, and what is kept how long.

Each distinct call, of an operator on tensors of one look, is worked out once: where a network repeats blocks, all but
the first take little more than the making of their results.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from search_spaces.aten_call import AtenCall, touched_bytes
from search_spaces.aten_costs import Cost, cost
from search_spaces.aten_habits import Habit, habit_of
from search_spaces.aten_names import SHAPED
from search_spaces.meta_results import Look, known_looks, look, make, own_looks, shared
from search_spaces.module_paths import ModulePaths, gradient_number, sequence_number
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
    """A recorded call: ``inputs`` are the places of those whose results it reads.

    ``forward`` is the place of the one whose gradient it computes, None where there is none.
    """

    name: str
    cost: Cost
    phase: Phase
    parameters: int
    inputs: tuple[int, ...]
    forward: int | None


@dataclass(slots=True)
class ValueRead:
    """What one call, at place ``source`` (None: the network's input), left in a piece of memory of ``size`` bytes.

    ``readers`` are the places of forward calls that read it, ``parts`` the bytes of its different views that they read.
    """

    source: int | None
    size: int
    whole: bool = False
    parts: dict[tuple[Any, ...], int] = field(default_factory=dict)
    readers: list[int] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Of all parts, but no more than the memory holds."""
        return self.size if self.whole else min(sum(self.parts.values()), self.size)

    def note(self, tensor: Tensor, place: int) -> None:
        """Say that the call at ``place`` reads ``tensor``, a view of it."""
        if not self.readers or self.readers[-1] != place:
            self.readers.append(place)
        if self.whole:
            return
        if tensor.numel() * tensor.element_size() == self.size:
            self.whole = True
        else:
            part = (tensor.storage_offset(), tensor.shape, tensor.stride())
            self.parts[part] = touched_bytes(tensor)


@dataclass(slots=True)
class WeightRead:
    """Memory of ``elements`` of parameters, and the places of the forward calls that read it."""

    elements: int
    readers: list[int] = field(default_factory=list)
    trained: bool = False


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within its context calls are recorded, in their order.

    ``kept`` are the lives that autograd keeps for the backward pass, each with the place of the first call that keeps
    it; ``unknown`` the operators without a formula. ``weights`` and ``values`` say what forward calls read: memory of
    parameters, by its life, and results, by their life and writer.
    """

    def __init__(self, paths: ModulePaths) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []
        self.lives = StorageLives(self.calls)
        self.kept: list[tuple[int, Life]] = []
        self.unknown: set[str] = set()
        self.weights: dict[int, WeightRead] = {}
        self.values: dict[tuple[int, int | None], ValueRead] = {}
        self.phase = Phase.FORWARD
        self._paths = paths
        self._path = ""
        self._forward: int | None = None
        self._sequence = -1
        self._numbers: list[int] = []  # of autograd's next node at each forward call
        self._forward_paths: list[str] = []
        self._habits: dict[int, Habit] = {}  # by identity: torch hashes its operators slowly
        self._known: dict[tuple[Any, ...], _Known] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch else wraps each call, and loads its compiler for that."""
        return False

    def add_weight(self, weight: Tensor) -> None:
        """Say that a tensor is a parameter of the network."""
        life = self.lives.begin(weight, Role.PARAMETER)
        self.weights.setdefault(id(life), WeightRead(life.bytes // weight.element_size()))

    def add_gradient(self, weight: Tensor) -> None:
        """Say that a parameter has got its gradient."""
        assert weight.grad is not None
        self.lives.begin(weight.grad).role = Role.GRADIENT
        self.weights[id(self.lives.begin(weight))].trained = True

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
        read = [tensor for tensor in tensors if not (habit.overwrites and _among(tensor, changed))]
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
        alive, place, read = self.lives.alive, len(self.calls), self.phase is Phase.FORWARD
        for tensor in tensors:
            life = alive.get(tensor.untyped_storage()._cdata)
            if life is None or (habit.overwrites and _replaced(tensor, changed)):
                continue
            if life.writer is not None:
                inputs.add(life.writer)
            if life.role is Role.PARAMETER:
                parameters += min(tensor.numel(), life.bytes // tensor.element_size())
            if read and habit.name not in SHAPED:
                self._note_read(tensor, life, place)
        for tensor in (*changed, *_tensors(result)):
            self.lives.begin(tensor).writer = place
        name = f"{path}.{habit.name}" if (path := self._where()) else habit.name
        forward = self._forward if self.phase is Phase.BACKWARD else None
        self.calls.append(Call(name, known.cost, self.phase, parameters, tuple(sorted(inputs)), forward))

    def _note_read(self, tensor: Tensor, life: Life, place: int) -> None:
        if life.role is Role.PARAMETER:
            readers = self.weights[id(life)].readers
            if not readers or readers[-1] != place:
                readers.append(place)
        elif life.writer is not None or life.role is Role.INPUT:
            key = (id(life), life.writer)
            value = self.values.get(key)
            if value is None:
                value = self.values[key] = ValueRead(life.writer, life.bytes)
            value.note(tensor, place)

    def _where(self) -> str:
        """Path of the module at work; in the backward pass ``_forward`` is then the call whose gradient it is."""
        if self.phase is Phase.FORWARD:
            self._sequence = sequence_number()
            self._numbers.append(self._sequence)
            self._forward_paths.append(self._paths.current)
            return self._paths.current
        if torch.is_grad_enabled():  # a checkpoint computes its forward pass once more
            self._path, self._forward = self._paths.current, None
        elif (number := gradient_number()) is not None:
            self._path = self._paths.of_node(number)
            self._forward = self._forward_of(number)
        return self._path

    def _forward_of(self, number: int) -> int | None:
        """Place of the forward call that autograd made its node ``number`` for: the next one, or for a view that ends a
        module the one before.
        """
        following = bisect_right(self._numbers, number)
        for place in (following, following - 1):
            if 0 <= place < len(self._numbers) and self._forward_paths[place] == self._path:
                return place
        return None

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
    return _among(tensor, changed) and tensor.numel() * tensor.element_size() >= tensor.untyped_storage().nbytes()


def _among(tensor: Tensor, others: Sequence[Tensor]) -> bool:
    return any(tensor is other for other in others)


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
