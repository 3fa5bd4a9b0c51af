"""A search that is submitted as a Ray job runs on the cluster that it finds there, with plug-ins that are not there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import nas

SEARCH = """
[search]
space = "far-space"
trainer = "mine:train"
trials = 4
[objectives]
val_accuracy = "maximize"
[hyperparameters]
learning_rate = { low = 0.001, high = 0.1, log = true }
[fidelity]
rule = "none"
max = 2
"""
TRAINER = """
import os

def train(candidate, context):
    import ray
    context.report(context.until, {"val_accuracy": candidate.hyperparameters["learning_rate"]})
"""
SITE = {
    "far_space.py": "from search_spaces.mlp import MLP\n\n\nclass Far(MLP):\n    pass\n",
    "far_space-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: far-space\nVersion: 1.0\n",
    "far_space-1.0.dist-info/entry_points.txt": "[nas.search_spaces]\nfar-space = far_space:Far\n",
}
CLUSTER = """
import json, os, secrets, socket, sys, time
from pathlib import Path

file, folder, temporary, site = sys.argv[1:]
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_USAGE_STATS_ENABLED="0")
os.environ["RAY_TMPDIR"] = temporary  # Cluster notes its address there, and the job looks there for it
os.makedirs(f"{temporary}/ray")
import ray
from ray.cluster_utils import Cluster
from ray.job_submission import JobSubmissionClient
from cluster.jobs import submit

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
head = Cluster(
    initialize_head=True,
    connect=True,
    head_node_args={
        "num_cpus": 3,
        "include_dashboard": True,
        "dashboard_port": 0,
        "dashboard_agent_listen_port": port,  # the usual one is taken where another Ray runs
    },
)
url = "http://" + ray._private.worker.get_dashboard_url()
sys.path += [".", site]  # of this process alone: neither the job nor its workers have it
from nas.config_text import load_config
from nas.submission import needs
settings, modules = needs(load_config(file))
assert settings == ["search.space=far_space:Far"]
arguments = ["--dir", folder, *(word for setting in settings for word in ("--set", setting))]
deadline = time.monotonic() + 90
job = None
while job is None:
    try:
        job = submit(Path(file), arguments, url, modules=modules)
    except ValueError as error:
        if "No available agent" not in str(error) or time.monotonic() > deadline:
            raise
        time.sleep(0.2)  # Ray's agent is still starting, and nothing but asking tells
client = JobSubmissionClient(url)
while (status := client.get_job_status(job)) not in ("SUCCEEDED", "FAILED", "STOPPED"):
    assert time.monotonic() < deadline, client.get_job_logs(job)
    time.sleep(0.2)
nodes = [node["NodeID"] for node in ray.nodes()]
print(json.dumps({"status": str(status), "logs": client.get_job_logs(job), "nodes": nodes}))
ray.shutdown()
head.shutdown()
"""


@pytest.mark.ray
@pytest.mark.slow
def test_a_submitted_search_uses_the_job_s_cluster(tmp_path_factory, tmp_path):
    (tmp_path / "search.toml").write_text(SEARCH)
    (tmp_path / "mine.py").write_text(TRAINER)
    (tmp_path / "cluster_script.py").write_text(CLUSTER)
    study_folder = tmp_path / "study"
    site = tmp_path_factory.mktemp("site")
    for path, text in SITE.items():
        (site / path).parent.mkdir(exist_ok=True)
        (site / path).write_text(text)
    short = tmp_path_factory.mktemp("r")  # a socket's path has a fixed size
    ran = subprocess.run(
        [sys.executable, "cluster_script.py", "search.toml", str(study_folder), str(short), str(site)],
        cwd=tmp_path,
        env={**_environment(), "PYTHONPATH": str(Path(nas.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout.splitlines()[-1])
    assert answer["status"] == "SUCCEEDED", answer["logs"]
    study = nas.load(study_folder)
    assert study.counts() == {"completed": 4}
    launched = [line for line in (study_folder / "events.jsonl").read_text().splitlines() if '"launched"' in line]
    nodes = {part[0] for line in launched for part in json.loads(line)["on"]}
    assert nodes
    assert study.config["cluster"]["address"] is None


def _environment():
    import os

    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    kept["PATH"] = f"{Path(sys.executable).parent}:{kept['PATH']}"
    return kept
