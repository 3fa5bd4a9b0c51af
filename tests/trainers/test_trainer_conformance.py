import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from search_spaces import Candidate
from tests.trainers.trainer_samples import candidate, recipe
from trainers import TRAINERS, Context
from trainers.conformance import run_trainer, trainer_checks

CHECKS = [name for name, _ in trainer_checks(recipe(Path(), trainer="synthetic"), candidate())]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("trainer", TRAINERS.builtin)
def test_conforms(tmp_path: Path, trainer: str, check: str) -> None:
    dict(trainer_checks(recipe(tmp_path, trainer=trainer), candidate("norm", batch_size=16)))[check]()


def counting_with_settings(what: Candidate, context: Context) -> None:
    unknown = set(context.recipe.settings)
    if unknown:
        raise ValueError(f"unknown settings: {unknown}")
    total = context.checkpoint.state["total"] if context.checkpoint else 0
    for epoch in range(int(context.start), int(context.until)):
        total += epoch + 1
        context.report(epoch + 1, {"total": total}, state={"total": total})


def test_a_function_of_ones_own_conforms(tmp_path: Path) -> None:
    assert run_trainer(recipe(tmp_path, trainer=counting_with_settings), candidate()) == []


def forgetful(what: Candidate, context: Context) -> None:
    for epoch in range(int(context.start), int(context.until)):
        context.report(epoch + 1, {"total": epoch - context.start}, state={})


def deaf(what: Candidate, context: Context) -> None:
    for epoch in range(int(context.start), int(context.until)):
        try:
            context.report(epoch + 1, {"total": 1}, state={})
        except BaseException:  # noqa: S112
            continue


@pytest.mark.parametrize(
    ("trainer", "found"),
    [
        (
            forgetful,
            {
                "going_on_elsewhere_equals_the_unbroken_run",
                "going_on_in_the_same_worker_equals_the_unbroken_run",
                "halting_cancels_and_the_trial_goes_on",
                "unknown_settings_are_refused",
            },
        ),
        (deaf, {"halting_cancels_and_the_trial_goes_on", "unknown_settings_are_refused"}),
    ],
)
def test_the_suite_finds_what_is_wrong(tmp_path: Path, trainer: Any, found: set[str]) -> None:
    assert {finding.check for finding in run_trainer(recipe(tmp_path, trainer=trainer), candidate())} == found


def test_importing_trainers_loads_nothing_heavy() -> None:
    code = (
        "import sys, trainers, trainers.settings, trainers.synthetic, trainers.conformance, trainers.schedules; "
        "print({'torch', 'ray', 'optuna', 'sklearn'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
