"""Pipelines against a simulated flow of micro-batches, and where stages are cut."""

import numpy as np
import pytest

from tests.trainers.parallelism.priced_samples import machine, perceptron
from trainers.parallelism.cost import divide
from trainers.parallelism.operator_costs import unit_seconds
from trainers.parallelism.pipeline import best_cut, bubble_share, pipeline_seconds
from trainers.parallelism.plan import Plan


def flow(stages, micro_batches):
    """When the last micro-batch leaves the last stage; each stage works on one at a time, in order."""
    free = [0.0] * len(stages)
    for _ in range(micro_batches):
        ready = 0.0
        for place, own in enumerate(stages):
            ready = free[place] = max(ready, free[place]) + own
    return free[-1]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("micro_batches", [1, 2, 7])
def test_micro_batches_flow_at_the_pace_of_the_slowest_stage(seed, micro_batches):
    stages = np.random.default_rng(seed).lognormal(0, 1, 4)
    assert pipeline_seconds(stages, micro_batches) == pytest.approx(flow(stages, micro_batches))


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 4), (2, 1), (4, 8), (8, 2)])
def test_the_bubble_of_equal_stages(stages, micro_batches):
    whole = pipeline_seconds(np.full(stages, 3.0), micro_batches)
    assert 1 - micro_batches * 3.0 / whole == pytest.approx(bubble_share(stages, micro_batches))


def test_stages_hold_all_units_and_balance_them():
    work = perceptron(8, (64,) * 9)
    share = divide(work, Plan(pipeline=4, micro_batches=4), machine())
    assert share.starts == (2, 4, 6)
    assert share.parameters.tolist() == [2 * 64 * 64] * 4


def test_borders_pass_activations_both_ways():
    work = perceptron(8, (64, 32, 16, 64))
    share = divide(work, Plan(pipeline=2, micro_batches=3), machine(), starts=(1,))
    (borders,) = share.exchanges
    assert borders.bytes.tolist() == [4 * 8 * 32] * 2  # a stage sends, or receives, that much forward and backward
    assert borders.sent_bytes().tolist() == [3 * 4 * 8 * 32] * 2


def test_given_cuts_must_be_as_many_as_the_plan_says():
    with pytest.raises(ValueError, match="1 cuts given, 2 needed"):
        divide(perceptron(8, (64,) * 5), Plan(pipeline=3), machine(), starts=(1,))


def test_another_order_is_taken_where_it_is_worth_it():
    from search_spaces.operator_graph import OperatorGraph, Phase
    from tests.trainers.parallelism.priced_samples import product
    from trainers.parallelism.workload import columns

    branches = [(), (0,), (0,), (0,), (1, 2, 3)]
    graph = OperatorGraph(
        tuple(product(str(place), Phase.FORWARD, 1, 0, 4, 0, 0, inputs) for place, inputs in enumerate(branches)), 1, 0
    )
    work = columns(graph)
    costs = np.array([1.0, 3.0, 5.0, 2.0, 1.0])  # in this order 4 | 8, or 9 | 3; with the short branch first 6 | 6
    ordered, cuts = best_cut(work, costs, np.zeros_like, 2)
    assert cuts.largest == 6.0
    first = {place for place in range(5) if ordered.unit[place] < cuts.starts[0]}
    assert first in ({0, 1, 3}, {0, 2})
    assert unit_seconds(ordered, machine()).sum() == pytest.approx(unit_seconds(work, machine()).sum())
