"""Traced graphs against independent counts: torch's FLOP counter, autograd's hooks, graphs without reuse, by hand."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from search_spaces import SPACES, Signature, TensorType, count_parameters, meta_network, trace_recorder
from search_spaces.operator_graph import Kind, Phase, Value
from search_spaces.tracing import TraceError, class_loss, trace
from tests.search_spaces.networks import NETWORKS

IMAGES = Signature(TensorType((3, 32, 32)), TensorType((10,)))
ODD_IMAGES = Signature(TensorType((1, 9, 7)), TensorType((3,)))
VECTORS = Signature(TensorType((1, 8, 8)), TensorType((10,)))
TOKENS = Signature(TensorType((64,), "int64", vocabulary=256), TensorType((64, 256)))
SAMPLED = [
    (name, signature, seed)
    for name, signatures in {
        "mlp": (VECTORS,),
        "convnet": (IMAGES, ODD_IMAGES),
        "cell201": (IMAGES, ODD_IMAGES),
        "mobile": (IMAGES, ODD_IMAGES),
        "transformer": (TOKENS, IMAGES),
    }.items()
    for signature in signatures
    for seed in range(2)
]


def sampled(name, signature, seed):
    space = SPACES.load(name)()
    return meta_network(space, space.sample(np.random.default_rng(seed)), signature)


def meta_batch(signature, batch=3):
    return torch.empty(batch, *signature.input.shape, dtype=getattr(torch, signature.input.dtype), device="meta")


def flops(graph, *phases):
    return sum(operator.flops for operator in graph.operators if operator.phase in (phases or tuple(Phase)))


def torch_flops(network, *inputs):
    """By torch's own counter, on the meta device, where attention is not fused."""
    with FlopCounterMode(display=False) as counter:
        class_loss(network(*inputs)).backward()
    return counter.get_total_flops()


def kept_bytes(network, *inputs):
    """What autograd keeps, each storage once, parameters and buffers apart."""
    apart = {tensor.untyped_storage()._cdata for tensor in (*network.parameters(), *network.buffers())}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in apart:
            kept[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        class_loss(network(*inputs))
    return sum(storage.nbytes() for storage in kept.values())


class Forgets(dict):
    """Knows nothing that it was told."""

    def get(self, key, default=None):
        return default


@pytest.fixture
def without_reuse(monkeypatch):
    """Every call runs torch's own kernel of the meta device and is counted anew."""
    make = trace_recorder.Recorder.__init__

    def forgetful(self, paths):
        make(self, paths)
        self._known = Forgets()

    monkeypatch.setattr(trace_recorder.Recorder, "__init__", forgetful)
    monkeypatch.setattr(trace_recorder, "known_looks", lambda *_: None)


@pytest.fixture(scope="module")
def literature():
    """Name to network, inputs and graph."""
    traced = {}
    for name, case in NETWORKS.items():
        with torch.device("meta"):
            network, inputs = case.build(), case.inputs(2)
        traced[name] = network, inputs, trace(network, [inputs], 2)
    return traced


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_the_literature_cost_what_torch_counts(literature, name):
    network, inputs, graph = literature[name]
    assert graph.parameters == NETWORKS[name].parameters
    assert flops(graph, Phase.FORWARD) == 2 * 2 * NETWORKS[name].macs
    assert flops(graph) == torch_flops(network, inputs)
    assert graph.unknown == ()


@pytest.mark.parametrize("name", NETWORKS)
def test_repeated_calls_are_reused_without_a_difference(literature, name, without_reuse):
    network, inputs, graph = literature[name]
    assert graph == trace(network, [inputs], 2)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in ("gpt2", "densenet121")])
def test_saved_bytes_are_those_that_autograd_keeps(literature, name):
    network, inputs, graph = literature[name]
    assert sum(operator.saved_bytes for operator in graph.operators) == kept_bytes(network, inputs)


@pytest.mark.parametrize(("name", "signature", "seed"), SAMPLED)
def test_built_in_spaces_cost_what_torch_counts(name, signature, seed):
    network = sampled(name, signature, seed)
    graph = trace(network, signature, 3)
    assert flops(graph) == torch_flops(network, meta_batch(signature))
    assert graph.parameters == count_parameters(network)
    assert graph.unknown == ()
    for place, operator in enumerate(graph.operators):
        assert all(before < place for before in operator.inputs)


