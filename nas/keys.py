"""The key of a trial: equal for candidates that are the same experiment."""

from collections.abc import Sequence
from hashlib import blake2b

import orjson

from search_spaces import Architecture, Candidate, Reference, SearchSpace


class KeyMaker:
    """Hashes space, network, hyperparameters, task and the number of replicates.

    Space and task count with their arguments. ``merge="exact"`` leaves architectures as they are, for recorded results
    that differ between equivalent ones.
    """

    def __init__(
        self, space: SearchSpace, names: Sequence[Reference], merge: str = "canonical", replicates: int = 1
    ) -> None:
        self._network = space.network if merge == "canonical" else Architecture.json
        code = [[name.name, dict(name.arguments)] for name in names]
        prefix = orjson.dumps([space.schema_hash(), code, replicates - 1], default=repr, option=orjson.OPT_SORT_KEYS)
        self._state = blake2b(prefix, digest_size=12)

    def key(self, candidate: Candidate) -> str:
        """The key, 24 hexadecimal digits."""
        state = self._state.copy()
        state.update(self._network(candidate.architecture))
        state.update(candidate.hyperparameters.json())
        return state.hexdigest()
