"""Candidates: architecture and hyperparameters as one genome, and hyperparameters read from configuration."""

import json
import tomllib
from math import inf

import numpy as np
import pytest

from search_spaces import (
    Architecture,
    Candidate,
    CandidateSpace,
    Choice,
    Domain,
    Float,
    Integer,
    SearchSpace,
    Values,
    hyperparameter_domain,
)


class Small(SearchSpace):
    decisions = {"a": Choice(1, 2), "b": Choice(1, 2), "fixed": Choice(0)}

    def canonical(self, architecture):
        return Architecture({**architecture, "b": 1})


@pytest.fixture
def joint():
    return CandidateSpace(Small(), Domain({"batch": Choice(32, 64), "rate": Float(0, 1)}, "hyperparameters"))


def test_sizes_multiply():
    assert CandidateSpace(Small()).size() == 4
    assert CandidateSpace(Small(), Domain({"n": Integer(1, 5)})).size() == 20
    assert CandidateSpace(Small(), Domain({"x": Float(0, 1)})).size() == inf


def test_a_mutation_changes_one_decision_of_either_part(joint):
    rng = np.random.default_rng(0)
    parent = joint.sample(rng)
    in_architecture = 0
    for _ in range(2_000):
        child = joint.mutate(parent, rng)
        joint.check(child)
        changed = [
            name
            for part in ("architecture", "hyperparameters")
            for name, value in getattr(child, part).items()
            if value != getattr(parent, part)[name]
        ]
        assert len(changed) == 1
        in_architecture += changed[0] in ("a", "b")
    assert in_architecture / 2_000 == pytest.approx(2 / 4, abs=0.05)


def test_a_candidate_with_nothing_to_change_mutates_to_itself():
    class One(SearchSpace):
        decisions = {"a": Choice(1)}

    joint = CandidateSpace(One(), Domain({"b": Choice(2)}))
    candidate = joint.sample(np.random.default_rng(0))
    assert joint.mutate(candidate, np.random.default_rng(0)) == candidate


def test_crossover_and_neighbours_cover_both_parts(joint):
    rng = np.random.default_rng(0)
    a, b = joint.sample(rng), joint.sample(rng)
    for _ in range(20):
        joint.check(joint.crossover(a, b, rng))
    near = list(joint.neighbours(a))
    assert len(near) == joint.fewest_neighbours(a) == 3
    assert {candidate.hyperparameters["batch"] for candidate in near} == {32, 64}


def test_plain_form_round_trips_through_json(joint):
    candidate = joint.sample(np.random.default_rng(3))
    assert joint.from_plain(json.loads(json.dumps(joint.to_plain(candidate)))) == candidate
    assert joint.canonical(candidate).architecture["b"] == 1
    assert joint.canonical(candidate).hyperparameters == candidate.hyperparameters
    assert json.loads(json.dumps(joint.schema())) == joint.schema()
    assert CandidateSpace(Small()).schema()["hyperparameters"] is None


GOOD = {"a": 1, "b": 1, "fixed": 0}


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (
            {"architecture": GOOD, "hyperparameters": {"batch": 33, "rate": 0.1}},
            "hyperparameters.batch = 33: it must be",
        ),
        ({"architecture": GOOD, "hyperparameters": {"bach": 32}}, "hyperparameters.bach = 32: .*did you mean 'batch'"),
        ({"architecture": {**GOOD, "a": 3}}, "Small.a = 3"),
        ({"architecture": GOOD, "hyperparams": {}}, "'hyperparams' is no part.*did you mean 'hyperparameters'"),
        ({"architecture": "a=1"}, "architecture = 'a=1' must map names to values"),
        ({"architecture": GOOD}, "hyperparameters.batch is missing"),
    ],
)
def test_a_wrong_candidate_is_named(joint, plain, message):
    with pytest.raises(ValueError, match=message):
        joint.from_plain(plain)


def test_hyperparameters_of_a_search_without_any_are_refused():
    joint = CandidateSpace(Small())
    with pytest.raises(ValueError, match="hyperparameters.x: this search declares no hyperparameters"):
        joint.from_plain({"architecture": GOOD, "hyperparameters": {"x": 1}})
    with pytest.raises(ValueError, match="declares no hyperparameters"):
        joint.check(Candidate(Architecture(GOOD), Values({"x": 1})))


def test_the_forms_of_the_hyperparameter_table():
    table = tomllib.loads("""
        learning_rate = { low = 1e-3, high = 1e-1, log = true }
        batch_size = [64, 32, 128]
        optimizer = { choices = ["sgd", "adam"] }
        momentum = { low = 0, high = 0.99, when = { optimizer = "sgd" } }
        beta = { choices = [0.9, 0.99], when = { optimizer = ["adam"] }, ordered = false }
        steps = { low = 10, high = 50, step = 10 }
        layers = { low = 1.0, high = 3.0, int = true }
        share = { low = 0, high = 1, int = false }
        betas = [[0.9, 0.99], [0.9, 0.999]]
        fixed = 20
    """)
    domain = hyperparameter_domain(table)
    assert domain.decisions == {
        "learning_rate": Float(1e-3, 1e-1, log=True),
        "batch_size": Choice(32, 64, 128, ordered=True),
        "optimizer": Choice("sgd", "adam"),
        "momentum": Float(0.0, 0.99, when={"optimizer": "sgd"}),
        "beta": Choice(0.9, 0.99, when={"optimizer": ["adam"]}),
        "steps": Integer(10, 50, 10),
        "layers": Integer(1, 3),
        "share": Float(0.0, 1.0),
        "betas": Choice((0.9, 0.99), (0.9, 0.999)),
        "fixed": Choice(20, ordered=True),
    }


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"low": 1}, "'high' is missing"),
        ({"low": 2, "high": 1}, "low = 2 is above high = 1"),
        ({"low": 0.0, "high": 1.0, "log": True}, "low = 0.0 must be above 0"),
        ({"low": 0.0, "high": 1.0, "step": 0.1}, "step = 0.1 goes with integers"),
        ({"low": 0.5, "high": 3, "int": True}, "low = 0.5 must be a whole number"),
        ({"low": 1, "hihg": 2}, "'hihg' is no key of a range; did you mean 'high'"),
        ({"low": 1, "high": 2, "log": "yes"}, "log = 'yes' must be true or false"),
        ({"choices": [1, 2], "low": 1}, "'low' is no key of a choice"),
        ({"choices": 3}, "choices = 3 must be a list"),
        ({"low": "1", "high": 2}, "low = '1' must be"),
        ([], "at least one option"),
        ([32, 32], "option 32 is given 2 times"),
        ({"choices": [1], "when": "sgd"}, "when = 'sgd' must be a table"),
        ({"choices": [1], "when": {"optimizer": "sgd"}}, "no decision 'optimizer'"),
        ({}, "'low' is missing; give low and high, or choices"),
    ],
)
def test_a_malformed_hyperparameter_is_named(entry, message):
    with pytest.raises(ValueError, match=f"^hyperparameters.rate.*{message}"):
        hyperparameter_domain({"rate": entry})


def test_an_empty_table_is_refused():
    with pytest.raises(ValueError, match="hyperparameters declares no decisions"):
        hyperparameter_domain({})