@pytest.mark.parametrize(("name", "signature", "seed"), SAMPLED[::2])
@pytest.mark.usefixtures("without_reuse")
def test_built_in_spaces_are_the_same_without_reuse(name, signature, seed, monkeypatch):
    network = sampled(name, signature, seed)
    plain = trace(network, signature, 3)
    monkeypatch.undo()
    assert trace(network, signature, 3) == plain


class Small(nn.Module):
    """A residual layer, views on the way, a head."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True))
        self.head = nn.Linear(6, 2)

    def forward(self, features):
        rows = features.reshape(-1, 6)
        return self.head((rows + self.body(rows)).view(features.shape))


def test_a_small_graph_by_hand():
    graph = trace(Small(), [torch.zeros(4, 3, 6)], 4)
    forward = [operator for operator in graph.operators if operator.phase is Phase.FORWARD]
    assert [(operator.name, operator.kind, operator.inputs) for operator in forward] == [
        ("body.0.addmm", Kind.MATMUL, ()),
        ("body.1.relu_", Kind.ELEMENTWISE, (0,)),
        ("add", Kind.ELEMENTWISE, (1,)),
        ("head.addmm", Kind.MATMUL, (2,)),
        ("loss._log_softmax", Kind.SOFTMAX, (3,)),
        ("loss.nll_loss_forward", Kind.REDUCTION, (4,)),
    ]
    rows = 4 * 3
    assert [operator.flops for operator in forward[:4]] == [2 * rows * 36, 0, 0, 2 * rows * 12]
    assert [operator.parameters for operator in forward[:4]] == [36 + 6, 0, 0, 12 + 2]
    # the input, which is not copied; relu's result in place; the sum; scores, then targets and their weight
    images, features, scores = rows * 6 * 4, rows * 6 * 4, rows * 2 * 4
    assert [operator.saved_bytes for operator in forward] == [images, features, 0, features, scores, rows * 8 + 4]
    assert (forward[0].read_bytes, forward[0].written_bytes) == (images + (36 + 6) * 4, features)
    assert (forward[1].read_bytes, forward[1].written_bytes) == (features, features)


def test_gradients_carry_the_path_of_their_module_and_stop_where_none_is_needed():
    network = Small()
    names = [operator.name for operator in trace(network, [torch.zeros(4, 3, 6)], 4).operators]
    assert [name for name in names if name.endswith(".mm")] == ["head.mm", "head.mm", "body.0.mm"]
    network.body.requires_grad_(False)
    names = [operator.name for operator in trace(network, [torch.zeros(4, 3, 6)], 4).operators]
    assert [name for name in names if name.endswith(".mm")] == ["head.mm"]
    leaf = torch.zeros(4, 3, 6, requires_grad=True)
    names = [operator.name for operator in trace(network, [leaf], 4).operators]
    assert [name for name in names if name.endswith(".mm")] == ["head.mm", "head.mm", "body.0.mm"]


def test_attention_is_one_operator_and_torch_is_as_before():
    queries = torch.empty(2, 4, 16, 8, device="meta", requires_grad=True)
    network = Calls(functional.scaled_dot_product_attention)
    graph = trace(network, [queries] * 3, 2, lambda outputs: outputs.sum())
    attention = [operator for operator in graph.operators if operator.kind is Kind.ATTENTION]
    product = 2 * 2 * 4 * 16 * 16 * 8
    assert [(operator.phase.value, operator.flops) for operator in attention] == [
        ("forward", 2 * product),
        ("backward", 4 * product),
    ]
    # queries, keys, values and the result, and the logarithm of each row's sum; no scores
    assert attention[0].saved_bytes == 4 * (4 * queries.numel() + queries.numel() // 8)
    with FlopCounterMode(display=False) as counter:
        functional.scaled_dot_product_attention(queries, queries, queries)
    assert {str(name) for name in counter.get_flop_counts()["Global"]} == {"aten.bmm"}


class Calls(nn.Module):
    """A function as a network, with modules of its own by name."""

    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *inputs):
        parts = dict(self.named_children())
        return self.function(*inputs, **parts) if parts else self.function(*inputs)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(context, inputs):
        context.save_for_backward(inputs)
        return inputs * inputs

    @staticmethod
    def backward(context, gradient):
        (inputs,) = context.saved_tensors
        return 2 * gradient * inputs


def written_in_parts(features, head):
    outputs = torch.zeros(*features.shape[:2], 6)
    outputs[..., :3] = head(features)
    outputs[..., 3:] = head(features * 2)
    return outputs


def without_gradients(features, body, head):
    with torch.inference_mode():
        features = body(features).relu()
    return head(features.clone())


def linear(outputs=3):
    return nn.Linear(32, outputs)


SEQUENCE = (4, 10, 32)
ORDINARY = {
    "lstm": lambda: Calls(lambda x, layer: layer(x)[0], layer=nn.LSTM(32, 16, 2, batch_first=True)),
    "gru": lambda: Calls(lambda x, layer: layer(x)[0], layer=nn.GRU(32, 16, bidirectional=True)),
    "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2),
    "attention": lambda: Calls(lambda x, layer: layer(x, x, x)[0], layer=nn.MultiheadAttention(32, 4)),
    "einsum": lambda: Calls(lambda x, layer: torch.einsum("bij,bkj->bik", layer(x), x), layer=linear(32)),
    "dropout": lambda: nn.Sequential(linear(32), nn.Dropout(0.1), nn.ELU(), linear()),
    "same layer twice": lambda: (lambda layer: nn.Sequential(layer, nn.ReLU(), layer))(linear(32)),
    "root mean square": lambda: nn.Sequential(linear(32), nn.RMSNorm(32), nn.GLU()),
    "checkpoint": lambda: Calls(
        lambda x, body, head: head(checkpoint(body, x, use_reentrant=False)),
        body=nn.Sequential(linear(64), nn.GELU(), nn.Linear(64, 32)),
        head=linear(),
    ),
    "own gradient": lambda: Calls(lambda x, body, head: head(Square.apply(body(x))), body=linear(32), head=linear()),
    "several outputs": lambda: Calls(lambda x, one, two: {"a": one(x), "b": (two(x),)}, one=linear(), two=linear(2)),
    "inference mode": lambda: Calls(without_gradients, body=linear(32), head=linear()),
    "double": lambda: linear().double(),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_modules_cost_what_torch_counts(name, monkeypatch, request):
    with torch.device("meta"):
        network = ORDINARY[name]()
        inputs = torch.empty(SEQUENCE, dtype=next(network.parameters()).dtype)
    graph = trace(network, [inputs], 4)
    assert flops(graph) == torch_flops(network, inputs)
    assert graph.unknown == ()
    request.getfixturevalue("without_reuse")
    assert graph == trace(network, [inputs], 4)


def test_images_up_and_down():
    with torch.device("meta"):
        network = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.GroupNorm(2, 8),
            nn.SiLU(),
            nn.Conv2d(8, 8, 3, padding="same", dilation=2, groups=8),
            nn.ConvTranspose2d(8, 8, 3, 2, 1, 1, groups=4),
            nn.Upsample(scale_factor=2),
            nn.PixelShuffle(2),
            nn.MaxPool2d(2),
            nn.AdaptiveMaxPool2d(3),
            nn.Flatten(),
            nn.Linear(18, 10),
        )
    graph = trace(network, IMAGES, 3)
    assert flops(graph) == torch_flops(network, meta_batch(IMAGES))
    assert graph.unknown == ()
    assert [operator.kind for operator in graph.operators if operator.name.startswith("3.convolution")] == [
        Kind.DEPTHWISE,
        Kind.DEPTHWISE,
    ]


CONSTANTS = {
    "arithmetic": lambda x, head: head(x) * torch.tensor([1.0, 2.0, 3.0]) + torch.arange(3) / torch.tensor(3.0),
    "mask": lambda x, head: head(x).masked_fill(torch.ones(10, 3).tril() == 0, 0.0),
    "places": lambda x, head: head(x[:, torch.tensor([0, 2, 4])]),
    "in parts": written_in_parts,
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_that_name_no_device_are_moved(name):
    network = Calls(CONSTANTS[name], head=linear())
    graph = trace(network, [torch.empty(SEQUENCE)], 4)
    assert flops(graph) > 0
    assert graph.unknown == ()


def test_what_is_written_in_parts_depends_on_all_writers():
    graph = trace(Calls(written_in_parts, head=linear()), [torch.empty(SEQUENCE)], 4)
    names = [operator.name for operator in graph.operators]
    writers = [place for place, name in enumerate(names) if name == "copy_"]
    assert [names[place] for place in graph.operators[writers[0]].inputs] == ["zeros", "head.addmm"]
    assert writers[0] in graph.operators[writers[1]].inputs
    assert graph.operators[names.index("loss._log_softmax")].inputs == (writers[1],)


DEPENDENT = {
    "item": lambda x, head: head(x) * x.sum().item(),
    "mask": lambda x, head: head(x[x > 0][:32]),
    "branch": lambda x, head: head(x) if x.sum() > 0 else x,
    "numpy": lambda x, head: head(x) + float(x.detach().numpy().mean()),
    "own error": lambda x, head: head(x.nothing),
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_what_asks_for_values_is_refused_with_the_reason(name):
    network = Calls(DEPENDENT[name], head=linear())
    with pytest.raises(TraceError, match=r"tracing on the meta device failed \(\w+: ") as caught:
        trace(network, [torch.empty(SEQUENCE)], 4)
    assert isinstance(caught.value.original, (RuntimeError, NotImplementedError, TypeError, AttributeError))
    assert flops(trace(linear(), [torch.empty(SEQUENCE)], 4)) == 2 * 2 * 40 * 32 * 3


def test_a_network_without_floating_outputs_needs_a_loss():
    with pytest.raises(TraceError, match=r"returns Tensor without a floating tensor: it needs a loss of its own"):
        trace(Calls(lambda x, head: head(x).argmax(-1), head=linear()), [torch.empty(SEQUENCE)], 4)


def test_operators_without_a_formula_are_named():
    graph = trace(Calls(lambda x, head: head(x).sort(1).values, head=linear()), [torch.empty(SEQUENCE)], 4)
    assert graph.unknown == ("sort",)
    sort = next(operator for operator in graph.operators if operator.name == "sort")
    assert (sort.work, sort.depth, sort.flops) == (2 * 4 * 10 * 3, 1, 0)


def test_the_network_is_left_as_it_was():
    network = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.5)).eval()
    network[2].train()
    network[0].weight.grad = torch.ones(6, 6)
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    state = torch.get_rng_state()
    trace(network, [torch.zeros(4, 6)], 4)
    assert [module.training for module in network] == [False, False, True]
    assert torch.equal(network[0].weight.grad, torch.ones(6, 6))
    assert network[0].bias.grad is None
    assert all(torch.equal(weights[name], tensor) for name, tensor in network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_network_on_a_device_has_the_graph_of_its_twin():
    with torch.device("meta"):
        twin = Small()
    assert trace(Small(), [torch.zeros(4, 3, 6)], 4) == trace(twin, [torch.zeros(4, 3, 6, device="meta")], 4)


def test_shared_weights_count_once_and_take_both_gradients():
    network = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    network[2].weight = network[0].weight
    graph = trace(network, [torch.zeros(4, 6)], 4)
    assert graph.parameters == 36 + 6 + 6
    products = [operator for operator in graph.operators if operator.kind is Kind.MATMUL]
    assert [operator.parameters for operator in products[:2]] == [42, 42]


def test_each_weight_is_told_with_its_readers_and_whether_it_learns():
    network = Calls(lambda x, used, idle, frozen: used(frozen(used(x))), used=nn.Linear(6, 6, bias=False))
    network.idle, network.frozen = nn.Linear(6, 2, bias=False), nn.Linear(6, 6, bias=False).requires_grad_(False)
    graph = trace(network, [torch.zeros(4, 6)], 4)
    told = {(weight.elements, weight.readers, weight.trained) for weight in graph.weights}
    assert told == {(36, (0, 2), True), (12, (), False), (36, (1,), False)}
    assert graph.parameters == 36 + 36 + 12


def test_values_are_what_forward_operators_read_of_one_another():
    """Of pooling its maxima, not their places; of a result in parts all parts, of what is reshaped each byte once."""
    network = nn.Sequential(nn.MaxPool1d(2), nn.Flatten(), nn.Linear(9, 12, bias=False), nn.GLU())
    graph = trace(network, [torch.zeros(4, 3, 6)], 4)
    names = [operator.name for operator in graph.operators]
    told = {names[value.source] if value.source is not None else "": value for value in graph.values}
    assert told["0.max_pool2d_with_indices"].bytes == 4 * 4 * 3 * 3
    assert told["2.mm"].bytes == 4 * 4 * 12
    assert told[""] == Value(None, 4 * 4 * 3 * 6, (0,))
    parts = Calls(
        lambda x, head: sum(part * head(x) for part in head(x).chunk(3, -1)), head=nn.Linear(6, 3, bias=False)
    )
    graph = trace(parts, [torch.zeros(4, 6)], 4)
    chunked = next(value for value in graph.values if value.source == 0)
    assert (chunked.bytes, len(chunked.readers)) == (4 * 4 * 3, 3)


def test_gradients_tell_the_very_call_that_they_are_of():
    act = nn.ReLU()
    network = nn.Sequential(*(module for _ in range(4) for module in (nn.Linear(6, 6), act)))
    graph = trace(network, [torch.zeros(4, 6)], 4)
    named = [operator.name for operator in graph.operators]
    gradients = [operator.forward for operator in graph.operators if operator.name == "1.threshold_backward"]
    assert gradients == [place for place in reversed(range(len(named))) if named[place] == "1.relu"]
    for operator in graph.operators:
        if operator.forward is not None:
            assert operator.phase is Phase.BACKWARD
            assert named[operator.forward].rpartition(".")[0] == operator.name.rpartition(".")[0]


def test_the_gradient_of_a_view_is_of_the_operator_in_its_module():
    class Last(nn.Linear):
        def forward(self, x):
            return super().forward(x)[:, -1]

    graph = trace(nn.Sequential(Last(6, 5), nn.Linear(5, 3)), [torch.zeros(4, 7, 6)], 4)
    names = [operator.name for operator in graph.operators]
    (backward,) = (operator for operator in graph.operators if operator.name == "0.select_backward")
    assert names[backward.forward] == "0.addmm"


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_of_a_network_on_a_device_are_followed(reentrant):
    def network():
        body = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6))
        forward = lambda x, body, head: head(checkpoint(body, x + head.bias.sum(), use_reentrant=reentrant))  # noqa: E731
        return Calls(forward, body=body, head=nn.Linear(6, 3))

    given = network()
    graph = trace(given, [torch.zeros(4, 6)], 4)
    assert graph == trace(network().to("meta"), [torch.zeros(4, 6)], 4)
    assert not any(weight.is_meta for weight in given.parameters())
    again = [operator.name for operator in graph.operators if operator.phase is Phase.BACKWARD]
    assert [name for name in again if name.endswith("addmm")][0] == "body.0.addmm"


def test_what_a_slice_is_overwritten_with_does_not_depend_on_what_came_before():
    def order(first, second):
        def run(x, head):
            y, whole, large = head(x), torch.zeros(4, 3), torch.zeros(8, 3)
            for one in (first, second):
                (large[:4] if one == "slice" else whole).copy_(y)
            return whole + large[:4]

        graph = trace(Calls(run, head=nn.Linear(6, 3)), [torch.zeros(4, 6)], 4)
        return [operator.read_bytes for operator in graph.operators[:5] if operator.name == "copy_"]

    assert order("slice", "whole") == order("whole", "slice") == [4 * 4 * 3] * 2


def test_the_batch_scales_flops_alone():
    network = sampled("convnet", IMAGES, 0)
    one, four = (trace(network, IMAGES, batch) for batch in (1, 4))
    assert (one.batch, four.batch) == (1, 4)
    assert flops(four) == 4 * flops(one)
    assert four.parameters == one.parameters
    assert [operator.name for operator in four.operators] == [operator.name for operator in one.operators]
