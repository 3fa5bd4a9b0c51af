"""What is priced is what torch sends: CommDebugMode on a fake process group, for many networks and plans.

Of the pipeline axis, and of the data axis beside it, what is run is a trial's own code. A trial's exchange of running
statistics, once an epoch, is no part of a step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from search_spaces.module_groups import module_of
from search_spaces.operator_graph import OperatorGraph
from search_spaces.tracing import trace
from tests.trainers.parallelism.fake_group import (
    fake_group,
    piped,
    piped_in_parts,
    replicated,
    seen,
    sharded,
    tensor_parallel,
)
from tests.trainers.parallelism.measured_networks import NETWORKS
from tests.trainers.parallelism.priced_samples import machine
from trainers.parallelism.chain import Chain
from trainers.parallelism.cost import divide
from trainers.parallelism.fully_connected import divided_layers, sent_elements
from trainers.parallelism.partition import partition
from trainers.parallelism.plan import Plan
from trainers.parallelism.workload import columns

EXACT = 1e-9
SAMPLES = 2
"""Of a rank's part of the batch, and of a micro-batch."""

# encoders end in a view of a result; nobody changes it in place
pytestmark = pytest.mark.filterwarnings("ignore:FSDP2-wrapped module:UserWarning")

TWELVES = ("gpt-48", "gpt-96", "untied-gpt", "perceptron", "encoder", "mixer", "crossed", "gated", "small-resnet-24")
"""Networks of which each parameter has a first dim of a multiple of 12."""

TENSOR: dict[str, Sequence[int]] = {
    **dict.fromkeys(TWELVES, (2, 3)),
    **dict.fromkeys(("dropout", "written-out", "crossed-square"), (2, 4)),
    **dict.fromkeys(("mlp-0", "mlp-1", "mlp-2", "mlp-3", "googlenet"), (2, 8)),
    **dict.fromkeys(("convnet-0", "convnet-1", "convnet-2", "convnet-3", "cell201-0", "cell201-1"), (3,)),
    **dict.fromkeys(("mobile-0", "mobile-1", "transformer-0", "transformer-words-0", "lenet5", "resnet20"), (2,)),
    **dict.fromkeys(("nas-bench-201", "small-resnet-8"), (2,)),
}
"""Degrees that divide all columns and heads."""

PAIRED = (
    *("gpt-48", "untied-gpt", "perceptron", "encoder", "mixer", "crossed", "crossed-square", "gated", "dropout"),
    *("written-out", "mlp-0", "mlp-3", "mobile-0", "mobile-1", "transformer-0", "transformer-words-0", "lenet5"),
)
"""Networks whose layers are split as pairs, or look as if they could be."""

PIPELINE: dict[str, Sequence[int]] = {
    **dict.fromkeys(("mlp-1", "lenet5", "gated", "mixer"), (2, 3, 4)),
    **dict.fromkeys(("convnet-0", "convnet-1", "convnet-2", "convnet-3", "small-resnet-24"), (4,)),
    **dict.fromkeys(("mlp-0", "perceptron", "crossed", "untied-gpt", "small-resnet-8", "mobile-0"), (2, 3)),
    **dict.fromkeys(("transformer-0", "transformer-words-0", "dropout"), (2,)),
    **dict.fromkeys(("transformer-words-3", "resnet20", "cell201-0"), (4,)),
    "encoder": (2, 3, 8),
    **dict.fromkeys(("cell201-6", "cell201-8", "cell201-22", "scaled"), (2, 3)),
}


def pairs(degrees: Mapping[str, Sequence[int]]) -> list[tuple[str, int]]:
    return [(name, degree) for name, own in degrees.items() for degree in own]


def built(name: str) -> nn.Module:
    torch.manual_seed(0)
    return NETWORKS[name].build().train()


@cache
def traced(name: str, samples: int = SAMPLES) -> OperatorGraph:
    with torch.device("meta"):
        network = built(name)
    return trace(network, NETWORKS[name].signature, samples)


