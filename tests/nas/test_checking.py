"""`nas check`: every broken contract is named with its law, what was seen and the remedy; sound code passes."""

import sys
import textwrap

import orjson
import pytest

from nas.checking import KINDS, check_code, kind_of
from nas.conformance import rule_checks, strategy_checks
from nas.errors import ConfigError
from search_spaces.conformance import checks, judge
from tests.nas.test_cli import golden, nas  # noqa: F401 - a fixture
from trainers.conformance import task_checks, trainer_checks

CODE = """
    from trainers.tasks.digits import Digits
    from search_spaces import Choice, SearchSpace


    class Sound(SearchSpace):
        decisions = {"a": Choice(1, 2, 3), "b": Choice("x", "y")}

        def build(self, architecture, signature):
            from torch import nn

            return nn.Sequential(nn.Flatten(), nn.Linear(signature.input.elements, signature.output.elements))


    class Wrong(Sound):
        def build(self, architecture, signature):
            from torch import nn

            return nn.Sequential(nn.Flatten(), nn.Linear(signature.input.elements, 3))

        def canonical(self, architecture):
            raise LookupError("no canonical form")


    class Sized(Sound):
        def __init__(self, size):
            self.decisions = {"a": Choice(*range(size))}


    class Fails(Sound):
        def __init__(self):
            raise RuntimeError("no data here")


    class Leaky(Digits):
        def metrics(self, outputs, targets):
            return {"val_accuracy": 1.0}


    class Stuck:
        def __init__(self, space, objectives):
            pass

        def ask(self, pending, rng):
            return None

        def tell(self, trial, measurement, ended):
            pass


    class Empty:
        pass


    def train(candidate, context):
        context.report(context.until, {"val_accuracy": candidate.hyperparameters["learning_rate"]})


    NUMBER = 3
"""


@pytest.fixture(autouse=True)
def _checked_code(tmp_path, monkeypatch):
    (tmp_path / "checked_code.py").write_text(textwrap.dedent(CODE))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("checked_code", None)


def test_a_broken_space_has_the_golden_form_and_exits_3(nas, tmp_path):  # noqa: F811
    code, out, err = nas("check", "checked_code:Wrong", "--json", tmp_path / "answer.json")
    assert (code, err) == (3, "")
    answer = orjson.loads((tmp_path / "answer.json").read_bytes())
    assert [finding["check"] for finding in answer["findings"]] == [
        "key_is_stable_under_canonical",
        "networks_map_input_to_output",
    ]
    told = " ".join(out.split())
    for finding in answer["findings"]:
        assert f"law {finding['law']}" in told
        assert f"remedy {finding['remedy']}" in told
    assert "output has shape (2, 3), must be (2, 10)" in told
    assert "raised LookupError: no canonical form (checked_code.py, line 22, in canonical)" in told
    count = len(answer["checks"])
    assert f"checked_code:Wrong, a space: {count - 2} of {count} checks passed" in told
    golden("check", {**answer, "checks": answer["checks"][:3]})


def test_a_sound_space_exits_0(nas):  # noqa: F811
    code, out, _ = nas("check", "checked_code:Sound")
    assert code == 0
    assert "a space: " in out
    assert "BROKEN" not in out


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("checked_code:Sound", "space"),
        ("checked_code:Leaky", "task"),
        ("checked_code:Stuck", "strategy"),
        ("checked_code:train", "trainer"),
        ("trainers.supervised:Supervised", "trainer"),
        ("mlp", "space"),
        ("digits", "task"),
        ("random", "strategy"),
        ("asha-stop", "fidelity rule"),
        ("nas.fidelity:RULES", None),
        ("checked_code:Empty", None),
        ("checked_code:NUMBER", None),
        ("no-such-name", None),
    ],
)
def test_the_kind_is_seen(code, kind):
    if kind is None:
        with pytest.raises(ConfigError, match=code):
            kind_of(code)
    else:
        assert kind_of(code) == kind


@pytest.mark.parametrize(
    ("code", "finding"),
    [
        ("checked_code:Leaky", "metrics_are_numbers"),
        ("checked_code:Stuck", "answers_are_of_the_contract"),
        ("checked_code:train", "unknown_settings_are_refused"),
    ],
)
def test_every_kind_is_checked_by_its_suite(code, finding):
    found = check_code(code)
    assert finding in {one.check for one in found.findings}
    assert 0 < found.failed <= len(found.checks)


def test_settings_are_arguments_and_what_is_used_beside():
    assert not check_code("checked_code:Sized", settings=["space.size=3"]).findings
    with pytest.raises(ConfigError, match=r"search\.space.*missing"):
        check_code("checked_code:Sized")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["no_such_module:Space"], "no_such_module"),
        (["checked_code:Nothing"], "Nothing"),
        (["checked_code:Fails"], "making it failed at checked_code.py"),
        (["checked_code:Empty", "--kind", "thing"], "--kind thing: expected one of space, task"),
        (["checked_code:Empty", "--kind", "space"], "a space is a subclass of SearchSpace"),
    ],
)
def test_what_cannot_be_checked_is_a_wrong_configuration(nas, arguments, told):  # noqa: F811
    code, _, err = nas("check", *arguments)
    assert code == 2
    assert told in err


def test_what_a_check_raises_is_told_with_its_place():
    def failing():
        """A law.

        A remedy
        in two lines.
        """
        raise LookupError("where?")

    (finding,) = judge("failing", failing)
    assert (finding.law, finding.remedy) == ("A law.", "A remedy in two lines.")
    assert finding.message.startswith("raised LookupError: where? (test_checking.py, line ")


def test_every_check_of_every_kind_has_a_law_and_a_remedy():
    suites = [
        checks(None, None),
        task_checks(None),
        trainer_checks(None, None),
        strategy_checks(None),
        rule_checks(None),
    ]
    assert len(suites) == len(KINDS)
    for name, check in (entry for suite in suites for entry in suite):
        law, _, remedy = (check.__doc__ or "").partition("\n\n")
        assert law.strip(), name
        assert remedy.strip(), name
