"""What each axis makes a process send: MODELS.md, section 3, on networks whose sizes are known."""

import pytest
from torch import nn
from torch.nn.functional import dropout, gelu, scaled_dot_product_attention, silu

from search_spaces import Signature, TensorType
from search_spaces.operator_graph import OperatorGraph
from search_spaces.tracing import trace
from trainers.parallelism.fully_connected import divided_layers
from trainers.parallelism.volumes import EXCHANGES, volumes

BATCH = 6


def traced(network, *shape):
    return trace(network.to("meta"), Signature(TensorType(shape), TensorType((2,))), BATCH)


def sent(graph, ranks):
    found = {volume.axis: volume for volume in volumes(graph, [ranks])}
    assert all(volume.bytes == 4 * volume.elements for volume in found.values())
    assert set(found) <= set(EXCHANGES)
    return {axis: volume.elements for axis, volume in found.items()}


def pairs(graph):
    names = [operator.name.rpartition(".")[0] for operator in graph.operators]
    return [
        ([names[place] for place in one.by_columns], None if one.by_rows is None else names[one.by_rows])
        for one in divided_layers(graph)
    ]


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_data_and_shard_send_gradients_and_weights(ranks):
    graph = traced(nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)), 5)
    weights, share = 5 * 7 + 7 + 7 * 3 + 3, (ranks - 1) / ranks
    found = sent(graph, ranks)
    assert found["data"] == pytest.approx(2 * weights * share)
    assert found["shard"] == pytest.approx(3 * weights * share)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_pair_is_reduced_once_a_pass(ranks):
    """Of the pair forward 2 N Co and backward 2 N Ci; of the first layer alone N Co, as its input has no gradient."""
    network = nn.Sequential(nn.Linear(5, 16), nn.LayerNorm(16), nn.Linear(16, 40), nn.GELU(), nn.Linear(40, 3))
    graph = traced(network, 5)
    assert pairs(graph) == [(["0"], None), (["2"], "4")]
    share = (ranks - 1) / ranks
    assert sent(graph, ranks)["tensor"] == pytest.approx(share * BATCH * (16 + 2 * 3 + 2 * 16))