def priced(name, plan, divided=()):
    """Bytes that a process sends, by axis."""
    return by_axis(divide(columns(traced(name), divided), plan, machine()))


def by_axis(share):
    """Bytes that a process of each stage sends."""
    sent = {}
    for exchange in share.exchanges:
        sent[exchange.axis] = sent.get(exchange.axis, 0.0) + exchange.sent_bytes()
    return sent


def stepped(name, network, micro_batches=1):
    """A step of ``micro_batches``, the gradients of which are scattered after the last."""
    inputs = NETWORKS[name].inputs(SAMPLES)

    def step():
        for number in range(micro_batches):
            if micro_batches > 1:
                network.set_requires_gradient_sync(number == micro_batches - 1)
            network(inputs).square().mean().backward()

    return step


def ranks_apart(number, apart=1):
    return tuple(range(0, number * apart, apart))


@pytest.mark.parametrize(
    ("name", "ranks"), [*pairs(dict.fromkeys(NETWORKS, (2, 3))), *pairs(dict.fromkeys(TWELVES, (4, 8)))]
)
def test_data(name, ranks):
    with fake_group(ranks):
        step = stepped(name, replicated(built(name)))
        step()
        sent = seen(step)
    assert sent == {ranks_apart(ranks): pytest.approx(priced(name, Plan(data=ranks))["data"].item(), rel=EXACT)}


@pytest.mark.parametrize(
    ("name", "ranks"), [*pairs(dict.fromkeys(NETWORKS, (2,))), *pairs(dict.fromkeys(TWELVES, (3, 4)))]
)
def test_shard(name, ranks):
    with fake_group(ranks):
        sent = seen(stepped(name, sharded(built(name), init_device_mesh("cpu", (ranks,)))))
    assert sent == {ranks_apart(ranks): pytest.approx(priced(name, Plan(shard=ranks))["shard"].item(), rel=EXACT)}


@pytest.mark.parametrize(("name", "ranks"), [("lenet5", 3), ("lenet5", 8), ("mlp-0", 3), ("resnet20", 8)])
def test_what_fills_the_last_shards_comes_on_top(name, ranks):
    """FSDP fills the first dim of each parameter up to a multiple of the ranks, of which a graph tells nothing."""
    network = built(name)
    filled = sum((-len(weight) % ranks) * weight[0].numel() for weight in network.parameters())
    with fake_group(ranks):
        sent = seen(stepped(name, sharded(network, init_device_mesh("cpu", (ranks,)))))
    expected = priced(name, Plan(shard=ranks))["shard"].item() + 3 * 4 * filled * (ranks - 1) / ranks
    assert sent == {ranks_apart(ranks): pytest.approx(expected, rel=EXACT)}


def test_shard_of_a_frozen_layer():
    """It is gathered, but has no gradients to scatter."""
    network = NETWORKS["perceptron"].build()
    network[0].requires_grad_(False)
    work = columns(trace(network, NETWORKS["perceptron"].signature, SAMPLES))
    expected = sum(exchange.sent_bytes().item() for exchange in divide(work, Plan(shard=4), machine()).exchanges)
    with fake_group(4):
        sent = seen(stepped("perceptron", sharded(network, init_device_mesh("cpu", (4,)))))
    assert sent == {ranks_apart(4): pytest.approx(expected, rel=EXACT)}


@pytest.mark.parametrize("name", ["mlp-0", "gpt-48", "transformer-1"])
def test_shard_with_micro_batches(name):
    """Each is given the weights once more, and gradients go once a step."""
    with fake_group(4):
        sent = seen(stepped(name, sharded(built(name), init_device_mesh("cpu", (4,))), 3))
    assert sent == {
        ranks_apart(4): pytest.approx(priced(name, Plan(shard=4, micro_batches=3))["shard"].item(), rel=EXACT)
    }


