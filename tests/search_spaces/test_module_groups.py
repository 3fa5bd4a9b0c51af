"""Groups of operators by module: nothing lost, nothing twice, as fine as fits, and in order without a cycle."""

from torch import nn

from search_spaces import Signature, TensorType
from search_spaces.module_groups import by_module, in_order, longest_chain, main_kind, module_of
from search_spaces.operator_graph import Kind, Operator, OperatorGraph, Phase
from search_spaces.tracing import trace
from search_spaces.work_depth import work_depth


class Block(nn.Module):
    """Two layers, and what runs in the block itself between and after them."""

    def __init__(self, width):
        super().__init__()
        self.one, self.two = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.two(self.one(x).relu())


def graph(blocks=3):
    network = nn.Sequential(*(Block(8) for _ in range(blocks)), nn.Linear(8, 2)).to("meta")
    return trace(network, Signature(TensorType((8,)), TensorType((2,))), 4)


def test_every_operator_is_in_one_group():
    traced = graph()
    for most in (1, 8, 15, 1000):
        for groups in (by_module(traced, most), in_order(traced, lambda finer, most=most: len(finer) <= most)):
            assert sorted(place for group in groups for place in group.places) == list(range(len(traced.operators)))


def test_groups_are_as_fine_as_fits():
    traced = graph()
    fine = {group.module for group in by_module(traced, 1000)}
    assert {"0.one", "0.two", "0", "2.two", "3", "loss"} <= fine
    coarse = by_module(traced, len(by_module(traced, 1000)) - 1)
    assert {group.module for group in coarse} == {"0", "1", "2", "3", "loss", ""}
    assert [group.module for group in coarse if group.phase is Phase.FORWARD] == ["0", "1", "2", "3", "loss"]
    assert by_module(traced, 1) == coarse


def test_groups_in_order_have_no_cycle():
    traced = graph()
    groups = in_order(traced, lambda _: True)
    assert [group.module for group in groups][:4] == ["0.one", "0", "0.two", "0"]
    owner = {place: number for number, group in enumerate(groups) for place in group.places}
    assert all(owner[source] <= owner[place] for place, one in enumerate(traced.operators) for source in one.inputs)


def test_the_longest_chain_of_all_is_the_depth():
    traced = graph()
    assert longest_chain(traced, range(len(traced.operators))) == work_depth(traced).depth
    assert longest_chain(traced, [0]) == traced.operators[0].depth
    assert longest_chain(traced, []) == 0


def operator(name, kind, work):
    return Operator(name, kind, Phase.FORWARD, 0, work, 1, 0, 0, 0, 0, ())


def test_the_main_kind_does_most_of_the_work():
    small = [operator("a.mul", Kind.ELEMENTWISE, 3), operator("a.add", Kind.ELEMENTWISE, 3)]
    traced = OperatorGraph((*small, operator("a.b.mm", Kind.MATMUL, 5)), 1, 0)
    assert main_kind(traced, [0, 2]) is Kind.MATMUL
    assert main_kind(traced, [0, 1, 2]) is Kind.ELEMENTWISE


def test_the_module_of_an_operator_is_its_path():
    one = operator("a.b.c.mm", Kind.MATMUL, 1)
    assert [module_of(one), module_of(one, 2), module_of(one, 9)] == ["a.b.c", "a.b", "a.b.c"]
    assert module_of(operator("mm", Kind.MATMUL, 1)) == ""
