"""Domains: malformed declarations, messages, exact sizes, uniform samples, and what the operators do by hand."""

import json
from collections import Counter
from itertools import islice
from math import inf

import numpy as np
import pytest

from search_spaces import Cell, Choice, Domain, Float, Integer, Repeat, Values, When

MALFORMED = [
    ({}, "space declares no decisions"),
    ({"a": Choice(1), "b": Choice(1, when={"c": 1})}, "space.b: when = .*no decision 'c'.* Known: a"),
    ({"width": Choice(1), "b": Choice(1, when={"widht": 1})}, "did you mean 'width'"),
    ({"b": Choice(1, when={"a": 1}), "a": Choice(1)}, "space.b: .*'a' is declared later; move it before"),
    ({"a": Choice(1, when={"a": 1})}, "space.a: .*'a' is declared later"),
    ({"a": Choice(1, 2), "b": Choice(1, when={"a": 3})}, "space.b: when a = 3 never holds; a is one of 1, 2"),
    ({"a": Choice(1, 2), "b": Choice(1, when={"a": True})}, "when a = True never holds"),
    ({"a": Float(0, 1), "b": Choice(1, when={"a": 0.5})}, "'a' is a float"),
    ({"a": Integer(1, 10_000), "b": Choice(1, when={"a": 5})}, "'a' has 10,000 options"),
    ({"s": Repeat(2, {"a": Choice(1)}), "b": Choice(1, when={"s": 1})}, "'s' is a block"),
    ({"s": Repeat("n", {"a": Choice(1)})}, "space.s: count = 'n': no decision 'n'"),
    ({"s": Repeat("n", {"a": Choice(1)}), "n": Integer(1, 2)}, "'n' is declared later"),
    ({"n": Choice(1, 2.0), "s": Repeat("n", {"a": Choice(1)})}, "option 2.0, which is no count"),
    ({"n": Choice(False, True), "s": Repeat("n", {"a": Choice(1)})}, "option False, which is no count"),
    ({"n": Integer(-1, 1), "s": Repeat("n", {"a": Choice(1)})}, "option -1, which is no count"),
    ({"n": Integer(0, 0), "s": Repeat("n", {"a": Choice(1)})}, "never above 0"),
    ({"n": Integer(1, 2), "s": Repeat("n", {"a": [1, 2]})}, r"space.s.0.a = \[1, 2\] is no decision; write Choice"),
    ({"n": Integer(1, 2), "s": Repeat("n", {"a": Choice(1, when={"x": 1})})}, "space.s.0.a: .*no decision 'x'"),
    ({"a b": Choice(1)}, "space.a b: a name is printable text"),
    ({"a.b": Choice(1)}, "space.a.b: a name is printable text"),
    ({"": Choice(1)}, "a name is printable text"),
    ({"a=b": Choice(1)}, "a name is printable text"),
    ({"a\tb": Choice(1)}, "a name is printable text"),
    ({"": Cell(2, ["a"]), "1<-0": Choice(1)}, "space.1<-0 is declared twice"),
    ({"n": Integer(1, 4_000), "s": Repeat("n", dict.fromkeys("abc", Choice(1)))}, "more than 2,000 decisions"),
]


@pytest.mark.parametrize(("decisions", "message"), MALFORMED)
def test_a_malformed_domain_names_the_decision(decisions, message):
    with pytest.raises(ValueError, match=message):
        Domain(decisions, "space")


def inside_itself():
    block = {"width": Choice(1, 2)}
    block["inner"] = Repeat(2, block)
    return {"outer": Repeat(1, {"block": Repeat(1, block)})}


def one_in_another(depth):
    block = {"a": Choice(1, 2)}
    for _ in range(depth):
        block = {"s": Repeat(1, block)}
    return block


def test_a_block_that_contains_itself_is_named():
    with pytest.raises(ValueError, match=r"space\.outer\.0\.block\.0\.inner\.0: this block contains itself"):
        Domain(inside_itself(), "space")