@pytest.mark.parametrize("name", ["mlp-1", "convnet-1", "mobile-0", "gpt-96", "small-resnet-24", "detached"])
@pytest.mark.parametrize(("replicas", "shards"), [(2, 2), (3, 2), (2, 4)])
def test_data_and_shard(name, replicas, shards):
    plan = Plan(data=replicas, shard=shards)
    with fake_group(plan.width):
        sent = seen(
            stepped(
                name,
                sharded(built(name), init_device_mesh("cpu", (replicas, shards), mesh_dim_names=("data", "shard"))),
            )
        )
    expected = priced(name, plan)
    assert sent == {
        ranks_apart(shards): pytest.approx(expected["shard"].item(), rel=EXACT),
        ranks_apart(replicas, shards): pytest.approx(expected["data"].item(), rel=EXACT),
    }


def layers_of(name):
    """Paths of the layers of pairs, and of those alone."""
    graph = traced(name)
    names = [module_of(operator) for operator in graph.operators]
    layers = divided_layers(graph)
    paired = [one for one in layers if one.by_rows is not None]
    return (
        [([names[place] for place in one.by_columns], names[one.by_rows]) for one in paired],
        [names[one.by_columns[0]] for one in layers if one.by_rows is None],
    )


def layers_within(name, held):
    paired, alone = layers_of(name)
    return [pair for pair in paired if held.issuperset((*pair[0], pair[1]))], [path for path in alone if path in held]


def priced_layers(name, ranks, layers):
    return 4 * sum(sent_elements(traced(name), one, ranks) for one in layers)


@pytest.mark.parametrize(("name", "ranks"), pairs(TENSOR))
def test_tensor(name, ranks):
    expected = priced_layers(name, ranks, divided_layers(traced(name)))
    with fake_group(ranks):
        step = stepped(name, tensor_parallel(built(name), *layers_of(name), init_device_mesh("cpu", (ranks,))))
        sent = seen(step)
    assert sent == {ranks_apart(ranks): pytest.approx(expected, rel=EXACT)}


def cut(name, stages, plan):
    """What stages are priced to send, where trials cut, and what they send."""
    network, measured = built(name), NETWORKS[name]
    parts = partition(network, measured.signature, SAMPLES, stages)
    chain = Chain(network)
    work = chain.workload(measured.signature, SAMPLES)
    expected = by_axis(divide(work, plan, machine(), chain.starts(work, stages)))
    return expected, piped(network, parts, plan, measured.inputs(SAMPLES * plan.micro_batches))


@pytest.mark.parametrize(("name", "stages"), pairs(PIPELINE))
def test_pipeline(name, stages):
    plan = Plan(pipeline=stages, micro_batches=3)
    expected, sent = cut(name, stages, plan)
    assert [own[ranks_apart(stages)] for own in sent] == pytest.approx(expected["pipeline"].tolist(), rel=EXACT)


@pytest.mark.parametrize(
    ("name", "stages"), [("mlp-1", 3), ("lenet5", 2), ("convnet-1", 2), ("gated", 4), ("mixer", 2), ("detached", 2)]
)
@pytest.mark.parametrize("replicas", [2, 3])
def test_data_and_pipeline(name, stages, replicas):
    plan = Plan(data=replicas, pipeline=stages, micro_batches=2)
    expected, sent = cut(name, stages, plan)
    groups = [tuple(range(stage * replicas, (stage + 1) * replicas)) for stage in range(stages)]
    across = [own[ranks_apart(plan.width)] for own in sent]
    assert across == pytest.approx(expected["pipeline"].tolist(), rel=EXACT)
    within = [own[group] for own, group in zip(sent, groups, strict=True)]
    assert within == pytest.approx(expected["data"].tolist(), rel=EXACT)


