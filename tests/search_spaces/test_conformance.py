"""The implementations that the suite of `search_spaces.conformance` runs on, and spaces that it must find at fault."""

import numpy as np
import pytest
import torch
from torch import nn

from search_spaces import Architecture, Cell, Choice, Float, Integer, SearchSpace, Signature, TensorType
from search_spaces.cell201 import Cell201
from search_spaces.conformance import checks, run
from search_spaces.convnet import ConvNet
from search_spaces.mlp import MLP
from search_spaces.mobile import Mobile
from search_spaces.transformer import Transformer

DIGITS = Signature(TensorType((1, 8, 8)), TensorType((10,)))
PHOTO = Signature(TensorType((3, 33, 20)), TensorType((3,)))
CURVES = Signature(TensorType((5,)), TensorType((2, 3)))
TEXT = Signature(TensorType((12,), "int64", vocabulary=30), TensorType((3,)))
NEXT = Signature(TensorType((12,), "int32", vocabulary=30), TensorType((12, 30)))

SPACES = [
    ("mlp", MLP(), DIGITS),
    ("mlp, other output", MLP(depth=(0, 2), norms=("batch",)), CURVES),
    ("convnet", ConvNet(), DIGITS),
    ("convnet, group norm", ConvNet(norm="group", stages=2), PHOTO),
    ("convnet, all decisions", ConvNet(strides=(1, 2), squeezes=(False, True)), DIGITS),
    ("cell201", Cell201(width=4, cells=1), PHOTO),
    ("mobile", Mobile(), DIGITS),
    ("mobile, group norm", Mobile(norm="group", stages=2), PHOTO),
    ("transformer of images", Transformer(), PHOTO),
    ("transformer of tokens", Transformer(), TEXT),
    ("decoder", Transformer("decoder"), NEXT),
]


@pytest.mark.parametrize(
    "check", [pytest.param(check, id=f"{label}: {name}") for label, *at in SPACES for name, check in checks(*at)]
)
def test_space(check):
    check()


class Sound(SearchSpace):
    """The least space; those below break one rule each."""

    decisions = {"a": Choice(1, 2, 3), "b": Choice("x", "y")}

    def build(self, architecture, signature):
        return nn.Sequential(nn.Flatten(), nn.Linear(signature.input.elements, signature.output.elements))


class Skewed(Sound):
    def sample(self, rng):
        return Architecture(
            {"a": 1 if rng.random() < 0.5 else int(rng.integers(1, 4)), "b": "xy"[int(rng.integers(2))]}
        )


class Unseeded(Sound):
    def sample(self, rng):
        return super().sample(np.random.default_rng())


class Leaping(Sound):
    def mutate(self, architecture, rng):
        return Architecture({"a": architecture["a"] % 3 + 1, "b": "x" if architecture["b"] == "y" else "y"})


class Drifting(Sound):
    def canonical(self, architecture):
        return Architecture({**architecture, "a": architecture["a"] % 3 + 1})


class WrongShape(Sound):
    def build(self, architecture, signature):
        return nn.Sequential(nn.Flatten(), nn.Linear(signature.input.elements, 3))


class Unused(Sound):
    def build(self, architecture, signature):
        network = super().build(architecture, signature)
        network[1].register_parameter("idle", nn.Parameter(torch.zeros(2)))
        return network


class Restless(Sound):
    def build(self, architecture, signature):
        network = super().build(architecture, signature)
        nn.init.constant_(network[1].bias, np.random.default_rng().random())
        return network


class Raising(Sound):
    def build(self, architecture, signature):
        raise KeyError("widht")


class Empty(Sound):
    decisions = {}


FAULTS = [
    (Skewed, "samples_are_uniform", "chi-square"),
    (Unseeded, "samples_follow_the_generator_alone", "different samples"),
    (Leaping, "mutation_changes_one_decision", "changes"),
    (Drifting, "key_is_stable_under_canonical", "is not itself"),
    (WrongShape, "networks_map_input_to_output", r"must be \(2, 10\)"),
    (Unused, "gradients_are_finite", "idle gets no gradient"),
    (Restless, "equal_seeds_give_equal_weights", "differs between two builds"),
    (Raising, "networks_map_input_to_output", "raised KeyError: 'widht'"),
    (Empty, "declaration_is_well_formed", "Empty declares no decisions"),
]


@pytest.mark.parametrize(("space", "check", "message"), FAULTS)
def test_a_broken_rule_is_found(space, check, message, monkeypatch):
    monkeypatch.setattr(space, "__module__", "__main__")  # this file imports torch, as a declaration must not
    (finding,) = [finding for finding in run(space(), DIGITS) if finding.check == check]
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(str(finding))


def test_a_sound_space_has_no_findings(monkeypatch):
    monkeypatch.setattr(Sound, "__module__", "__main__")
    assert run(Sound(), DIGITS) == []


def test_sizes_beyond_a_float_are_no_faults(monkeypatch):
    class Vast(Sound):
        decisions = {f"n{at}": Integer(-(2**63), 2**63 - 1) for at in range(300)}

    monkeypatch.setattr(Vast, "__module__", "__main__")
    assert Vast().size() == 2 ** (64 * 300)
    assert run(Vast(), DIGITS) == []


def test_a_size_of_thousands_of_digits_is_told(monkeypatch):
    class Stuck(Sound):
        decisions = {f"n{at}": Integer(-(2**63), 2**63 - 1) for at in range(300)}

        def sample(self, rng):
            return next(map(Architecture, self.domain.assignments()))

    monkeypatch.setattr(Stuck, "__module__", "__main__")
    (finding,) = [finding for finding in run(Stuck(), DIGITS) if finding.check == "samples_are_uniform"]
    assert finding.message == "of 100 samples only 1% differ, in a space of about 6.0e5779 architectures"


def test_a_cell_with_a_limit_on_its_edges_keeps_the_contract(monkeypatch):
    class Celled(Sound):
        decisions = {"": Cell(5, ("conv", "pool"), on="nodes", inputs=(0, 4), edges=(0, 6))}

    monkeypatch.setattr(Celled, "__module__", "__main__")
    assert run(Celled(), DIGITS) == []


def test_a_float_and_a_log_scale_are_no_faults(monkeypatch):
    class Mixed(Sound):
        decisions = {"n": Integer(1, 20, log=True), "x": Float(0, 1, when={"n": 1})}

    monkeypatch.setattr(Mixed, "__module__", "__main__")
    assert run(Mixed(), DIGITS) == []
