"""The contract of a search space, as checks that its author runs on any space; no test library is needed.

    for finding in run(MySpace(), signature):
        print(finding)

A check raises AssertionError where the contract is broken; whatever else a space raises is a finding too.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from inspect import getdoc
from math import inf, sqrt
from os.path import basename
from traceback import extract_tb
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from search_spaces.bound import Infeasible
from search_spaces.domain import Domain
from search_spaces.numeric import Integer
from search_spaces.signature import Signature
from search_spaces.sizes import size_text
from search_spaces.space import SearchSpace
from search_spaces.values import Architecture, Values

if TYPE_CHECKING:
    from torch import Tensor, nn

Check: TypeAlias = tuple[str, Callable[[], None]]

_SAMPLES = 30
_BUILDS = 4
_MOST_CELLS = 300
_DRAWS_PER_CELL = 40
_BATCH = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken part of the contract: the check's name, what was seen, the law that it breaks, and the remedy."""

    check: str
    message: str
    law: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.check}: {self.message}"


def checks(space: SearchSpace, signature: Signature) -> list[Check]:
    """All checks by name; each takes nothing and raises where the contract is broken."""
    suite = _Suite(space, signature)
    named = [name for name in vars(_Suite) if not name.startswith("_")]
    return [(name, getattr(suite, name)) for name in named]


def run(space: SearchSpace, signature: Signature) -> list[Finding]:
    """Run all checks; an empty list when the space keeps the contract."""
    return [finding for name, check in checks(space, signature) for finding in judge(name, check)]


def judge(name: str, check: Callable[[], None]) -> list[Finding]:
    """Run a check; what it found, with exception and place where it raised another than AssertionError.

    The first paragraph of the check's documentation is its law, the second one the remedy.
    """
    try:
        check()
    except AssertionError as error:
        seen = str(error)
    except (Exception, SystemExit) as error:
        last = extract_tb(error.__traceback__)[-1]
        seen = f"raised {type(error).__name__}: {error} ({basename(last.filename)}, line {last.lineno}, in {last.name})"
    else:
        return []
    law, _, remedy = (getdoc(check) or name.replace("_", " ")).partition("\n\n")
    return [Finding(name, seen, *(" ".join(text.split()) for text in (law, remedy)))]


