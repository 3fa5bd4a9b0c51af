"""What the spaces of networks for images ask of a task."""

from search_spaces.signature import Signature


def check_images(space: str, signature: Signature) -> None:
    """Raise ValueError unless the input is (channels, height, width) of floats and the output (classes,)."""
    shape, dtype = signature.input.shape, signature.input.dtype
    if len(shape) != 3:
        raise ValueError(
            f"space {space} takes images, shape (channels, height, width); the task's input is {shape}; "
            "reshape it, or search the space mlp"
        )
    if not dtype.startswith(("float", "bfloat")):
        raise ValueError(f"space {space} takes images of a float dtype, the task gives {dtype}")
    if len(signature.output.shape) != 1:
        raise ValueError(f"space {space} gives (classes,) logits; the task's output is {signature.output.shape}")