@pytest.mark.parametrize(
    "name",
    ["perceptron", "encoder", "gated", "untied-gpt", "mlp-0", "mlp-2", "transformer-words-0", "mixer", "dropout"],
)
@pytest.mark.parametrize("replicas", [2, 3])
def test_data_and_tensor(name, replicas):
    """Each has its bias of a layer by rows whole, while an operator is priced as divided with all that it reads."""
    plan, layers = Plan(data=replicas, tensor=2), divided_layers(traced(name))
    places = [place for one in layers for place in (*one.by_columns, one.by_rows) if place is not None]
    with fake_group(plan.width):
        mesh = init_device_mesh("cpu", (replicas, 2), mesh_dim_names=("data", "tensor"))
        network = tensor_parallel(built(name), *layers_of(name), mesh["tensor"])
        step = stepped(name, replicated(network, mesh["data"]))
        step()
        sent = seen(step)
    assert sent == {
        ranks_apart(2): pytest.approx(priced_layers(name, 2, layers), rel=EXACT),
        ranks_apart(replicas, 2): pytest.approx(priced(name, plan, divided=places)["data"].item(), rel=0.01),
    }


@pytest.mark.parametrize(
    ("name", "ranks"),
    [("gated", 2), ("gated", 3), ("mixer", 2), ("mixer", 4), ("untied-gpt", 2), ("untied-gpt", 4)],
)
def test_pipeline_and_tensor(name, ranks):
    """Of networks whose pairs of layers lie in one stage each; what passes borders is whole on every process."""
    plan, measured = Plan(pipeline=2, tensor=ranks, micro_batches=2), NETWORKS[name]
    network = built(name)
    parts, chain = partition(network, measured.signature, SAMPLES, 2), Chain(network)
    layers = [layers_within(name, {path for path, _ in part.named_modules()}) for part in parts]
    divided, work = divided_layers(traced(name)), chain.workload(measured.signature, SAMPLES)
    work = replace(work, divided=columns(traced(name), [layer for one in divided for layer in one.by_columns]).divided)
    share = divide(work, plan, machine(), chain.starts(work, 2))
    sent = piped_in_parts(parts, layers, plan, measured.inputs(SAMPLES * plan.micro_batches))
    for stage, own in enumerate(sent):
        here = [one for one in divided if share.stage[one.by_columns[0]] == stage]
        within = plan.micro_batches * priced_layers(name, ranks, here)
        across = share.exchanges[0].sent_bytes()[stage]
        assert own == {
            tuple(range(stage * ranks, (stage + 1) * ranks)): pytest.approx(within, rel=EXACT),
            ranks_apart(plan.width): pytest.approx(across, rel=EXACT),
        }


def kept_apart(name: str, columns_of: Sequence[str], rows_of: str) -> bool:
    """Whether halves of what a layer by rows is given rest on different columns of each layer before."""
    network, seen_by = built(name).eval(), {}
    for path in columns_of:
        module = network.get_submodule(path)
        module.register_forward_hook(lambda _, __, result, path=path: seen_by.__setitem__(path, result))
    network.get_submodule(rows_of).register_forward_pre_hook(lambda _, given: seen_by.__setitem__(rows_of, given[0]))
    network(NETWORKS[name].inputs(SAMPLES))
    given = seen_by[rows_of]
    results = [seen_by[path] for path in columns_of]
    reached = []
    for half in given.tensor_split(2, -1):
        gradients = torch.autograd.grad((half * torch.randn_like(half)).sum(), results, retain_graph=True)
        reached.append([gradient.reshape(-1, gradient.shape[-1]).abs().sum(0) > 0 for gradient in gradients])
    return not any(bool((first & second).any()) for first, second in zip(*reached, strict=True))


@pytest.mark.parametrize("name", PAIRED)
def test_a_pair_keeps_its_columns_apart(name):
    """Else a process could not compute its part of the second layer from its part of the first."""
    assert all(kept_apart(name, *pair) for pair in layers_of(name)[0])
