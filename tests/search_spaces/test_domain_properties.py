"""Laws of every domain, over random declarations: conditions, blocks, blocks of blocks."""

import json
import pickle
from contextlib import nullcontext
from itertools import islice, product

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from search_spaces import Choice, Domain, Float, Integer, Repeat, Values, When
from search_spaces.conditions import typed_key

MOST = 2_000
laws = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
nasty = st.sampled_from(
    [1, True, 1.0, "1", None, (1, 1), (1, True), 0, False, "", 'a "quoted", text', "größe=三", "-0.5"]
)
seeds = st.integers(0, 2**32 - 1)


@st.composite
def leaves(draw, when):
    if draw(st.integers(0, 3)) == 0:
        low = draw(st.integers(0, 2))
        return Integer(low, low + draw(st.integers(0, 2)), when=when)
    options = draw(st.lists(nasty, min_size=1, max_size=3, unique_by=typed_key))
    return Choice(*options, ordered=draw(st.booleans()), when=when)


@st.composite
def blocks(draw, around=(), depth=2, floats=False):
    """Decisions by name; ``around`` are leaves of enclosing blocks, which conditions and counts may name."""
    block, known = {}, dict(around)
    for number in range(draw(st.integers(1, 4))):
        name = f"{'xyz'[depth]}{number}"
        parents = draw(st.lists(st.sampled_from(sorted(known)), max_size=2, unique=True)) if known else []
        when = [
            When(parent, *draw(st.lists(st.sampled_from(known[parent].options), min_size=1, unique_by=typed_key)))
            for parent in parents
        ]
        counts = sorted(key for key, leaf in known.items() if isinstance(leaf, Integer) and leaf.high >= 1)
        if depth and counts and draw(st.booleans()):
            inner = draw(blocks(around=tuple(known.items()), depth=depth - 1))
            block[name] = Repeat(draw(st.sampled_from([*counts, 1])), inner, when)
        elif floats and draw(st.integers(0, 3)) == 0:
            block[name] = Float(0.5, 2.0, log=draw(st.booleans()), when=when)
        else:
            block[name] = known[name] = draw(leaves(when))
    return block


def reference(decisions, prefix="", around=()):
    """All assignments of a declaration, by recursion over it: another way than the layout's."""

    def value(name, scopes):
        scope = next(scope for scope in reversed(scopes) if name in scope[0])
        return scope[1].get(name, Ellipsis)

    def holds(when, scopes):
        taken = value(when.decision, scopes)
        return taken is not Ellipsis and typed_key(taken) in map(typed_key, when.values)

    def go(items, local):
        if not items:
            yield {}
            return
        (name, decision), *rest = items
        scopes = (*around, (decisions, local))
        if not all(holds(when, scopes) for when in decision.conditions):
            yield from go(rest, local)
        elif isinstance(decision, Repeat):
            count = decision.count if isinstance(decision.count, int) else value(decision.count, scopes)
            copies = range(0 if count is Ellipsis else count)
            parts = [list(reference(decision.decisions, f"{prefix}{name}.{copy}.", scopes)) for copy in copies]
            for combination in product(*parts):
                merged = {key: item for part in combination for key, item in part.items()}
                yield from ({**merged, **later} for later in go(rest, local))
        else:
            for option in decision.options:
                yield from ({prefix + name: option, **later} for later in go(rest, {**local, name: option}))

    yield from go(list(decisions.items()), {})


def small(decisions):
    domain = Domain(decisions)
    assume(domain.size() <= MOST)
    return domain


@laws
@given(blocks())
def test_size_and_list_agree_with_brute_force(decisions):
    domain = small(decisions)
    expected = [Values(values) for values in islice(reference(decisions), MOST + 1)]
    assert domain.size() == len(expected)
    assert list(domain.assignments()) == expected
    assert len(set(expected)) == len(expected)


