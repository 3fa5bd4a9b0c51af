"""Rates and corrections that are learnt from steps: true ones are found, unseen steps predicted, priors kept."""

from dataclasses import replace

import numpy as np
import pytest

from search_spaces.operator_graph import Kind
from tests.trainers.parallelism.priced_samples import ADAM, machine, perceptron, price
from trainers.parallelism.calibrated import REMEMBERED, Calibrated, Family, calibrate
from trainers.parallelism.correction import MOST, SPREAD, correct, drift, features
from trainers.parallelism.fitting import Measured, changed, factors, fit, fit_rate
from trainers.parallelism.operator_costs import saturating_seconds
from trainers.parallelism.plan import Plan

PLAIN = Plan()
PRIOR = machine(
    flops_per_second=1e13,
    half_flops=1e8,
    bytes_per_second=1e12,
    launch_seconds=5e-6,
    host_seconds=1e-5,
    seconds_per_byte=1e-11,
    optimizer_bytes_per_second=1e12,
)


def steps(rng, count):
    for _ in range(count):
        width, samples = 2 ** int(rng.integers(6, 12)), 2 ** int(rng.integers(3, 12))
        work = perceptron(samples, (width,) * (1 + 2 * int(rng.integers(1, 5))))
        plan = Plan(data=int(rng.integers(1, 3)), tensor=int(rng.integers(1, 3)), micro_batches=int(rng.integers(1, 5)))
        yield work, plan


def truth(work, plan, true):
    return Measured(work, plan, price(work, plan, true).seconds)


def test_thirty_steps_tell_a_machine_from_a_wrong_prior():
    rng = np.random.default_rng(0)
    logs = np.resize([-0.9, 0.8, -0.7, 0.9], len(factors(PRIOR)))
    true = changed(PRIOR, factors(PRIOR), logs)
    fitted = fit(PRIOR, [truth(work, plan, true) for work, plan in steps(rng, 30)], ADAM)
    unseen = [(truth(*step, true).seconds, price(*step, fitted).seconds) for step in steps(rng, 40)]
    before = [price(*step, PRIOR).seconds / truth(*step, true).seconds for step in steps(rng, 40)]
    assert np.median([abs(predicted / real - 1) for real, predicted in unseen]) < 0.03
    assert np.median(np.abs(np.array(before) - 1)) > 0.2
    assert fitted.log_error == SPREAD


def test_what_steps_do_not_tell_stays_as_it_was():
    work = perceptron(1024, (2048, 2048, 2048))
    fitted = fit(PRIOR, [Measured(work, Plan(), 2 * price(work, Plan(), PRIOR).seconds)], ADAM)
    assert fitted.device.exchange_host_seconds == pytest.approx(PRIOR.device.exchange_host_seconds, rel=1e-3)
    assert price(work, Plan(), fitted).seconds == pytest.approx(2 * price(work, Plan(), PRIOR).seconds, rel=0.1)


@pytest.mark.parametrize("rows", [[], [Measured(perceptron(1, (2, 2)), Plan(), 0.0)]])
def test_a_fit_needs_steps_that_took_time(rows):
    with pytest.raises(ValueError, match="at least one is needed"):
        fit(PRIOR, rows, ADAM)


def test_kernels_tell_their_rate():
    rng = np.random.default_rng(0)
    true = np.array([1e14, 2e9, 1e12, 6e-6])
    flops, size = 10 ** rng.uniform(6, 13, 200), 10 ** rng.uniform(3, 9, 200)
    noisy = saturating_seconds(true[:, None], flops, size) * np.exp(rng.normal(0, 0.02, 200))
    rate = fit_rate(flops, size, noisy)
    found = [rate.flops_per_second, rate.half_flops, rate.bytes_per_second, rate.launch_seconds]
    assert found == pytest.approx(true.tolist(), rel=0.1)
    with pytest.raises(ValueError, match="at least one is needed"):
        fit_rate(flops[:0], size[:0], noisy[:0])


