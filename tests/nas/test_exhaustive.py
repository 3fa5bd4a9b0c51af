"""Exhaustive search: all candidates, each once, in one order, whatever happens in between."""

import numpy as np
import pytest

import nas
from nas.conformance import run_strategy
from nas.fidelity import AsynchronousHalving, FullFidelity
from nas.objective import Direction, Objective, Objectives
from nas.proposal import EXHAUSTED
from nas.rehearsal import Rehearsal
from nas.strategies.exhaustive import ExhaustiveSearch
from nas.warm_start import hand_down
from search_spaces import CandidateSpace, Choice, Domain, Float, Integer, Repeat, SearchSpace, hyperparameter_domain
from trainers import FailureKind

ONE = Objectives((Objective("a", Direction.MAXIMIZE),))


class Blocks(SearchSpace):
    """2 + 2 x 2 = 6 architectures of one layer or two, each with or without norm: 12."""

    decisions = {
        "depth": Integer(1, 2),
        "layer": Repeat("depth", {"width": Choice(8, 16)}),
        "norm": Choice(None, "batch"),
    }


SPACE = CandidateSpace(Blocks(), hyperparameter_domain({"rate": [0.1, 0.2, 0.3]}))
SIZE = 12 * 3


def search_of(start=(), rule=None):
    rule = rule or FullFidelity(ONE, 1, 1, 3)
    return Rehearsal(SPACE, ONE, rule, ExhaustiveSearch(SPACE, ONE), start=start)


def play(search, rng, steps=10_000, workers=4):
    """Start or advance at random; some trials fail, some are refused."""
    for _ in range(steps):
        running = search.study.running()
        if len(running) < workers and rng.random() < 0.6:
            search.refuse(int(rng.random() < 0.1))
            if search.start() is None and not running:
                return
        elif running:
            trial = running[rng.integers(len(running))]
            if rng.random() < 0.1:
                search.fail(trial, FailureKind.ERROR)
            else:
                search.advance(trial, {"a": rng.random()})


def tried(search):
    return [trial.proposal.candidate for trial in search.study.trials()]


@pytest.mark.parametrize("seed", range(5))
def test_four_workers_and_a_resume_try_all_exactly_once(seed):
    rng = np.random.default_rng(seed)
    search = search_of()
    play(search, rng, steps=int(rng.integers(5, 60)))
    resumed = search_of()
    resumed.replay(search.records)
    play(resumed, rng)
    assert resumed.over == "exhausted: the strategy has nothing left to propose"
    assert len(tried(resumed)) == len(set(tried(resumed))) == SPACE.size() == SIZE


def test_the_order_is_that_of_the_declaration():
    one, other = search_of(rule=AsynchronousHalving(ONE, 1, 9, 3)), search_of()
    for seed, search in enumerate((one, other)):
        play(search, np.random.default_rng(seed))
    assert tried(one) == tried(other)
    assert [str(candidate) for candidate in tried(one)[:4]] == [
        "depth=1, layer.0.width=8, norm=null; rate=0.1",
        "depth=1, layer.0.width=8, norm=null; rate=0.2",
        "depth=1, layer.0.width=8, norm=null; rate=0.3",
        'depth=1, layer.0.width=8, norm="batch"; rate=0.1',
    ]


def test_known_candidates_are_passed_over():
    known = [SPACE.sample(np.random.default_rng(at)) for at in (1, 2)]
    search = search_of(start=known)
    play(search, np.random.default_rng(0))
    assert tried(search)[:2] == known
    assert len(tried(search)) == len(set(tried(search))) == SIZE


def test_what_an_older_study_measured_is_tried_again():
    older = search_of()
    play(older, np.random.default_rng(0))
    search = search_of()
    search.record(hand_down(older.study, ONE, "an older study"))
    play(search, np.random.default_rng(0))
    assert len(set(tried(search))) == SIZE


def test_all_under_way_is_exhausted_not_waiting():
    search = search_of()
    pending = [search.start() for _ in range(SIZE)]
    assert search.state.strategy.ask(pending, np.random.default_rng(0)) is EXHAUSTED


def finite(space):
    """The space with each float at its two ends only."""

    def ends(domain):
        return {
            name: Choice(one.low, one.high, when=one.when) if isinstance(one, Float) else one
            for name, one in domain.decisions.items()
        }

    listed = SearchSpace()
    listed.decisions = ends(space.space.domain)
    hyperparameters = space.hyperparameters
    return CandidateSpace(listed, Domain(ends(hyperparameters)) if hyperparameters else None)


def test_it_keeps_the_contract_but_heeds_no_seed():
    findings = run_strategy(lambda space, objectives: ExhaustiveSearch(finite(space), objectives))
    assert [finding.message for finding in findings] == ["it proposes the same whatever the seed; draw from rng"]


class Endless(SearchSpace):
    """A float in the architecture."""

    decisions = {"rate": Float(0.0, 0.5)}


class Vast(SearchSpace):
    """10^20 architectures."""

    decisions = {f"d{at}": Integer(1, 10) for at in range(20)}


class Vaster(SearchSpace):
    """10^5000 architectures, a number that Python does not write."""

    decisions = {f"d{at}": Integer(1, 10**10) for at in range(500)}


class Large(SearchSpace):
    """1,000,001 architectures."""

    decisions = {"d": Integer(0, 1_000_000)}


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (CandidateSpace(Endless()), r"Endless\.rate is a float from 0\.0 to 0\.5.*list those to be tried"),
        (
            CandidateSpace(Blocks(), hyperparameter_domain({"rate": {"low": 1e-3, "high": 0.1}})),
            r"hyperparameters\.rate is a float from 0\.001 to 0\.1",
        ),
        (CandidateSpace(Vast()), r"at most 1,000,000, and this space has about 1.0e20; declare fewer options"),
        (CandidateSpace(Vaster()), r"has about 1.0e5000; declare fewer options"),
        (CandidateSpace(Large()), r"has 1,000,001; "),
    ],
)
def test_a_space_that_cannot_be_listed_is_refused(space, message):
    with pytest.raises(ValueError, match=message):
        ExhaustiveSearch(space, ONE)


def test_the_configuration_says_so(tmp_path):
    tables = {
        "search": {"space": "mlp", "strategy": "exhaustive", "trials": 3},
        "hyperparameters": {"learning_rate": {"low": 1e-3, "high": 1e-1}},
    }
    with pytest.raises(nas.ConfigError, match=r"search\.strategy: exhaustive search .* hyperparameters\.learning_rate"):
        nas.search(folder=tmp_path, **tables)