class Turned(nn.Module):
    """What it computes of its input learns nothing."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 6)

    def forward(self, x):
        return self.layer(x.transpose(1, 2) * 2.0)


def test_the_gradient_of_an_input_that_learns_nothing_is_not_sent():
    assert sent(traced(Turned(), 8, 5), 2)["tensor"] == 0.5 * BATCH * 5 * 6


class Attention(nn.Module):
    def __init__(self, tapped=False):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.query, self.key, self.value = (nn.Linear(8, 8, bias=False) for _ in range(3))
        self.output = nn.Linear(8, 8, bias=False)
        self.tapped = tapped

    def forward(self, x):
        y = self.norm(x)
        heads = [layer(y).unflatten(-1, (2, 4)).transpose(1, 2) for layer in (self.query, self.key, self.value)]
        whole = scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        result = self.output(whole)
        return result + whole if self.tapped else result


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inputs, self.output = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(16, 8)

    def forward(self, x):
        gate, value = self.inputs(self.norm(x)).chunk(2, -1)
        return self.output(silu(gate) * value)


def test_heads_and_gates_stay_on_their_process():
    attention = traced(Attention(), 10, 8)
    assert pairs(attention) == [(["query", "key", "value"], "output")]
    assert sent(attention, 2)["tensor"] == 0.5 * BATCH * 10 * (2 * 8 + 2 * 8)  # one input, one sum of its gradients
    assert pairs(traced(Gated(), 8)) == [(["inputs"], "output")]


class WrittenOut(Attention):
    """Scores that drop out: no kernel of a CPU fuses them."""

    def forward(self, x):
        y = self.norm(x)
        query, key, value = (
            layer(y).unflatten(-1, (2, 4)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        scores = dropout((query @ key.transpose(2, 3) / 2.0).softmax(-1), 0.1)
        return self.output((scores @ value).transpose(1, 2).flatten(2))


def test_attention_that_is_not_fused_stays_on_its_process_too():
    written_out = traced(WrittenOut(), 10, 8)
    assert pairs(written_out) == [(["query", "key", "value"], "output")]
    assert sent(written_out, 2)["tensor"] == sent(traced(Attention(), 10, 8), 2)["tensor"]
    encoder = traced(nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True), 10, 8)
    assert pairs(encoder) == [(["self_attn"], "self_attn"), (["linear1"], "linear2")]


def test_a_softmax_over_columns_needs_them_all():
    graph = traced(nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1), nn.Linear(8, 8)), 8)
    assert pairs(graph) == [(["0"], None), (["2"], None)]


class Gram(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(10, 8)

    def forward(self, x):
        y = self.first(x)
        return self.second(y @ y.transpose(1, 2))


class Crossed(nn.Module):
    """A layer over channels, then one over tokens: columns of the first are rows of the second."""

    def __init__(self, tokens, copies=False):
        super().__init__()
        self.channels, self.tokens, self.copies = nn.Linear(8, 8), nn.Linear(tokens, 6), copies

    def forward(self, x):
        y = gelu(self.channels(x)).transpose(1, 2)
        return self.tokens(y.contiguous() if self.copies else y)


@pytest.mark.parametrize("network", [Gram(), Crossed(10), Crossed(10, copies=True)])
def test_what_sums_over_columns_is_no_pair(network):
    graph = traced(network, 10, 8)
    assert all(by_rows is None for _, by_rows in pairs(graph))


def test_as_many_tokens_as_channels_make_no_pair():
    assert pairs(traced(Crossed(8), 8, 8)) == [(["channels"], None), (["tokens"], None)]


class Mixer(nn.Module):
    """Over tokens, then over channels (Tolstikhin et al. 2021, section 2)."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Sequential(nn.Linear(10, 16), nn.GELU(), nn.Linear(16, 10))
        self.channels = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        return self.channels(self.tokens(x.transpose(1, 2)).transpose(1, 2))


def test_a_mixer_has_a_pair_over_tokens_and_one_over_channels():
    assert pairs(traced(Mixer(), 10, 8)) == [(["tokens.0"], "tokens.2"), (["channels.0"], "channels.2")]


def test_what_something_else_reads_is_no_pair():
    assert pairs(traced(Attention(tapped=True), 10, 8)) == [
        (["query"], None),
        (["key"], None),
        (["value"], None),
        (["output"], None),
    ]


def test_the_tensor_axis_needs_fully_connected_layers():
    class Convolutions(nn.Sequential):
        def forward(self, x):
            return super().forward(x).mean((2, 3))

    graph = traced(Convolutions(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 1)), 3, 8, 8)
    assert divided_layers(graph) == []
    assert set(sent(graph, 2)) == {"data", "shard", "pipeline"}


def test_stages_of_equal_flops_send_their_borders():
    """Three equal layers in three stages: the middle one sends its result onwards and a gradient back."""
    graph = traced(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)), 8)
    border = BATCH * 8
    assert sent(graph, 2)["pipeline"] == border
    assert sent(graph, 3)["pipeline"] == 2 * border
    assert "pipeline" not in sent(graph, 64)


def test_a_network_without_operators_sends_nothing():
    class Nothing(nn.Module):
        def forward(self, x):
            return x

    graph = trace(Nothing(), Signature(TensorType((2,)), TensorType((2,))), 1, lambda outputs: outputs.sum())
    assert set(sent(graph, 2)) == {"data", "shard"}  # an operator of the loss is one unit, which no pipeline cuts
    assert set(sent(graph, 2).values()) == {0.0}
    assert volumes(OperatorGraph((), 1, 0), [2]) == []
