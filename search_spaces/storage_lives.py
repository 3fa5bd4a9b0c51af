"""When pieces of memory come and go, as Python and autograd really hold and release them."""

import weakref
from collections.abc import Sized

from torch import Tensor, UntypedStorage

from search_spaces.operator_graph import Role


class Life(weakref.ref[UntypedStorage]):
    """One piece of memory: from the operator that came next when it was made to the one that came next when it went.

    ``role`` is what it is for, where that is known from the start; ``writer`` the operator that wrote it last, ``kept``
    whether autograd holds on to it for the backward pass.
    """

    __slots__ = ("born", "bytes", "died", "kept", "key", "role", "writer")
    key: int
    bytes: int
    born: int
    died: int | None
    role: Role | None
    writer: int | None
    kept: bool


class StorageLives:
    """All storages that were shown to it; the length of ``calls`` says which operator comes next.

    ``alive`` are those that are there, by torch's address of the storage.
    """

    def __init__(self, calls: Sized) -> None:
        self.all: list[Life] = []
        self._calls = calls
        self.alive: dict[int, Life] = {}

    def begin(self, tensor: Tensor, role: Role | None = None) -> Life:
        """Life of the tensor's storage, which begins where it is new."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        life = self.alive.get(key)
        if life is None:
            life = Life(storage, self._end)
            life.key, life.bytes, life.born, life.died = key, storage.nbytes(), len(self._calls), None
            life.role, life.writer, life.kept = role, None, False
            self.alive[key] = life
            self.all.append(life)
        return life

    def forget(self) -> None:
        """Let go of all, which else only Python's garbage collector could: each knows whom to tell of its end."""
        self.all.clear()
        self.alive.clear()

    def _end(self, life: "weakref.ref[UntypedStorage]") -> None:
        assert isinstance(life, Life)
        life.died = len(self._calls)
        del self.alive[life.key]
