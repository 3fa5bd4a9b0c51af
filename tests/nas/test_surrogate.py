"""The Gaussian process over candidates, and the expected improvement."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from nas.strategies.predictor import log_expected_improvement
from nas.surrogate import Lift, Surrogate
from search_spaces.encoding import Column

COLUMNS = (
    Column("kind", 3, (), conditional=False),
    Column("width", 0, (0.0, 0.25, 1.0), conditional=False),
    Column("rate", 0, (), conditional=False),
    Column("maybe", 2, (), conditional=True),
)


def rows(count, seed=0):
    rng = np.random.default_rng(seed)
    maybe = rng.choice([0, 1, np.nan], count)
    return np.column_stack([rng.integers(3, size=count), rng.choice([0, 0.25, 1], count), rng.random(count), maybe])


def deltas(x, y):
    mismatch = lambda a, b: float(not (a == b or (np.isnan(a) and np.isnan(b))))  # noqa: E731
    return [mismatch(x[0], y[0]), 2 * abs(x[1] - y[1]), (2 * (x[2] - y[2])) ** 2, mismatch(x[3], y[3])]


def test_lifted_distances_are_the_declared_ones():
    points, lift = rows(20), Lift(COLUMNS)
    distances = lift.distances(lift(points))
    for i, x in enumerate(points):
        for j, y in enumerate(points):
            np.testing.assert_allclose(distances[:, i, j], deltas(x, y), atol=1e-12)


def test_each_group_of_features_has_its_mean_squared_difference():
    points = np.column_stack([rows(5), np.eye(5), np.arange(5.0)])
    lift = Lift(COLUMNS, features=[5, 1])
    distances = lift.distances(lift(points))
    assert lift.groups == 6
    np.testing.assert_allclose(distances[4], (1 - np.eye(5)) * 2 / 5, atol=1e-12)
    np.testing.assert_allclose(distances[5], np.subtract.outer(np.arange(5), np.arange(5)) ** 2, atol=1e-12)


def test_the_gradient_is_that_of_the_loss():
    points = rows(25)
    process = Surrogate(COLUMNS)
    lift = Lift(COLUMNS)
    distances, targets = lift.distances(lift(points)), np.random.default_rng(1).standard_normal(25)
    hyper = np.array([0.1, -0.4, 0.3, -1.0, 0.2, -2.0])
    _, gradient = process._loss(hyper, distances, targets)
    for at in range(len(hyper)):
        step = np.zeros(len(hyper))
        step[at] = 1e-5
        above, below = (process._loss(hyper + sign * step, distances, targets)[0] for sign in (1, -1))
        assert gradient[at] == pytest.approx((above - below) / 2e-5, rel=1e-5, abs=1e-6)


def test_prediction_is_that_of_the_closed_form():
    known, asked, targets = rows(15), rows(6, seed=5), np.random.default_rng(2).standard_normal(15)
    process = Surrogate(COLUMNS)
    process.fit(known, targets)
    process.condition(known, targets)
    weights, amplitude, noise = np.exp(process._hyper[:4]), np.exp(process._hyper[4]), np.exp(process._hyper[5])
    kernel = lambda a, b: np.array([[amplitude * np.exp(-weights @ deltas(x, y)) for y in b] for x in a])  # noqa: E731
    inverse = np.linalg.inv(kernel(known, known) + (noise + 1e-6) * np.eye(15))
    cross = kernel(asked, known)
    mean, deviation = process.predict(asked)
    np.testing.assert_allclose(mean, cross @ inverse @ targets, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(deviation**2, amplitude - np.diag(cross @ inverse @ cross.T), rtol=1e-5, atol=1e-8)


def test_where_nothing_can_change_the_mean_is_that_of_all():
    surrogate = Surrogate([Column("only", 0, (0.0,), conditional=False)])
    surrogate.condition(np.zeros((2, 1)), np.array([-1.0, 1.0]))
    assert surrogate.predict(np.zeros((1, 1)))[0] == pytest.approx([0])


def test_a_belief_leaves_the_mean_and_shrinks_the_deviation():
    known, targets = rows(15), np.random.default_rng(2).standard_normal(15)
    process = Surrogate(COLUMNS)
    process.condition(known, targets)
    asked = rows(1, seed=7)
    mean, deviation = process.predict(asked)
    process.believe(asked)
    after, less = process.predict(asked)
    assert after == pytest.approx(mean, abs=0.02 * max(1, abs(mean[0])) + 0.05)
    assert less < deviation


def test_a_fit_depends_on_its_arguments_alone():
    points, targets = rows(20), np.random.default_rng(3).standard_normal(20)
    fresh, used = Surrogate(COLUMNS), Surrogate(COLUMNS)
    used.fit(rows(12, seed=9), np.random.default_rng(4).standard_normal(12))
    fresh.fit(points, targets)
    used.fit(points, targets)
    np.testing.assert_array_equal(fresh._hyper, used._hyper)


def test_a_decision_that_matters_gets_the_larger_weight():
    rng = np.random.default_rng(0)
    columns = tuple(Column(f"d{at}", 4, (), conditional=False) for at in range(5))
    points = rng.integers(4, size=(80, 5)).astype(float)
    effect = np.array([-1.5, 0, 1.5, 0.5])
    targets = effect[points[:, 2].astype(int)] + 0.1 * rng.standard_normal(80)
    process = Surrogate(columns)
    process.fit(points, targets)
    assert int(np.argmax(process._hyper[:5])) == 2


@pytest.mark.parametrize(("mean", "deviation"), [(0.3, 0.5), (-0.4, 1.3), (2.0, 0.4)])
def test_log_expected_improvement_is_that_of_the_integral(mean, deviation):
    best = 0.1
    improvement, _ = quad(lambda f: (best - f) * norm.pdf(f, mean, deviation), -12, best)
    value = log_expected_improvement(np.array([mean]), np.array([deviation]), best)
    assert value == pytest.approx(np.log(improvement), rel=1e-6)


def test_log_expected_improvement_far_above_the_best_still_ranks():
    values = log_expected_improvement(np.array([30.0, 31.0, 35.0]), np.ones(3), 0.0)
    assert np.all(np.isfinite(values))
    assert np.all(np.diff(values) < 0)
