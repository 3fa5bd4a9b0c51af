"""The learning curve that a trial leaves."""

from trainers import Measurement, curve


def test_a_curve_comes_back_ordered_with_the_last_report_of_each_fidelity(tmp_path):
    assert curve.read(tmp_path) == []
    for fidelity, loss in [(1, 0.9), (2, 0.8), (1, 0.7), (3, float("nan"))]:
        curve.append(tmp_path, Measurement(fidelity, {"loss": loss}, 0.5 * fidelity))
    with open(tmp_path / curve.FILE, "ab") as file:
        file.write(b'{"fidelity": 4')
    points = curve.read(tmp_path)
    assert [point.fidelity for point in points] == [1, 2, 3]
    assert points[0] == Measurement(1, {"loss": 0.7}, 0.5)
    assert points[2].metrics["loss"] != points[2].metrics["loss"]