def test_blocks_in_blocks_have_an_end():
    assert Domain(one_in_another(49)).size() == 2
    with pytest.raises(ValueError, match=r"s\.0\.s\.0.*: blocks stand in blocks more than 50 deep"):
        Domain(one_in_another(500))


def test_many_decisions_in_a_row_are_no_recursion():
    domain = Domain({f"a{at}": Choice(0, 1) for at in range(1_500)})
    first, second = islice(domain.assignments(), 2)
    assert [name for name in first if first[name] != second[name]] == ["a1499"]
    chain = {"a0": Choice(0, 1)} | {f"a{at}": Choice(0, 1, when={f"a{at - 1}": 1}) for at in range(1, 150)}
    assert Domain(chain).size() == sum(1 for _ in Domain(chain).assignments()) == 151
    longer = {"a0": Choice(0, 1)} | {f"a{at}": Choice(0, 1, when={f"a{at - 1}": 1}) for at in range(1, 400)}
    with pytest.raises(ValueError, match="space: decisions depend on others in a chain of more than 200"):
        Domain(longer, "space").size()


def test_all_that_is_done_with_integers_of_64_bits():
    domain = Domain({"seed": Integer(-(2**63), 2**63 - 1), "rate": Integer(1, 2**63 - 1, log=True), "a": Choice(1, 2)})
    rng = np.random.default_rng(0)
    assert domain.size() == 2**64 * (2**63 - 1) * 2
    one, other = domain.sample(rng), domain.sample(rng)
    for values in (one, domain.mutate(one, rng), domain.crossover(one, other, rng), domain.nudge(one, 0.1, rng)):
        domain.check(values)
        assert domain.from_plain(json.loads(values.json())) == Values.parse(str(values)) == values
    assert next(domain.assignments())["seed"] == -(2**63)
    assert next(domain.neighbours(one)) == Values({**one, "seed": -(2**63)})
    assert Domain.from_schema(json.loads(json.dumps(domain.schema()))).schema() == domain.schema()
    shares = np.mean([domain.sample(rng)["rate"] < 2**32 for _ in range(400)])
    assert shares == pytest.approx(32 / 63, abs=0.1)


def test_huge_integers_in_a_narrow_range_stay_apart():
    low = 2**62
    values = Integer(low, low + 3, log=True)
    domain = Domain({"n": values, "x": Choice(1, 2, when={"n": low})})
    rng = np.random.default_rng(0)
    counts = Counter(domain.sample(rng) for _ in range(500))
    assert set(counts) == set(domain.assignments())
    assert len(counts) == domain.size() == 5
    assert chi_square(counts, 5, 500) < 25


@pytest.fixture
def conditional():
    return Domain(
        {
            "optimizer": Choice("sgd", "adam"),
            "momentum": Choice(0.0, 0.9, 0.99, when={"optimizer": "sgd"}),
            "nesterov": Choice(False, True, when=[When("optimizer", "sgd"), When("momentum", 0.9, 0.99)]),
            "depth": Integer(1, 2),
            "layer": Repeat("depth", {"width": Choice(16, 32), "skip": Choice(False, True, when={"width": 32})}),
        }
    )


def test_a_size_counted_by_hand(conditional):
    # sgd: momentum 0.0 alone, or two momenta with two values of nesterov; a layer: 16, or 32 with two values of skip
    assert conditional.size() == (1 + (1 + 2 * 2)) * (3 + 3**2)
    assert len(list(conditional.assignments())) == conditional.size()


def test_a_float_makes_a_domain_infinite_only_where_it_can_be_active():
    contradiction = [When("a", 1), When("b", 1)]
    decisions = {"a": Choice(1, 2), "b": Choice(1, 2, when={"a": 2})}
    assert Domain(decisions | {"x": Float(0, 1)}).size() == inf
    assert Domain(decisions | {"x": Float(0, 1, when=contradiction)}).size() == 3
    assert Domain(decisions | {"x": Float(1, 1)}).size() == 3


