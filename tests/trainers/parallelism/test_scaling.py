"""A workload at any batch, from two traces, is what a trace at that batch says."""

import numpy as np
import pytest

from search_spaces import SPACES, Signature, TensorType
from search_spaces.statics import meta_network
from search_spaces.tracing import trace
from tests.trainers.parallelism.priced_samples import machine, perceptron, price
from trainers.parallelism.plan import Plan
from trainers.parallelism.scaling import AFFINE, Scaled
from trainers.parallelism.workload import columns, torch_operator

IMAGES = Signature(TensorType((3, 16, 16)), TensorType((10,)))


@pytest.mark.parametrize("name", ["convnet", "mobile", "transformer", "mlp"])
def test_between_two_traces_lies_a_third(name):
    space = SPACES.load(name)()
    network = meta_network(space, space.sample(np.random.default_rng(3)), IMAGES)
    work = {batch: columns(trace(network, IMAGES, batch), kind=torch_operator) for batch in (8, 24, 64, 128)}
    scaled = Scaled(work[8], work[64])
    for batch in (24, 128):
        found, true = scaled(batch), work[batch]
        assert found.samples == batch
        for column in AFFINE:
            if column not in ("saved_bytes", "temporary_bytes", "peak_bytes"):
                assert getattr(found, column) == pytest.approx(getattr(true, column), abs=1e-6), column
        assert found.saved_bytes.sum() == pytest.approx(true.saved_bytes.sum(), rel=1e-6)
        prices = [price(one, Plan(), machine(bytes_per_second=1e9)) for one in (found, true)]
        assert prices[0].seconds == pytest.approx(prices[1].seconds)
        assert prices[0].memory_bytes == pytest.approx(prices[1].memory_bytes, rel=0.02)


def test_other_operators_do_not_tell():
    with pytest.raises(ValueError, match="trace it at two batches"):
        Scaled(perceptron(8, (4, 4)), perceptron(16, (4, 4, 4)))
    with pytest.raises(ValueError, match="trace it at two batches"):
        Scaled(perceptron(8, (4, 4)), perceptron(8, (4, 4)))
