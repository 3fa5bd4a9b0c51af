"""The report: one page that stands alone, says what the record says, and runs nothing that a study wrote."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import orjson
import pytest

from nas.errors import StudyError
from nas.report import write_report
from nas.report.content import MOST_POINTS, MOST_ROWS, content
from nas.report.history import replay
from nas.report.page import page
from tests.nas import recorded

VOID = {"meta", "input", "br", "link"}


class Reader(HTMLParser):
    """Texts, script contents, and whether the tags are balanced."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.text, self.scripts, self.loads = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.loads += [value for name, value in attributes if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        (self.scripts if "script" in self.open else self.text).append(text)


def read(study_page):
    reader = Reader()
    reader.feed(study_page)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture
def small(tmp_path):
    recorded.write(tmp_path / "study", recorded.small())
    return replay(tmp_path / "study")


def test_it_stands_alone_and_is_well_formed(small):
    reader = read(page(*small))
    assert reader.loads == []
    assert "".join(reader.scripts).count("plotly.js v") >= 1
    style = re.search("<style>(.*?)</style>", page(*small), re.S)[1]
    assert "url(" not in style
    assert "@import" not in style


def test_what_a_study_wrote_is_text(small):
    text = page(*small)
    assert "<script>alert(1)</script>" not in text
    assert "<b>relu</b>" not in text
    assert "<i>activation</i>" not in text
    shown = "".join(read(text).text)
    assert "<script>alert(1)</script>" in shown
    assert "bad <i>activation</i> & more" in shown


def test_headline_front_and_failures_say_what_the_record_says(small):
    study, _ = small
    text = " ".join(" ".join(read(page(*small)).text).split())
    assert "ended: 4 trials" in text
    assert "best val_accuracy 0.9700 trial 0" in text
    assert "on the front 2 at 27 epochs" in text
    assert f"trials {study.launched} 1 rejected, 1 duplicate" in text
    assert "0.9500 800 depth= 2, width= 8" in text
    assert "error 1" in text
    assert 'space = "convnet"' in text
    assert "torch 2.13.0" in text


def test_the_script_gets_every_trial_with_its_standing(small):
    study, points = small
    data = content(study, points)
    assert data["outcomes"] == {"completed": 2, "stopped": 1, "error": 1, "duplicate": 1, "rejected": 1}
    assert [row[0] for row in data["trials"]] == [0, 1, 2, 3, 4, 5]
    assert data["front"] == [0, 1]
    assert data["rungs"] == [3, 9, 27]
    assert data["objectives"][0] == {"name": "val_accuracy", "maximize": True, "log": False}
    assert data["objectives"][1] == {"name": "parameters", "maximize": False, "log": True}
    assert data["trials"][4][6] == "the same as trial 0"
    embedded = re.search('<script type="application/json" id="data">(.*?)</script>', page(study, points), re.S)[1]
    assert orjson.loads(embedded) == data


def test_the_curve_is_the_best_of_all_measurements_so_far(small):
    history = content(*small)["history"]
    assert history["value"] == [0.8, 0.9, 0.97, 0.7, 0.85, 0.95, 0.6]
    assert history["best"] == [0.8, 0.9] + [0.97] * 5
    assert history["at"] == [5, 10, 15, 20, 25, 30, 35]
    assert history["device_seconds"] == [5, 10, 15, 20, 25, 30, 35]  # one device, always busy


def test_a_broken_constraint_does_not_count_as_best(tmp_path):
    recorded.write(tmp_path, recorded.small(constraints=["constraints.parameters=<= 1000"]))
    data = content(*replay(tmp_path))
    assert [row[4] for row in data["trials"]] == [True, False, True, False, False, False]
    assert data["front"] == [1]
    assert data["history"]["best"] == [None] * 3 + [0.7, 0.85, 0.95, 0.95]


def test_a_metric_that_is_no_number_is_left_open(tmp_path):
    records = recorded.small()
    for record in records:
        if record["event"] == "reported" and record["trial"] == 2:
            record["metrics"]["val_accuracy"] = "nan"
    recorded.write(tmp_path, records)
    data = content(*replay(tmp_path))
    assert data["trials"][2][3] == [None, 2400]
    read(page(*replay(tmp_path)))


@pytest.mark.parametrize("events", [1, 2, 3, 5, 20])
def test_a_study_that_has_just_begun_has_a_page(tmp_path, events):
    recorded.write(tmp_path, recorded.small(closed=False)[:events])
    assert "not ended" in "".join(read(page(*replay(tmp_path))).text)


def test_one_objective_has_no_front_to_speak_of(tmp_path):
    records = recorded.small()
    records[0]["objectives"] = {"val_accuracy": "maximize"}
    recorded.write(tmp_path, records)
    text = "".join(read(page(*replay(tmp_path))).text)
    assert "Pareto" not in text
    assert "The best" in text


def test_a_big_study_is_cut_and_says_so(tmp_path):
    count = MOST_ROWS + 2_000
    records = recorded.small(closed=False)[:2]
    records[1]["config"]["search"]["trials"] = count
    for number in range(count):
        records += [recorded.proposed(number, number, 8), recorded.launched(number, number, until=27)]
        records += recorded.measured(
            number, number + 1, 0, 27, 1 - 1 / (1 + number % 977), "ended", outcome="completed"
        )
    recorded.write(tmp_path, records)
    study, points = replay(tmp_path)
    data = content(study, points)
    assert (len(data["trials"]), data["left_out"]) == (MOST_ROWS, 2_000)
    assert {trial.number for trial in study.front()} <= {row[0] for row in data["trials"]}
    assert data["trials"][-1][0] == count - 1
    assert len(data["history"]["at"]) <= 2 * MOST_POINTS
    assert max(data["history"]["best"]) == data["history"]["best"][-1] == 1 - 1 / 977
    assert sum(data["outcomes"].values()) == count
    assert len(page(study, points)) < 8_000_000


def test_it_needs_no_code_of_the_study_no_torch_and_no_ray(tmp_path):
    records = recorded.small()
    for record in records[:2]:
        record["config"]["search"] |= {"space": "gone_package:Space", "task": "gone_package:Task"}
    recorded.write(tmp_path, records)
    script = (
        "import sys\nfrom pathlib import Path\nfrom nas.report import write_report\n"
        "print(write_report(Path(sys.argv[1])))\n"
        "print(*({'torch', 'ray', 'optuna', 'sklearn'} & sys.modules.keys()))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"{tmp_path / 'report.html'}\n\n"
    assert "gone_package:Space" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_it_goes_where_it_is_told_whole_or_not_at_all(tmp_path):
    recorded.write(tmp_path / "study", recorded.small())
    assert write_report(tmp_path / "study", tmp_path / "new" / "page.html") == tmp_path / "new" / "page.html"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["page.html"]
    with pytest.raises(StudyError, match="no study here"):
        write_report(tmp_path / "new")