def test_huge_sizes_are_exact():
    decisions = {"n": Integer(0, 100), "s": Repeat("n", {"a": Integer(1, 1000), "b": Choice(1, 2, when={"a": 7})})}
    domain = Domain(decisions)
    assert domain.size() == sum(1001**count for count in range(101))
    domain.check(domain.sample(np.random.default_rng(0)))


def test_many_independent_conditions_are_counted_at_once():
    switches = {f"on{i}": Choice(False, True) for i in range(60)}
    dependents = {f"x{i}": Choice(1, 2, 3, when={f"on{i}": True}) for i in range(60)}
    assert Domain(switches | dependents).size() == 4**60


def chi_square(counts, cells, draws):
    expected = draws / cells
    return sum((counts[cell] - expected) ** 2 / expected for cell in counts) + (cells - len(counts)) * expected


def test_samples_are_uniform_over_assignments(conditional):
    rng = np.random.default_rng(0)
    draws = 100 * conditional.size()
    counts = Counter(conditional.sample(rng) for _ in range(draws))
    assert set(counts) == set(conditional.assignments())
    # the 99.99 % quantile of chi-square with 71 degrees of freedom is 122
    assert chi_square(counts, conditional.size(), draws) < 122


def test_a_float_counts_as_one_option():
    domain = Domain({"a": Choice("x", "y"), "n": Choice(1, 2, 3, when={"a": "x"}), "f": Float(0, 1, when={"a": "y"})})
    rng = np.random.default_rng(0)
    share = np.mean([domain.sample(rng)["a"] == "x" for _ in range(4_000)])
    assert share == pytest.approx(3 / 4, abs=0.03)


def test_one_generator_gives_one_sample(conditional):
    first, second = (conditional.sample(np.random.default_rng([3, 7])) for _ in range(2))
    assert first == second
    assert list(first) == [slot.name for slot in conditional.slots if slot.name in first]


def test_mutation_drops_what_it_deactivates_and_samples_what_it_activates(conditional):
    parent = Values.parse('optimizer="sgd", momentum=0.9, nesterov=true, depth=1, layer.0.width=16')
    rng = np.random.default_rng(0)
    children = {conditional.mutate(parent, rng) for _ in range(2_000)}
    assert children == set(conditional.neighbours(parent))
    texts = set(map(str, children))
    assert 'optimizer="adam", depth=1, layer.0.width=16' in texts
    assert 'optimizer="sgd", momentum=0.0, depth=1, layer.0.width=16' in texts
    assert 'optimizer="sgd", momentum=0.9, nesterov=true, depth=1, layer.0.width=32, layer.0.skip=true' in texts
    # adam 1, momentum 2, nesterov 1, depth with 3 layers to come, width with 2 skips
    assert len(texts) == 1 + 2 + 1 + 3 + 2


def test_each_changeable_decision_mutates_equally_often():
    domain = Domain({"a": Choice(1), "b": Choice(1, 2), "c": Integer(1, 1000), "d": Float(0, 1)})
    rng = np.random.default_rng(0)
    parent = domain.sample(rng)
    assert domain.changeable(parent) == 3
    changed = Counter(
        name for _ in range(3_000) for name, value in domain.mutate(parent, rng).items() if value != parent[name]
    )
    assert set(changed) == {"b", "c", "d"}
    assert all(count == pytest.approx(1_000, abs=120) for count in changed.values())


def test_a_single_assignment_mutates_to_itself():
    domain = Domain({"a": Choice(1), "f": Float(2, 2), "s": Repeat(2, {"b": Choice("x")})})
    (only,) = domain.assignments()
    assert domain.size() == 1
    assert domain.mutate(only, np.random.default_rng(0)) == only
    assert list(domain.neighbours(only)) == []


def test_floats_have_no_neighbours_and_enter_at_the_middle():
    domain = Domain({"a": Choice("x", "y"), "f": Float(0, 4, when={"a": "y"}), "g": Float(1, 100, log=True)})
    texts = [str(near) for near in domain.neighbours(Values.parse('a="x", g=3.0'))]
    assert texts == ['a="y", f=2.0, g=3.0']


