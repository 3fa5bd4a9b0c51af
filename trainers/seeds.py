"""Seeds for each purpose, derived from the trial's own, so that no draw shifts another."""

from hashlib import blake2b


def derived(seed: int, purpose: str, *numbers: int) -> int:
    """Return 63 bits, a function of the arguments alone: ``derived(seed, "order", epoch)``."""
    text = repr((int(seed), purpose, *numbers)).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little") >> 1
