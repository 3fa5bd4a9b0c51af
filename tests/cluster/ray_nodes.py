"""A cluster of two nodes on this machine, in a process of its own: a gang over both, a lost node, a drained one."""

import os
import secrets
import sys
import time
from pathlib import Path

from cluster.protocol import Failed, Launch, Leg, LegId, NodeDraining, NodeJoined
from cluster.resources import Allocation
from search_spaces import Architecture, Candidate, Values
from tests.cluster.ray_bench import ENDS, Bench, recipe
from trainers import Plan


def main(study: Path) -> None:
    """Print one line a scene: what the leg ended as, and the node's last event."""
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(16)
    from ray.cluster_utils import Cluster

    from cluster.ray_backend import RayExecutor

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    node = cluster.add_node(num_cpus=1)
    executor = RayExecutor(recipe(study), address=cluster.address)
    bench = Bench(executor)

    def launch(act: str, trial: int, *nodes: str) -> LegId:
        plan = Plan(data=len(nodes))
        candidate = Candidate(Architecture({}), Values({"act": act}))
        leg = Leg(LegId(trial, 0, 0), candidate, 0, 1, seed=0, plan=plan)
        allocation = Allocation(tuple((name, 1) for name in nodes))
        executor.execute(Launch(executor.now(), (leg,), plan, allocation, None))
        return leg.id

    def end(id: LegId) -> str:
        bench.until(lambda event: isinstance(event, ENDS) and event.id == id)
        last = bench.events[-1]
        return last.failure.kind.value if isinstance(last, Failed) else "finished"

    def running(trial: int, name: str) -> LegId:
        id = launch("block", trial, name)
        while not (study / "trials" / f"{trial:05d}" / "rank0.log").is_file():
            executor.poll(0.05)
        return id

    first, second = (known.name for known in executor.cluster)
    print("gang over both:", end(launch("sum", 0, first, second)), flush=True)
    other = next(name for name in (first, second) if executor._machines.named(name).id == node.node_id)
    lost = running(1, other)
    cluster.remove_node(node, allow_graceful=False)
    print("lost:", end(lost), other not in {known.name for known in executor.cluster}, flush=True)
    node = cluster.add_node(num_cpus=1)
    bench.until(lambda event: isinstance(event, NodeJoined))
    drained = running(2, bench.events[-1].node.name)  # type: ignore[union-attr]
    _drain(cluster.address, node.node_id, seconds=60)
    bench.until(lambda event: isinstance(event, NodeDraining))
    announced = bench.events[-1].seconds  # type: ignore[union-attr]
    cluster.remove_node(node, allow_graceful=False)
    print("drained:", end(drained), 0 < announced <= 60, flush=True)
    executor.close(5.0)
    cluster.shutdown()


def _drain(address: str, node: str, seconds: float) -> None:
    """Tell the head, as an autoscaler does, that a node will be taken away."""
    from ray._raylet import GcsClient
    from ray.core.generated.autoscaler_pb2 import DrainNodeReason

    reason = DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    GcsClient(address=address).drain_node(node, reason, "taken away", int((time.time() + seconds) * 1000))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