def test_crossover_takes_each_decision_from_either_parent():
    domain = Domain({name: Integer(0, 1) for name in "abcd"})
    zeros, ones = (Values(dict.fromkeys("abcd", value)) for value in (0, 1))
    rng = np.random.default_rng(0)
    counts = Counter(domain.crossover(zeros, ones, rng) for _ in range(1_600))
    assert len(counts) == 16
    assert chi_square(counts, 16, 1_600) < 45


def test_crossover_samples_what_neither_parent_has():
    domain = Domain({"a": Integer(0, 1), "b": Integer(0, 1), "c": Choice(1, 2, when=[When("a", 1), When("b", 1)])})
    rng = np.random.default_rng(0)
    children = {domain.crossover(Values({"a": 1, "b": 0}), Values({"a": 0, "b": 1}), rng) for _ in range(300)}
    assert children == set(domain.assignments())


WRONG = [
    ({"depht": 1}, r"space.depht = 1: no such decision; did you mean \'depth\'\? Known: depth, width, kind, size"),
    ({"depth": 1}, "space.width is missing; it is one of 16, 32"),
    ({"depth": 3, "width": 16, "kind": "a"}, "space.depth = 3: it must be an int from 1 to 2"),
    ({"depth": True, "width": 16, "kind": "a"}, "space.depth = true: it must be an int"),
    ({"depth": 1.0, "width": 16, "kind": "a"}, "space.depth = 1.0: it must be an int"),
    ({"depth": 1, "width": "16", "kind": "a"}, 'space.width = "16": it must be one of 16, 32'),
    ({"depth": 1, "width": object, "kind": "a"}, "space.width = <class 'object'>: it must be one of"),
    ({"depth": 1, "width": 16, "kind": "a", "size": 0.1}, 'space.size = 0.1: it does not apply where kind = "a"'),
    ({"depth": 1, "width": 16, "kind": "b"}, "space.size is missing; it is a float from 0.0 to 1.0"),
]


@pytest.mark.parametrize(("values", "message"), WRONG)
def test_check_names_what_is_wrong(values, message):
    domain = Domain(
        {
            "depth": Integer(1, 2),
            "width": Choice(16, 32),
            "kind": Choice("a", "b"),
            "size": Float(0, 1, when={"kind": "b"}),
        },
        "space",
    )
    with pytest.raises(ValueError, match=message):
        domain.check(values)


def test_an_unknown_name_is_refused_by_the_operators():
    domain = Domain({"depth": Integer(1, 2)})
    with pytest.raises(ValueError, match="did you mean 'depth'"):
        domain.mutate({"dept": 1}, np.random.default_rng(0))


def test_plain_values_are_coerced_where_json_and_toml_lose_types():
    domain = Domain({"kernel": Choice((1, 1), (3, (3, 1))), "rate": Float(0, 1)})
    values = domain.from_plain({"rate": 1, "kernel": [3, [3, 1]]})
    assert dict(values) == {"kernel": (3, (3, 1)), "rate": 1.0}
    assert type(values["rate"]) is float
    assert list(values) == ["kernel", "rate"]


def test_a_schema_survives_json_with_sorted_names(conditional):
    schema = conditional.schema()
    back = json.loads(json.dumps(schema, sort_keys=True, allow_nan=False))
    assert back == schema
    again = Domain.from_schema(back)
    assert again.schema() == schema
    assert list(again.assignments()) == list(conditional.assignments())


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({}, "a schema is"),
        ({"decisions": [{"type": "choice"}]}, "no schema of decisions"),
        ({"decisions": [{"name": "a", "type": "tree"}]}, "'a' has the type 'tree', which this version does not know"),
    ],
)
def test_a_bad_schema_is_refused(schema, message):
    with pytest.raises(ValueError, match=message):
        Domain.from_schema(schema)


def test_an_inner_name_hides_an_outer_one():
    domain = Domain(
        {
            "width": Choice(1, 2),
            "s": Repeat(1, {"width": Choice(7, 8), "x": Choice(0, 1, when={"width": 7})}),
        }
    )
    assert domain.size() == 2 * 3
