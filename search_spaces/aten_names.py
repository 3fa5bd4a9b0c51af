"""Operators of torch that need no formula, by name; in place they have the same name and a trailing underscore."""

from collections.abc import Mapping

OPERATIONS: Mapping[str, int] = {
    "addcdiv": 2,
    "addcmul": 2,
    "elu": 3,
    "elu_backward": 3,
    "gelu": 5,
    "gelu_backward": 8,
    "glu": 2,
    "glu_backward": 5,
    "hardshrink_backward": 1,
    "hardsigmoid": 3,
    "hardsigmoid_backward": 2,
    "hardswish": 4,
    "hardswish_backward": 4,
    "hardtanh": 2,
    "hardtanh_backward": 2,
    "leaky_relu": 2,
    "leaky_relu_backward": 2,
    "lerp": 3,
    "masked_fill": 1,
    "log_sigmoid_forward": 3,
    "log_sigmoid_backward": 3,
    "mish_backward": 8,
    "mse_loss_backward": 3,
    "native_dropout": 3,
    "native_dropout_backward": 2,
    "_prelu_kernel": 2,
    "_prelu_kernel_backward": 3,
    "rrelu_with_noise": 2,
    "rrelu_with_noise_backward": 1,
    "sigmoid_backward": 3,
    "silu": 2,
    "silu_backward": 5,
    "smooth_l1_loss_backward": 4,
    "huber_loss_backward": 4,
    "binary_cross_entropy_backward": 5,
    "softplus": 3,
    "softplus_backward": 3,
    "softshrink_backward": 1,
    "tanh_backward": 3,
    "upsample_bilinear2d": 7,
    "upsample_bilinear2d_backward": 7,
}
"""Operations for each element where they are more than one, or where torch does not call the operator element-wise."""

COPIES = frozenset(
    {
        "_to_copy",
        "cat",
        "channel_shuffle",
        "clone",
        "constant_pad_nd",
        "copy",
        "diag_embed",
        "diagonal_backward",
        "flip",
        "im2col",
        "lift_fresh_copy",
        "pixel_shuffle",
        "pixel_unshuffle",
        "reflection_pad1d",
        "reflection_pad2d",
        "repeat",
        "replication_pad1d",
        "replication_pad2d",
        "roll",
        "scatter",
        "select_backward",
        "slice_backward",
        "slice_scatter",
        "select_scatter",
        "split_with_sizes_copy",
        "stack",
        "tril",
        "triu",
        "unfold_backward",
        "upsample_nearest1d",
        "upsample_nearest2d",
        "upsample_nearest3d",
    }
)
"""They move numbers."""

WRITTEN = frozenset(
    {
        "arange",
        "bernoulli",
        "exponential",
        "eye",
        "fill",
        "full",
        "full_like",
        "linspace",
        "new_full",
        "new_ones",
        "new_zeros",
        "normal",
        "ones",
        "ones_like",
        "rand",
        "rand_like",
        "randint",
        "randn",
        "randn_like",
        "random",
        "scalar_tensor",
        "uniform",
        "zero",
        "zeros",
        "zeros_like",
    }
)
"""They read nothing, and what is drawn costs no operation."""

SHAPED = frozenset(
    {"full_like", "new_full", "new_ones", "new_zeros", "ones_like", "rand_like", "randn_like", "zeros_like"}
)
"""Of those, the ones that take only the look of a tensor."""

ALLOCATED = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
"""They only ask for memory."""

LOOKED_UP: Mapping[str, str] = {
    "embedding": "weight",
    "index": "self",
    "index_select": "self",
    "gather": "self",
}
"""The argument of which only few places are read, as many as come out."""

UNREAD: Mapping[str, str] = {
    "nll_loss_forward": "self",
    "nll_loss_backward": "self",
    "max_pool2d_with_indices_backward": "self",
    "max_pool3d_with_indices_backward": "self",
    "avg_pool2d_backward": "self",
    "avg_pool3d_backward": "self",
    "_adaptive_avg_pool2d_backward": "self",
    "_adaptive_avg_pool3d_backward": "self",
}
"""The argument of which only the shape is used, or one number a row."""