def test_an_observed_step_is_corrected_and_far_ones_are_not():
    points = np.array([[0.0, 5.0, 0.0], [3.0, 5.0, 0.0]])
    learnt = correct(points, np.array([0.2, -0.1]))
    mean, deviation = learnt.at(points[0])
    assert mean == pytest.approx(0.2, abs=0.01)
    assert deviation < 0.05
    far, unsure = learnt.at(np.array([80.0, 5.0, 0.0]))
    assert far == pytest.approx(0.0, abs=1e-6)
    assert unsure > SPREAD
    between, less = learnt.at(np.array([1.5, 5.0, 0.0]))
    assert -0.1 < between < 0.2
    assert deviation < less < unsure


def drifted(ratios):
    """Of observations one after another."""
    return drift(ratios, np.arange(len(ratios), dtype=float)[::-1], SPREAD)


def test_of_a_family_the_latest_observation_counts_most():
    ratios = np.array([0.0] * 10 + [0.3] * 10)
    mean, deviation = drifted(ratios)
    weights = 0.9 ** np.arange(20)[::-1]
    assert mean == pytest.approx((weights @ ratios) / weights.sum(), rel=0.15)
    assert mean > 0.17  # of all alike it would be 0.15
    assert 0.1 < deviation < 0.2  # they lie 0.15 from 0.15
    assert drifted(ratios[:0]) == (0.0, SPREAD)
    assert drifted(np.array([0.3]))[0] == pytest.approx(0.3 / (1 + 2 / 3))
    assert drift(np.array([0.3]), np.array([40.0]), SPREAD)[0] < 0.01, "it is long ago"
    assert drifted(np.array([1.6]))[0] == pytest.approx(1.6, rel=0.01), "nothing was known of it"
    settled, sure = drifted(np.full(50, 0.3))
    assert settled == pytest.approx(0.3, rel=0.03)
    assert sure < SPREAD / 2


def test_a_correction_keeps_what_it_was_told_before_and_no_more_than_its_most():
    rng = np.random.default_rng(0)
    points, ratios = rng.uniform(0, 30, (2 * MOST, 3)), rng.normal(0, SPREAD, 2 * MOST)
    first = correct(points[:100], ratios[:100])
    both = first.and_also(points[100:200], ratios[100:200])
    at_once = correct(points[:200], ratios[:200])
    assert both.at(points[0]) == pytest.approx(at_once.at(points[0]))
    assert both.at(points[0])[0] == pytest.approx(ratios[0], abs=0.1)
    many = both.and_also(points[200:], ratios[200:])
    assert many.points.tolist() == points[-MOST:].tolist()
    assert many.precision.shape == (MOST, MOST)


KNOWN = replace(PRIOR, log_error=SPREAD)
SLOW, WIDE = (perceptron(samples, (512,) * 5) for samples in (16, 1024))


def seconds_of(work, plan=PLAIN):
    return price(work, plan, PRIOR).seconds


def test_what_is_learnt_later_does_not_erase_the_calibration():
    first = Calibrated(PRIOR, ADAM).learn([Measured(SLOW, PLAIN, 2 * seconds_of(SLOW))])
    before = first.price(SLOW, PLAIN).seconds
    assert before == pytest.approx(2 * seconds_of(SLOW), rel=0.02)
    again = first.learn([Measured(WIDE, PLAIN, seconds_of(WIDE))])
    assert again.price(SLOW, PLAIN).seconds == pytest.approx(before, rel=0.02)
    assert again.price(WIDE, PLAIN).seconds == pytest.approx(seconds_of(WIDE), rel=0.02)
    seen = again.observe(Measured(WIDE, PLAIN, 1.1 * seconds_of(WIDE)))
    assert seen.correction is again.correction


