"""Configuration: every bad input names key, value, rule and remedy, before anything heavy loads."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nas.config import SearchConfig, changed
from nas.config_check import check
from nas.config_text import MAIN_JOB, load_config, parse_setting, with_settings
from nas.config_toml import to_toml
from nas.errors import ConfigError
from nas.objective import Direction
from search_spaces import Bound, Choice, SearchSpace

ROOT = Path(__file__).parents[2]


def load(tmp_path, text, *settings):
    path = tmp_path / "search.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_config(path, settings)


def test_without_a_file_it_is_the_main_job():
    config = load_config()
    assert (config.search.space, config.search.task, config.search.strategy) == ("convnet", "digits", "evolution")
    assert list(config.objectives.items()) == [
        ("val_accuracy", Direction.MAXIMIZE),
        ("parameters", Direction.MINIMIZE),
    ]
    fidelity = config.fidelity
    assert (fidelity.rule, fidelity.min, fidelity.max, fidelity.eta, fidelity.unit) == ("asha", 3, 27, 3, "epoch")
    assert config.search.trials >= 60
    assert config.search.seed == 0
    assert set(config.hyperparameters) == {"learning_rate", "weight_decay", "batch_size"}
    assert (config.cluster.executor, config.cluster.address, config.trial.timeout) == ("ray", None, None)
    assert config.plan is None


def test_a_file_replaces_the_tables_that_it_has(tmp_path):
    config = load(tmp_path, '[search]\ntrials = 5\n[objectives]\nval_loss = "minimize"\n')
    assert config.objectives == {"val_loss": Direction.MINIMIZE}
    assert config.search.trials == 5
    assert config.fidelity == load_config().fidelity
    assert config.hyperparameters == load_config().hyperparameters


def test_own_training_code_gets_no_hyperparameters_that_it_did_not_ask_for(tmp_path):
    assert load(tmp_path, '[search]\ntrials = 5\ntrainer = "os.path:join"\n').hyperparameters == {}


BAD = [
    # text, settings, what the message must hold
    ("[search]\ntrails = 5", "search.trails", "did you mean trials?"),
    ("[serch]\ntrials = 5", "table serch", "did you mean search?"),
    ("[cluster]\nmax_device = 5", "cluster.max_device", "max_devices"),
    ('[search]\ntrials = "x"', 'search.trials = "x"', "whole number of at least 1", "trials = 60"),
    ("[search]\ntrials = 0", "search.trials = 0", "at least 1"),
    ("[search]\ntrials = true", "search.trials = true", "whole number"),
    ("[search]\ntrials = 1.5", "search.trials = 1.5", "whole number"),
    ("[search]\nhours = -1", "search.hours = -1", "above 0"),
    ("[search]\nhours = inf", "search.hours = Infinity", "above 0"),
    ("[search]\ntrials = 1\nseed = -1", "search.seed = -1", "from 0"),
    ("[search]\nseed = 1", "no budget", "trials, hours, device_hours, target"),
    ('[search]\nspace = "convnt"\ntrials = 2', "search.space", "'convnt'", "did you mean 'convnet'?"),
    ("[search]\nspace = 3\ntrials = 2", "search.space = 3", "module:name"),
    ('[search]\nspace = ":X"\ntrials = 2', 'search.space = ":X"', "module:name"),
    ("search = 3", "search = 3", "[search]"),
    ('[search]\nspace = "no_such_module:X"\ntrials = 2', "no_such_module", "does not import"),
    ('[search]\nspace = "os.path:join"\ntrials = 2', "search.space", "subclass of search_spaces.SearchSpace"),
    ('[search]\ntask = "dgits"\ntrials = 2', "search.task", "did you mean 'digits'?"),
    ('[search]\nstrategy = "evolutoin"\ntrials = 2', "search.strategy", "did you mean 'evolution'?"),
    ('[search]\ntrainer = "no_such_module:train"\ntrials = 2', "search.trainer", "no_such_module"),
    ('[search]\ntrainer = "os:sep"\ntrials = 2', "search.trainer", "train(candidate, context)"),
    ("[objectives]", "objectives = {}", "at least one metric"),
    ('[objectives]\na = "maximum"', 'objectives.a = "maximum"', '"maximize" or "minimize"'),
    ('[constraints]\nparameters = "<100"', 'constraints.parameters = "<100"', '"<= NUMBER"'),
    ("[constraints]\nparameters = 100", "constraints.parameters = 100", '"<= NUMBER"'),
    ('[fidelity]\nrule = "asha"', "fidelity.max is missing", "max = 27"),
    ("[fidelity]\nmin = 9\nmax = 3", "fidelity.min = 9", "fidelity.max = 3", "lower min"),
    ("[fidelity]\nmax = 5\neta = 1", "fidelity.eta = 1", "above 1"),
    ("[fidelity]\nmin = 0.5\nmax = 5", "rung of 0.5", "whole epochs"),
    ('[fidelity]\nmax = 5\nrule = "ahsa"', "fidelity.rule", "did you mean 'asha'?"),
    ("[fidelity]\nmax = nan", "fidelity.max = NaN", "above 0"),
    ('[trainer]\nbatchnorm = "global"', "trainer.batchnorm", "did you mean 'batch_norm'?"),
    ('[trainer]\nbatch_norm = "globl"', "trainer.batch_norm = 'globl'", "local, global"),
    ('[trial]\nplan = "data=4"\n[cluster]\nmax_devices = 2', "takes 4 devices", "max_devices = 2", "narrow"),
    ('[trial]\nplan = "data=2"\n[cluster]\nexecutor = "inline"', "takes 2 processes", "inline"),
    ('[trial]\nplan = "date=4"', 'trial.plan = "date=4"', "AXIS=DEGREE"),
    ('[trial]\nplan = ""', 'trial.plan = ""', '"auto"'),
    ('[trial]\ntimeout = "10x"', 'trial.timeout = "10x"', '"10m"'),
    ("[trial]\ntimeout = 0", "trial.timeout = 0", "above 0"),
    ('[cluster]\nexecutor = "simulated"', 'cluster.executor = "simulated"', 'trainer = "synthetic"'),
    ('[cluster]\nexecutor = "rya"', 'cluster.executor = "rya"', '"simulated"'),
    ("[cluster]\nmax_devices = 0", "cluster.max_devices = 0", "at least 1"),
    ('[study]\nfsync = "never"', 'study.fsync = "never"', '"always"'),
    ("[hyperparameters]\nlearning_rate = { low = 1.0, high = 0.1 }", "hyperparameters.learning_rate", "above high"),
    ("[hyperparameters]\nlearning_rat = { low = 0.1, high = 1.0 }", "hyperparameters.learning_rat", "'learning_rate'"),
    ("[hyperparameters]\nlearning_rate = { low = 0.0, high = 1.0 }", "hyperparameters.learning_rate = 0.0", "above 0"),
    ("[hyperparameters]\nbatch_size = []", "hyperparameters.batch_size", "at least one"),
    ("[hyperparameters]\nbatch_size = [0]", "hyperparameters.batch_size = 0", "at least 1"),
    ("[space]\nwidth = [8]", "space.width is not known", "did you mean widths?"),
    ("[space]\nwidths = []", "space.widths = []", "at least 1"),
    ("[task]\nsplit_sed = 3", "task.split_sed", "did you mean split_seed?"),
    ("[strategy]\npopulatoin = 3", "strategy.populatoin", "did you mean population?"),
    ("[strategy]\npopulation = 5\nsample = 9", "strategy.sample = 9", "1 to 5"),
    ("[search\ntrials = 5", "no TOML", "line 1, column 8"),
    ("[search]\ntrials = 5\ntrials = 6", "no TOML", "overwrite"),
    (b'[search]\nspace = "\xff"', "line 2 is not UTF-8", "0xff", "save the file as UTF-8"),
    ("[search]\ntrials = 5".encode("utf-16"), "not UTF-8", "save the file as UTF-8"),
]


@pytest.mark.parametrize(("text", "fragments"), [(text, fragments) for text, *fragments in BAD])
def test_bad_input_is_named_with_its_rule_and_remedy(tmp_path, text, fragments):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'search.toml'}: ")
    for fragment in fragments:
        assert fragment in message
    assert caught.value.exit_code == 2
    assert "pydantic" not in message
    assert len(message.splitlines()) == 1


def test_everything_that_is_wrong_is_said_at_once(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "[search]\ntrials = 0\nseed = -1\n[cluster]\nfoo = 1\n")
    assert len(str(caught.value).splitlines()) == 3


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"absent\.toml: the file cannot be read"):
        load_config(tmp_path / "absent.toml")
    with pytest.raises(ConfigError, match="the file cannot be read"):
        load_config(tmp_path)


@pytest.mark.parametrize("form", ["utf-8", "utf-8-sig", "crlf"])
def test_encodings_and_line_ends_do_not_matter(tmp_path, form):
    text = '[search]\ntrials = 7\n[objectives]\n"précision" = "maximize"\n'
    content = text.replace("\n", "\r\n").encode() if form == "crlf" else text.encode(form)
    config = load(tmp_path, content)
    assert (config.search.trials, list(config.objectives)) == (7, ["précision"])


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("search.trials=5", ("search", "trials"), 5),
        ("search.hours = 1.5", ("search", "hours"), 1.5),
        ("search.space=mlp", ("search", "space"), "mlp"),
        ('search.space="mlp"', ("search", "space"), "mlp"),
        ("trial.timeout=10m", ("trial", "timeout"), "10m"),
        ("trial.plan=data=2", ("trial", "plan"), "data=2"),
        ("space.widths=[8, 16]", ("space", "widths"), [8, 16]),
        ("space.skip=true", ("space", "skip"), True),
        ("hyperparameters.lr.low=1e-4", ("hyperparameters", "lr", "low"), 1e-4),
        ("constraints.parameters=<= 100_000", ("constraints", "parameters"), "<= 100_000"),
        ("search.space=a.b:C", ("search", "space"), "a.b:C"),
    ],
)
def test_settings_are_toml_or_bare_text(text, path, value):
    parsed = parse_setting(text)
    assert parsed == (path, value)
    assert type(parsed[1]) is type(value)


@pytest.mark.parametrize(
    "text", ["search.trials", "trials=5", ".trials=5", "search.=5", "=5", "space.widths=[8", "a.b=1\nc = 2"]
)
def test_malformed_settings_are_refused(text):
    with pytest.raises(ConfigError, match="--set"):
        parse_setting(text)


def test_settings_reach_into_tables_of_the_main_job():
    config = load_config(
        None, ["hyperparameters.learning_rate.low=1e-4", "fidelity.eta=2", "objectives.flops=minimize"]
    )
    assert config.hyperparameters["learning_rate"] == {"low": 1e-4, "high": 1e-1, "log": True}
    assert (config.fidelity.eta, config.fidelity.max) == (2, 27)
    assert list(config.objectives) == ["val_accuracy", "parameters", "flops"]


def test_a_setting_cannot_reach_through_a_value():
    with pytest.raises(ConfigError, match=r"hyperparameters\.batch_size is no table"):
        load_config(None, ["hyperparameters.batch_size.low=1"])


def test_a_budget_that_is_asked_for_replaces_that_of_the_main_job(tmp_path):
    assert load_config(None, ["search.hours=1"]).search.budgets == {"hours": 1}
    assert load(tmp_path, "[search]\ntrials = 5", "search.hours=1").search.budgets == {"trials": 5, "hours": 1}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("90s", 90), ("1h30m", 5400), ("1.5h", 5400), ("2 min", 120), (45, 45), (0.5, 0.5)],
)
def test_times(tmp_path, text, seconds):
    value = f'"{text}"' if isinstance(text, str) else text
    assert load(tmp_path, f"[trial]\ntimeout = {value}").trial.timeout == seconds


def test_it_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        load_config().search.trials = 5


def test_what_it_means_to_the_other_packages(tmp_path):
    text = '[search]\ntrials = 1\n[space]\nnorm = "group"\n[constraints]\nparameters = "<= 9_000"\n'
    config = load(tmp_path, text + '[trial]\nplan = "data=2"')
    assert config.bounds == (Bound("parameters", "<=", 9000),)
    assert config.declared_objectives.constraints == config.bounds
    assert [objective.name for objective in config.declared_objectives.objectives] == ["val_accuracy", "parameters"]
    assert config.plan.data == 2
    assert config.reference("space").arguments == {"norm": "group"}
    assert config.reference("trainer").arguments == {}


names = st.text("abcdefgh_", min_size=1, max_size=8)
scalars = st.one_of(
    st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)


@given(st.dictionaries(names, values, max_size=4), st.integers(0, 2**63 - 1), st.floats(0.1, 1e6))
def test_the_plain_form_and_its_toml_round_trip(space, seed, hours):
    plain = load_config().to_plain()
    plain["space"] = space
    plain["search"] |= {"seed": seed, "hours": hours}
    config = SearchConfig.from_plain(plain)
    assert config.to_plain() == plain
    again = tomllib.loads(to_toml(plain))
    assert {table: again.get(table, {}) for table in plain} == {
        table: {key: value for key, value in keys.items() if value is not None} for table, keys in plain.items()
    }


def test_the_toml_form_is_a_configuration_again(tmp_path):
    config = load_config(None, ["constraints.parameters=<= 9"])
    assert load(tmp_path, to_toml(config.to_plain())) == config


def test_the_main_job_says_everything_it_relies_on():
    tables = tomllib.loads(MAIN_JOB.read_text(encoding="utf-8"))
    assert set(tables) == {"search", "space", "objectives", "hyperparameters", "fidelity"}


def test_the_main_jobs_arguments_are_those_of_its_space(tmp_path):
    assert load_config().space["stem_strides"] == [1]
    assert not load_config(None, ["search.space=mlp"]).space
    assert not load(tmp_path, '[search]\nspace = "convnet"\ntrials = 3\n').space


# Objects from Python ---------------------------------------------------------------------------------------------


class Small(SearchSpace):
    decisions = {"width": Choice(1, 2)}  # noqa: RUF012


def train(candidate, context):
    context.report(context.until, {"val_accuracy": 0.5})


def python_config(**hyperparameters):
    plain = load_config().to_plain()
    plain["search"] |= {"space": Small, "trainer": train}
    return SearchConfig.from_plain({**plain, "space": {}, "hyperparameters": hyperparameters})


def test_code_may_be_given_as_objects():
    config = python_config()
    check(config)
    assert config.search.space is Small
    assert config.to_plain()["search"]["space"].endswith(":Small")


def test_a_hyperparameter_cannot_have_the_name_of_a_decision():
    with pytest.raises(ConfigError, match=r"hyperparameters\.width: the space Small has a decision of this name"):
        check(python_config(width=[1, 2]))


# Resuming --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting",
    [
        "search.trials=200",
        "search.hours=2",
        "search.target=0.9",
        "cluster.executor=inline",
        "trial.timeout=5m",
        "study.keep_gib=1",
    ],
)
def test_a_study_may_change_budgets_and_where_it_runs(setting):
    config = load_config()
    new = changed(config, with_settings(config.to_plain(), [setting]))
    assert new != config


@pytest.mark.parametrize(
    "setting",
    [
        "search.seed=1",
        "search.space=mlp",
        "search.task=other",
        "search.strategy=random",
        "objectives.parameters=maximize",
        "constraints.parameters=<= 5",
        "fidelity.max=81",
        "hyperparameters.batch_size=[1]",
        "space.norm=group",
        "trainer.precision=float32",
    ],
)
def test_a_study_keeps_what_its_record_rests_on(setting):
    config = load_config()
    with pytest.raises(ConfigError) as caught:
        changed(config, with_settings(config.to_plain(), [setting]))
    assert setting.partition("=")[0] in str(caught.value)
    assert "may change search.trials" in str(caught.value)


# As users meet it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["search.trails=5", "hyperparameters.learning_rate.low=1e9", "space.widths=[]"])
def test_errors_come_before_anything_heavy_in_any_locale(setting):
    script = (
        "import sys\nfrom nas.config_text import load_config\nfrom nas.errors import ConfigError\n"
        "try:\n    load_config(None, [sys.argv[1]])\nexcept ConfigError:\n"
        "    print(*({'torch', 'ray', 'optuna', 'plotly', 'sklearn'} & sys.modules.keys()))\n"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script, setting], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "\n"
