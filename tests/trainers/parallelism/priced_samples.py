"""Small workloads and machines that tests of the cost model share."""

from search_spaces.operator_graph import Kind, Operator, OperatorGraph, Phase
from trainers.optimizer_states import OptimizerBytes
from trainers.parallelism import cost
from trainers.parallelism.rates import DeviceRates, Link, Machine, OperatorRate
from trainers.parallelism.workload import Workload, columns

ADAM = OptimizerBytes(moved=28.0, held=16.0)
"""In float32: gradient, weight and two moments are read, all but the gradient written."""


def price(work, plan, on, starts=None):
    """Of a step with Adam."""
    return cost.price(work, plan, on, ADAM, starts)


def perceptron(samples: int, widths: tuple[int, ...], divided: bool = True) -> Workload:
    """Linear layers of float32; the tensor axis splits columns, then rows, of each pair of layers."""
    forward, backward = [], []
    reduced = {}
    layers = list(zip(widths, widths[1:], strict=False))
    count = len(layers)
    for place, (inner, outer) in enumerate(layers):
        flops = 2 * samples * inner * outer
        x, w, y = 4 * samples * inner, 4 * inner * outer, 4 * samples * outer
        before = (place - 1,) if place else ()
        forward.append(product(f"layer{place}", Phase.FORWARD, flops, x + w, y, inner * outer, x, before))
        if place % 2:
            reduced[place] = float(y)
        else:
            reduced[3 * count - 2 * place - 2] = float(x)
    for place, (inner, outer) in reversed(list(enumerate(layers))):
        flops = 2 * samples * inner * outer
        x, w, y = 4 * samples * inner, 4 * inner * outer, 4 * samples * outer
        reads = (count + len(backward) - 2,) if backward else (place,)
        backward.append(product(f"layer{place}", Phase.BACKWARD, flops, y + w, x, 0, 0, (place, *reads)))
        backward.append(product(f"layer{place}", Phase.BACKWARD, flops, x + y, w, 0, 0, (place, *reads)))
    parameters = sum(inner * outer for inner, outer in layers)
    graph = OperatorGraph((*forward, *backward), samples, parameters)
    return columns(graph, range(3 * count) if divided else (), reduced if divided else None)


def product(name, phase, flops, read, written, parameters, saved, inputs):
    return Operator(f"{name}.mm", Kind.MATMUL, phase, flops, flops, 1, read, written, parameters, saved, inputs)


def machine(
    flops_per_second=1e12,
    half_flops=0.0,
    bytes_per_second=1e30,
    launch_seconds=0.0,
    host_seconds=0.0,
    latency_seconds=0.0,
    seconds_per_byte=0.0,
    overlap=0.0,
    optimizer_bytes_per_second=1e30,
    **device,
) -> Machine:
    """A machine on which everything but arithmetic is free, unless it is said."""
    rate = OperatorRate(flops_per_second, half_flops, bytes_per_second, launch_seconds)
    rates = DeviceRates(
        "test", "float32", {"other": rate}, host_seconds, host_seconds, optimizer_bytes_per_second, **device
    )
    return Machine(rates, (Link(2, 1, latency_seconds, seconds_per_byte),), devices_per_node=16, overlap=overlap)