def test_steps_of_trials_correct_their_own_axes_others_of_the_space_by_half_and_no_other_space():
    known = Calibrated(KNOWN, ADAM, space="mobile")
    for _ in range(20):
        known = known.observe(Measured(SLOW, PLAIN, 1.2 * seconds_of(SLOW)))
    assert known.price(SLOW, PLAIN).seconds == pytest.approx(1.2 * seconds_of(SLOW), rel=0.01)
    assert known.price(WIDE, PLAIN).seconds == pytest.approx(1.2 * seconds_of(WIDE), rel=0.01)
    two = Plan(data=2)
    assert known.price(SLOW, two).seconds == pytest.approx(1.2**0.5 * seconds_of(SLOW, two), rel=0.01)
    other = replace(known, space="cell")
    assert other.price(SLOW, PLAIN).seconds == seconds_of(SLOW)
    assert other.observe(Measured(SLOW, PLAIN, seconds_of(SLOW))).observed.keys() == {
        Family("mobile", ()),
        Family("cell", ()),
    }


def test_a_family_remembers_its_latest_steps():
    known = Calibrated(KNOWN, ADAM)
    for number in range(3 * REMEMBERED):
        known = known.observe(Measured(SLOW, PLAIN, seconds_of(SLOW) * (1 + 1e-3 * number / REMEMBERED)))
    (kept,) = known.observed.values()
    assert len(kept) == REMEMBERED
    assert kept[-1].log_ratio == max(one.log_ratio for one in kept)


def test_a_family_that_surprises_is_calibrated_anew():
    known = Calibrated(KNOWN, ADAM)
    for by in (1.0, 1.01, 1.0, 0.99):
        known = known.observe(Measured(SLOW, PLAIN, by * seconds_of(SLOW)))
    expected = known.price(SLOW, PLAIN)
    near, far = (np.exp(deviations * expected.log_error) * expected.seconds for deviations in (2.5, 3.5))
    (kept,) = known.observe(Measured(SLOW, PLAIN, near)).observed.values()
    assert len(kept) == 5
    surprised = known.observe(Measured(SLOW, PLAIN, far))
    ((only,),) = surprised.observed.values()
    assert only.log_ratio == pytest.approx(np.log(far / seconds_of(SLOW)))
    assert surprised.price(SLOW, PLAIN).log_error > 1.4 * expected.log_error


def test_what_trials_and_calibration_say_is_counted_once():
    step, bare = Measured(SLOW, PLAIN, 1.2 * seconds_of(SLOW)), Calibrated(KNOWN, ADAM)
    for known in (bare.learn([step]).observe(step), bare.observe(step).learn([step])):
        assert known.price(SLOW, PLAIN).seconds == pytest.approx(step.seconds, rel=0.01)


def test_a_calibrated_model_knows_what_it_was_shown():
    rng = np.random.default_rng(1)
    shown = [Measured(work, plan, price(work, plan, PRIOR).seconds * 1.3) for work, plan in steps(rng, 8)]
    bare, learnt = Calibrated(PRIOR, ADAM), Calibrated(PRIOR, ADAM).learn(shown)
    errors = [abs(np.log(learnt.price(s.work, s.plan).seconds / s.seconds)) for s in shown]
    assert max(errors) < 0.02
    assert bare.price(shown[0].work, shown[0].plan).seconds == pytest.approx(shown[0].seconds / 1.3)
    whole = calibrate(PRIOR, shown, ADAM)
    assert max(abs(np.log(whole.price(s.work, s.plan).seconds / s.seconds)) for s in shown) < 0.05


def test_features_are_those_of_one_sample_and_one_operator():
    work = perceptron(32, (64,) * 5)
    assert features(work, Plan(tensor=4)).tolist() == [5.0, 6.5, 2.0]  # sqrt(2 * 64 * 64) = 2 ** 6.5
    assert features(perceptron(32, (64,) * 9), Plan(data=2, tensor=4)).tolist() == [5.0, 6.5, 2.0]


def test_every_kind_has_a_speed_of_its_own():
    rates = {"other": PRIOR.device.rate("other"), Kind.MATMUL.value: PRIOR.device.rate("other")}
    known = replace(PRIOR, device=replace(PRIOR.device, operators=rates))
    names = [factor.name for factor in factors(known)]
    assert names[-1] == "matmul"
    half = changed(known, factors(known), np.log([1.0] * (len(names) - 1) + [0.5])).device
    assert half.rate("matmul").flops_per_second == pytest.approx(5e12)
    assert half.rate("convolution").flops_per_second == 1e13
