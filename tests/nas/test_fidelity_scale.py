"""Results at several fidelities on one scale: the chain of regressions, and the table that feeds it."""

import numpy as np
import pytest
from scipy.special import ndtri

from nas.strategies.fidelity_scale import RungCosts, expected_scores, normal_scores

NAN = np.nan


def test_scores_are_normal_quantiles_of_ranks_and_equals_share_theirs():
    np.testing.assert_allclose(normal_scores(np.array([5.0, -1.0, 7.0])), ndtri([0.5, 1 / 6, 5 / 6]))
    np.testing.assert_allclose(
        normal_scores(np.array([2.0, 2.0, 9.0, 1.0])), ndtri([0.5, 0.5, 7 / 8, 1 / 8]), atol=1e-15
    )


def test_one_fidelity_is_its_own_scale():
    costs = np.array([[3.0], [1.0], [2.0]])
    scores, variances = expected_scores(costs)
    np.testing.assert_allclose(scores, ndtri([5 / 6, 1 / 6, 0.5]), atol=1e-15)
    assert not variances.any()


def chained(trials, correlation, promoted, seed=0):
    """Costs at two rungs of the given correlation; the best share is promoted to the second."""
    rng = np.random.default_rng(seed)
    low = rng.standard_normal(trials)
    high = correlation * low + np.sqrt(1 - correlation**2) * rng.standard_normal(trials)
    costs = np.column_stack([low, high])
    costs[np.argsort(low)[int(promoted * trials) :], 1] = NAN
    return costs, high


@pytest.mark.parametrize("correlation", [0.3, 0.9])
def test_a_promotion_of_the_best_does_not_bias_what_the_others_are_expected_to_reach(correlation):
    costs, high = chained(6000, correlation, 1 / 3)
    scores, variances = expected_scores(costs)
    held = np.isnan(costs[:, 1])
    # what the scores of the others would be, had all been promoted, in units of the promoted
    reached = costs[~held, 1]
    truth = (high - reached.mean()) / reached.std()
    slope, offset = np.polyfit(costs[held, 0], scores[held], 1)
    assert slope == pytest.approx(correlation / reached.std(), rel=0.15)
    assert scores[held].mean() == pytest.approx(truth[held].mean(), abs=0.2)  # ranks are no straight line
    assert variances[held] == pytest.approx((1 - correlation**2) / reached.var(), rel=0.15)
    assert not variances[~held].any()


def test_uncertainty_grows_with_the_steps_that_are_still_to_come():
    costs = np.full((30, 3), NAN)
    costs[:, 0] = np.arange(30)
    costs[:9, 1] = np.arange(9)
    costs[:3, 2] = np.arange(3)
    _, variances = expected_scores(costs)
    assert variances[2] == 0 < variances[8] < variances[29]


def test_a_trial_that_began_higher_needs_no_lower_result_and_empty_rungs_are_passed_over():
    costs = np.array([[1.0, NAN, NAN], [2.0, NAN, NAN], [NAN, NAN, 5.0], [3.0, NAN, 4.0]])
    scores, variances = expected_scores(costs)
    assert scores[3] < scores[2]
    assert variances.tolist()[2:] == [0.0, 0.0]
    assert scores[0] < scores[1]
    assert np.isnan(expected_scores(np.array([[1.0], [NAN]]))[0][1])


def test_costs_are_kept_by_fidelity_whatever_their_order():
    table = RungCosts(2)
    for number in range(40):
        assert table.open() == number
    table.put(3, 9, (1.0, 2.0))
    table.put(3, 1, (3.0, 4.0))
    table.put(39, 3, (5.0, np.inf))
    assert table.values.shape == (40, 3, 2)
    assert table.values[3, [0, 2]].tolist() == [[3.0, 4.0], [1.0, 2.0]]
    assert np.isnan(table.values[39]).all()