class _Suite:
    def __init__(self, space: SearchSpace, signature: Signature) -> None:
        self._space = space
        self._signature = signature

    # Declaration

    def declaration_is_well_formed(self) -> None:
        """The decisions can be read, hold an architecture, and suit the task's signature.

        Give decisions = {name: Choice(...), ...}; check the space with a task that it is made for.
        """
        assert self._space.size() >= 1, "the space has no architecture"
        self._space.check_signature(self._signature)

    def schema_is_plain_json(self) -> None:
        """The declaration survives JSON unchanged: the record and a resume rest on it.

        Use options of None, bool, int, float, text and tuples of them; override schema() with plain values
        only.
        """
        schema = self._space.schema()
        back = json.loads(json.dumps(schema, allow_nan=False, sort_keys=True))
        assert back == schema, "schema() changes on its way through JSON; use plain lists, dicts, numbers and texts"
        again = Domain.from_schema(back).schema()
        assert again["decisions"] == schema["decisions"], "Domain.from_schema does not give the declaration back"
        assert self._space.schema_hash() == self._space.schema_hash(), "schema_hash() changes between two calls"

    def declaration_imports_no_heavy_library(self) -> None:
        """Importing the space's module loads none of torch, ray and optuna.

        Import them inside build(), or in a module beside the space that build() imports.
        """
        module = type(self._space).__module__
        if module == "__main__":
            return
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; import importlib; importlib.import_module({module!r}); "
            "print(*sorted({'torch', 'ray', 'optuna'} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"importing {module} in a new process fails: {done.stderr[-500:]}"
        loaded = done.stdout.split()
        assert not loaded, f"importing {module} loads {', '.join(loaded)}; import it inside build()"

    # Genomes

    def samples_are_valid(self) -> None:
        """sample() gives architectures of the space.

        Leave sample() as it is inherited, or check() what yours gives.
        """
        for architecture in self._samples(_SAMPLES):
            assert isinstance(architecture, Architecture), f"sample() gives {type(architecture).__name__}"
            self._space.check(architecture)

    def samples_follow_the_generator_alone(self) -> None:
        """Equal generators give equal samples, so that a search can be repeated.

        Draw from the given generator alone, not from random, numpy.random or the clock.
        """
        assert self._samples(5) == self._samples(5), "two generators of one seed give different samples"

    def samples_are_uniform(self) -> None:
        """Every architecture is as likely as any other, floats and log scales excepted.

        Leave sample() as it is inherited; it counts what conditions leave.
        """
        size = self._space.size()
        log = any(isinstance(slot.decision, Integer) and slot.decision.log for slot in self._space.domain.slots)
        if size == inf or log:
            return  # floats and log scales are not uniform
        if size <= _MOST_CELLS:
            self._check_uniform(int(size))
            return
        share = len(set(self._samples(100))) / 100
        assert share >= 0.5, f"of 100 samples only {share:.0%} differ, in a space of {size_text(size)} architectures"

    def _check_uniform(self, cells: int) -> None:
        draws = _DRAWS_PER_CELL * cells
        counts = Counter(self._samples(draws))
        expected = draws / cells
        missing = (cells - len(counts)) * expected
        statistic = sum((count - expected) ** 2 for count in counts.values()) / expected + missing
        limit = cells - 1 + 6 * sqrt(2 * max(1, cells - 1))  # six standard deviations of chi-square
        assert statistic <= limit, f"chi-square of {draws} samples is {statistic:.0f}, at most {limit:.0f} if uniform"

    def mutation_changes_one_decision(self) -> None:
        """mutate() changes exactly one decision, beside those that it activates or drops.

        Leave mutate() as it is inherited, or change one decision and complete the rest.
        """
        rng = np.random.default_rng(1)
        for parent in self._samples(_SAMPLES):
            child = self._space.mutate(parent, rng)
            self._space.check(child)
            changed = [name for name in parent if name in child and not _same(parent, child, name)]
            expected = 1 if self._space.domain.changeable(parent) else 0
            assert len(changed) == expected, f"mutation of {parent} to {child} changes {changed or 'nothing'}"

    def crossover_gives_valid_children(self) -> None:
        """A child of crossover() is an architecture whose values come from its parents.

        Leave crossover() as it is inherited, or take each value from either parent.
        """
        rng = np.random.default_rng(2)
        parents = self._samples(_SAMPLES)
        for a, b in zip(parents, parents[1:], strict=False):
            child = self._space.crossover(a, b, rng)
            self._space.check(child)
            shared = [name for name in child if name in a and name in b]
            strange = [name for name in shared if not _same(child, a, name) and not _same(child, b, name)]
            assert not strange, f"crossover of {a} and {b} gives {child}: {strange[0]} is of neither"

    def text_keeps_types(self) -> None:
        """parse(str(architecture)) gives the architecture back, types included.

        Use options of None, bool, int, float, text and tuples of them.
        """
        for architecture in self._samples(_SAMPLES):
            back = self._space.parse(str(architecture))
            assert back == architecture, f"the text {architecture} is read back as {back}"

    def json_keeps_types(self) -> None:
        """from_plain(JSON of an architecture) gives it back, types included.

        Use options of None, bool, int, float, text and tuples of them.
        """
        for architecture in self._samples(_SAMPLES):
            back = self._space.from_plain(json.loads(architecture.json()))
            assert back == architecture, f"{architecture} comes back from JSON as {back}"

    def key_is_stable_under_canonical(self) -> None:
        """canonical() gives an architecture of the space that is its own canonical form and has the same key.

        Map every architecture of a class to one representative, the representative to itself.
        """
        for architecture in self._samples(_SAMPLES):
            canonical = self._space.canonical(architecture)
            self._space.check(canonical)
            assert self._space.canonical(canonical) == canonical, f"canonical({canonical}) is not itself"
            assert self._space.key(canonical) == self._space.key(architecture), f"key of {architecture} is not stable"

    # Networks

    def networks_map_input_to_output(self) -> None:
        """build() makes networks from [batch, *input shape] to [batch, *output shape].

        Take the sizes from signature.input and signature.output; raise Infeasible where there is no network.
        """
        for network in self._networks():
            outputs = network(self._batch())
            expected = (_BATCH, *self._signature.output.shape)
            assert tuple(outputs.shape) == expected, f"output has shape {tuple(outputs.shape)}, must be {expected}"

    def gradients_are_finite(self) -> None:
        """Every trainable parameter gets a finite gradient.

        Register no module that forward() does not use; initialise weights to a moderate scale.
        """
        for network in self._networks():
            network(self._batch()).float().square().mean().backward()
            for name, parameter in network.named_parameters():
                if parameter.requires_grad:
                    assert parameter.grad is not None, f"parameter {name} gets no gradient: it is not used"
                    assert bool(parameter.grad.isfinite().all()), f"the gradient of {name} is not finite"

    def equal_seeds_give_equal_weights(self) -> None:
        """torch.manual_seed determines the weights that build() gives.

        Initialise by torch's default generator, not by numpy, random or a generator of your own.
        """
        for first, second in zip(self._networks(), self._networks(), strict=True):
            state = second.state_dict()
            for name, tensor in first.state_dict().items():
                assert tensor.equal(state[name]), f"{name} differs between two builds after one torch.manual_seed"

    # Parts

    def _samples(self, count: int) -> list[Architecture]:
        rng = np.random.default_rng(0)
        return [self._space.sample(rng) for _ in range(count)]

    def _networks(self) -> list["nn.Module"]:
        import torch

        networks = []
        with torch.random.fork_rng(devices=[]):
            for architecture in self._samples(_BUILDS):
                torch.manual_seed(0)
                try:
                    networks.append(self._space.build(architecture, self._signature).train())
                except Infeasible:
                    continue
        return networks

    def _batch(self) -> "Tensor":
        import torch

        shape = (_BATCH, *self._signature.input.shape)
        generator = torch.Generator().manual_seed(0)
        dtype: torch.dtype = getattr(torch, self._signature.input.dtype)
        if dtype.is_floating_point:
            return torch.randn(shape, generator=generator).to(dtype)
        return torch.randint(0, self._signature.input.vocabulary or 2, shape, generator=generator).to(dtype)


def _same(a: Architecture, b: Architecture, name: str) -> bool:
    return Values({name: a[name]}) == Values({name: b[name]})