@laws
@given(blocks(floats=True), seeds)
def test_samples_mutants_and_children_are_assignments_in_order(decisions, seed):
    domain, rng = Domain(decisions), np.random.default_rng(seed)
    first, second = domain.sample(rng), domain.sample(rng)
    order = {slot.name: slot.index for slot in domain.slots}
    for values in (first, second, domain.mutate(first, rng), domain.crossover(first, second, rng)):
        domain.check(values)
        assert [order[name] for name in values] == sorted(order[name] for name in values)


@laws
@given(blocks(floats=True), seeds)
def test_a_mutation_changes_exactly_one_decision(decisions, seed):
    domain, rng = Domain(decisions), np.random.default_rng(seed)
    parent = domain.sample(rng)
    child = domain.mutate(parent, rng)
    changed = [name for name in parent if name in child and typed_key(parent[name]) != typed_key(child[name])]
    assert len(changed) == min(1, domain.changeable(parent))
    if not changed:
        assert child == parent


@laws
@given(blocks(floats=True), seeds, st.floats(0.001, 0.5))
def test_nudges_move_numbers_only_and_none_that_others_depend_on(decisions, seed, spread):
    domain = Domain(decisions)
    rng = np.random.default_rng(seed)
    values = domain.sample(rng)
    nudged = domain.nudge(values, spread, rng)
    domain.check(nudged)
    slots = {slot.name: slot for slot in domain.slots}
    for name, value in values.items():
        if isinstance(slots[name].decision, Choice) or slots[name].controls:
            assert typed_key(nudged[name]) == typed_key(value)


def test_the_size_of_a_nudge_is_its_spread_of_the_range():
    domain = Domain({"rate": Float(1e-4, 1.0, log=True), "units": Integer(0, 10**9)})
    rng = np.random.default_rng(0)
    steps = []
    for _ in range(2_000):
        nudged = domain.nudge({"rate": 1e-2, "units": 5 * 10**8}, 0.01, rng)
        steps.append([np.log(nudged["rate"] / 1e-2) / np.log(1e4), nudged["units"] / 10**9 - 0.5])
    assert (np.array(steps) != 0).any(1).all()
    moved = [[step for step in column if step] for column in np.array(steps).T]
    for column in moved:
        assert 1_400 < len(column) < 1_600
        assert np.std(column) == pytest.approx(0.01, rel=0.1)


@laws
@given(blocks(), seeds)
def test_mutants_are_neighbours_and_neighbours_are_symmetric(decisions, seed):
    domain, rng = small(decisions), np.random.default_rng(seed)
    parent = domain.sample(rng)
    near = list(domain.neighbours(parent))
    assert len(set(near)) == len(near)
    assert parent not in near
    assert domain.fewest_neighbours(parent) <= len(near)
    if not any(slot.conditions for slot in domain.slots):
        assert domain.fewest_neighbours(parent) == len(near)
    if near:
        assert domain.mutate(parent, rng) in near
        assert parent in set(domain.neighbours(near[int(rng.integers(len(near)))]))


@laws
@given(blocks(floats=True), seeds)
def test_text_json_schema_and_pickle_round_trip(decisions, seed):
    domain = Domain(decisions)
    values = domain.sample(np.random.default_rng(seed))
    assert domain.from_plain(Values.parse(str(values))) == values
    assert domain.from_plain(json.loads(values.json())) == values
    schema = json.loads(json.dumps(domain.schema()))
    assert schema == domain.schema()
    for again in (Domain.from_schema(schema), pickle.loads(pickle.dumps(domain))):
        assert again.sample(np.random.default_rng(seed)) == values


@laws
@given(blocks(), seeds, st.data())
def test_check_accepts_exactly_the_assignments(decisions, seed, data):
    domain = small(decisions)
    values = dict(domain.sample(np.random.default_rng(seed)))
    name = data.draw(st.sampled_from([slot.name for slot in domain.slots]))
    if data.draw(st.booleans()):
        values.pop(name, None)
    else:
        values[name] = data.draw(nasty)
    legal = Values(values) in set(domain.assignments())
    with nullcontext() if legal else pytest.raises(ValueError, match="|".join(slot.name for slot in domain.slots)):
        domain.check(values)
