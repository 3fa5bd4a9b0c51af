"""Work, depth, critical path, levels and Brent's bounds: by hand, against all paths, against greedy schedules."""

import time
from functools import cache
from heapq import heappop, heappush
from math import inf

import numpy as np
import pytest

from search_spaces.operator_graph import Kind, Operator, OperatorGraph, Phase
from search_spaces.work_depth import brent_bounds, weighted_work_depth, work_depth


def operator(work, depth, *inputs):
    return Operator("", Kind.ELEMENTWISE, Phase.FORWARD, 0, work, depth, 0, 0, 0, 0, inputs)


def graph(*operators):
    return OperatorGraph(tuple(operators), batch=1, parameters=0)


def random_graph(seed, count, reach=4):
    rng = np.random.default_rng(seed)
    operators = []
    for place in range(count):
        inputs = {place - 1 - int(back) for back in rng.integers(0, reach, rng.integers(0, 4))}
        depth = int(rng.integers(0, 9))
        operators.append(operator(depth * int(rng.integers(1, 50)), depth, *sorted(i for i in inputs if i >= 0)))
    return graph(*operators)


def test_a_diamond_by_hand():
    diamond = graph(operator(10, 1), operator(100, 5, 0), operator(40, 7, 0), operator(6, 2, 1, 2), operator(3, 3))
    known = work_depth(diamond)
    assert (known.work, known.depth, known.critical_path) == (159, 1 + 7 + 2, (0, 2, 3))
    assert known.levels == (2, 2, 1)
    assert known.parallelism == 15.9


def test_by_seconds_another_path_is_critical():
    diamond = graph(operator(10, 1), operator(100, 5, 0), operator(40, 7, 0), operator(6, 2, 1, 2))
    known = weighted_work_depth(diamond, lambda operator: operator.work / 1000)
    assert known.work == pytest.approx(0.156)
    assert known.depth == pytest.approx(0.116)
    assert known.critical_path == (0, 1, 3)
    assert known.levels == work_depth(diamond).levels


def test_nothing_and_copies_alone():
    empty = work_depth(graph())
    assert (empty.work, empty.depth, empty.critical_path, empty.levels) == (0, 0, (), ())
    copies = work_depth(graph(operator(0, 0), operator(0, 0, 0)))
    assert (copies.depth, copies.levels) == (0, (1, 1))
    assert copies.parallelism == inf


@pytest.mark.parametrize("seed", range(20))
def test_the_critical_path_is_a_chain_as_deep_as_the_deepest_of_all(seed):
    drawn = random_graph(seed, 40)

    @cache
    def deepest(place, weight):
        chosen = drawn.operators[place]
        return getattr(chosen, weight) + max((deepest(i, weight) for i in chosen.inputs), default=0)

    @cache
    def level(place):
        return max((1 + level(i) for i in drawn.operators[place].inputs), default=0)

    for known, weight in (
        (work_depth(drawn), "depth"),
        (weighted_work_depth(drawn, lambda operator: operator.work), "work"),
    ):
        path = known.critical_path
        assert known.depth == max(deepest(place, weight) for place in range(40))
        assert sum(getattr(drawn.operators[place], weight) for place in path) == known.depth
        assert drawn.operators[path[0]].inputs == ()
        assert all(a in drawn.operators[b].inputs for a, b in zip(path, path[1:], strict=False))
        assert known.levels == tuple(np.bincount([level(place) for place in range(40)]))
        assert known.work == sum(operator.work for operator in drawn.operators)


def greedy(drawn, processors):
    """Seconds of the schedule that starts an operator whenever a processor is free and its inputs are there."""
    needs = [len(operator.inputs) for operator in drawn.operators]
    ready = [place for place, count in enumerate(needs) if count == 0]
    running, now = [], 0
    while ready or running:
        while ready and len(running) < processors:
            place = ready.pop()
            heappush(running, (now + drawn.operators[place].work, place))
        now, ended = heappop(running)
        for place, reader in enumerate(drawn.operators):
            if ended in reader.inputs:
                needs[place] -= 1
                if needs[place] == 0:
                    ready.append(place)
    return now


@pytest.mark.parametrize("processors", [1, 2, 3, 8, 100])
def test_greedy_schedules_lie_within_brents_bounds(processors):
    for seed in range(10):
        drawn = random_graph(seed, 40)
        seconds = weighted_work_depth(drawn, lambda operator: operator.work)
        low, high = brent_bounds(seconds.work, seconds.depth, processors)
        assert low <= greedy(drawn, processors) <= high + 1e-9
        units = graph(*(operator(1, 1, *o.inputs) for o in drawn.operators))
        whole = work_depth(units)
        low, high = brent_bounds(whole.work, whole.depth, processors)
        assert isinstance(low, int)
        assert low <= greedy(units, processors) <= high


def test_brents_bounds_meet_on_one_processor_and_on_very_many():
    assert brent_bounds(100, 10, 1) == (100, 100)
    assert brent_bounds(100, 10, 3) == (34, 40)
    assert brent_bounds(100, 10, 1000) == (10, 10)
    assert brent_bounds(1.0, 0.25, 2) == (0.5, 0.625)


def test_no_processor_computes_nothing():
    with pytest.raises(ValueError, match="processors = 0: at least 1"):
        brent_bounds(10, 1, 0)


@pytest.mark.clock
def test_ten_thousand_operators_are_analysed_in_20_ms():
    drawn = random_graph(0, 10_000)
    took = []
    for _ in range(10):
        start = time.perf_counter()
        work_depth(drawn)
        took.append(time.perf_counter() - start)
    assert min(took) < 0.02
