"""Rules for the looks of results: each agrees with torch's own kernel of the meta device wherever it speaks."""

import pytest
import torch

from search_spaces.meta_results import known_looks, look

ATEN = torch.ops.aten
SHAPES = [(4, 6), (2, 3, 5), (2, 3, 4, 5), (2, 1, 4, 4), (2, 3, 1, 1), (1, 1, 1, 1)]


def dense(shape, order="contiguous"):
    tensor = torch.empty(shape, device="meta")
    if order == "channels last" and len(shape) == 4:
        tensor = tensor.to(memory_format=torch.channels_last)
    if order == "turned":
        tensor = torch.empty(shape[::-1], device="meta").permute(*range(len(shape))[::-1])
    if order == "part":
        tensor = torch.empty((2 * shape[0], *shape[1:]), device="meta")[::2]
    return tensor


ORDERS = ["contiguous", "channels last", "turned", "part"]
UNARY = ["relu", "gelu", "silu", "sigmoid", "tanh", "hardtanh"]


def agrees(operator, *args, **kwargs):
    """Whether a rule spoke; what it said must be what torch does."""
    said = known_looks(operator._schema.name.partition("::")[2], args, kwargs)
    if said is None:
        return False
    results = operator(*args, **kwargs)
    results = results if isinstance(results, tuple) else (results,)
    assert [look(result) for result in results] == list(said)
    return True


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", ORDERS)
def test_element_wise_results_look_like_their_arguments(shape, order):
    tensor, other = dense(shape, order), dense(shape, order)
    spoke = [agrees(getattr(ATEN, name).default, tensor) for name in UNARY]
    spoke += [
        agrees(ATEN.threshold_backward.default, tensor, other, 0),
        agrees(ATEN.gelu_backward.default, tensor, other, approximate="tanh"),
        agrees(ATEN.sigmoid_backward.default, tensor, other),
        agrees(ATEN.add.Tensor, tensor, other),
        agrees(ATEN.mul.Tensor, tensor, other),
        agrees(ATEN.mul.Tensor, tensor, 2.0),
        agrees(ATEN.add.Tensor, tensor, 1),
    ]
    assert all(spoke) or order in ("turned", "part")


@pytest.mark.parametrize("first", ORDERS)
@pytest.mark.parametrize("second", ORDERS)
@pytest.mark.parametrize("shapes", [((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 3, 4, 5), (3, 1, 1)), ((4, 6), ())])
def test_unlike_arguments_are_left_to_torch_or_right(first, second, shapes):
    one, other = dense(shapes[0], first), dense(shapes[1], second) if shapes[1] else torch.empty((), device="meta")
    agrees(ATEN.add.Tensor, one, other)
    agrees(ATEN.mul.Tensor, other, one)
    if shapes[0] == shapes[1]:
        agrees(ATEN.threshold_backward.default, one, other, 0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool])
def test_other_dtypes_are_left_to_torch(dtype):
    tensor, whole = dense((4, 6)), torch.empty(4, 6, dtype=dtype, device="meta")
    assert not agrees(ATEN.add.Tensor, tensor, whole)
    assert not agrees(ATEN.mul.Tensor, whole, 2.0)
    assert not agrees(ATEN.mul.Tensor, tensor, 2j)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if len(shape) > 2 and shape[0] > 1])
@pytest.mark.parametrize("order", ORDERS)
def test_batch_norm(shape, order):
    images, channels = dense(shape, order), dense((shape[1],))
    forward = (images, channels, channels, channels, channels, True, 0.1, 1e-5)
    backward = (images, images, channels, channels, channels, channels, channels, True, 1e-5, [True] * 3)
    spoke = agrees(ATEN.native_batch_norm.default, *forward), agrees(ATEN.native_batch_norm_backward.default, *backward)
    assert all(spoke) or order in ("turned", "part")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dims", [1, 2])
def test_layer_norm(shape, dims):
    features, row = dense(shape), dense(shape[-dims:])
    scales = dense((*shape[:-dims], *(1,) * dims))
    assert agrees(ATEN.native_layer_norm.default, features, shape[-dims:], row, row, 1e-5)
    backward = (features, features, shape[-dims:], scales, scales, row, row, [True] * 3)
    assert agrees(ATEN.native_layer_norm_backward.default, *backward)


@pytest.mark.parametrize("order", ["contiguous", "turned", "part"])
def test_products_and_losses(order):
    left, right, bias = dense((4, 6), order), dense((6, 5), order), dense((5,))
    assert agrees(ATEN.mm.default, left, right)
    assert agrees(ATEN.addmm.default, bias, left, right)
    assert not agrees(ATEN.addmm.default, dense((1, 5), "part")[:, :1].expand(4, 5), left, right)
    scores, targets = dense((4, 6)), torch.empty(4, dtype=torch.int64, device="meta")
    one = torch.empty((), device="meta")
    assert agrees(ATEN.nll_loss_forward.default, scores, targets, None, 1, -100)
    assert agrees(ATEN.nll_loss_backward.default, one, scores, targets, None, 1, -100, one)
    assert agrees(ATEN._log_softmax.default, scores, 1, False)
    assert agrees(ATEN._log_softmax_backward_data.default, scores, scores, 1, torch.float32)
