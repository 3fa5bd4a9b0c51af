"""Machines from views of Ray's nodes."""

from typing import Any

import pytest

from cluster.machines import Machines, NodeView
from cluster.protocol import NodeDraining, NodeGone, NodeJoined
from cluster.resources import Node


def entry(id: str, host: str, alive: bool = True, **resources: float) -> dict[str, Any]:
    return {
        "NodeID": id,
        "Alive": alive,
        "NodeManagerHostname": host,
        "NodeManagerAddress": "h",
        "Resources": resources,
    }


def view(*entries: dict[str, Any], **draining: int) -> NodeView:
    return NodeView(entries, draining)


def test_nodes_come_drain_and_go() -> None:
    machines = Machines("auto", None)
    first = entry("1" * 8, "one", CPU=2.0)
    second = entry("2" * 8, "two", CPU=4.0)
    assert machines.update(view(first), 1.0, 0.0) == [NodeJoined(1.0, Node("one", 2))]
    assert machines.update(view(first, second), 2.0, 0.0) == [NodeJoined(2.0, Node("two", 4))]
    draining = NodeView((first, second), {"2" * 8: 130_000})
    assert machines.update(draining, 3.0, 100.0) == [NodeDraining(3.0, "two", 30.0)]
    assert machines.update(draining, 4.0, 101.0) == []
    assert machines.update(view(first, {**second, "Alive": False}), 5.0, 0.0) == [NodeGone(5.0, "two")]
    assert machines.announced("two")
    assert not machines.announced("one")


def test_two_nodes_of_one_host_have_two_names() -> None:
    machines = Machines("cpu", None)
    machines.update(view(entry("aaaaaaaa", "host", CPU=1), entry("bbbbbbbb", "host", CPU=1)), 0.0, 0.0)
    assert [node.name for node in machines.nodes] == ["host", "host-bbbbbb"]
    assert machines.named("host-bbbbbb").id == "bbbbbbbb"


def test_where_there_are_gpus_a_device_is_a_gpu() -> None:
    plain = entry("1", "plain", CPU=8)
    fast = {**entry("2", "fast", CPU=16, GPU=2), "Labels": {"ray.io/accelerator-type": "H200"}}
    both = view(plain, fast)
    for device, expected in (("auto", [Node("fast", 2, "H200")]), ("cpu", [Node("plain", 8), Node("fast", 16)])):
        machines = Machines(device, None)
        machines.update(both, 0.0, 0.0)
        assert list(machines.nodes) == expected
    machines = Machines("cuda", None)
    machines.update(both, 0.0, 0.0)
    assert machines.named("fast").threads == 16 // 2


def test_no_more_than_max_devices_are_used_over_all_nodes() -> None:
    machines = Machines("cpu", 3)
    machines.update(view(*(entry(str(number), f"n{number}", CPU=2) for number in range(3))), 0.0, 0.0)
    assert [node.devices for node in machines.nodes] == [2, 1]


def test_a_suspected_node_is_gone_and_may_come_back() -> None:
    machines = Machines("cpu", None)
    one = view(entry("1", "one", CPU=1))
    machines.update(one, 0.0, 0.0)
    machines.suspect("one", until=10.0)
    assert machines.update(one, 1.0, 0.0) == [NodeGone(1.0, "one")]
    assert machines.update(one, 9.0, 0.0) == []
    assert machines.update(one, 10.0, 0.0) == [NodeJoined(10.0, Node("one", 1))]


@pytest.mark.parametrize(("device", "limit", "named"), [("gpu", None, "device = .gpu."), ("cpu", 0, "max_devices = 0")])
def test_wrong_settings_are_named(device: str, limit: int | None, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Machines(device, limit)
