"""Sizes as text, one way for all who tell them."""

from math import inf, log10

import pytest

from search_spaces.sizes import power_text, size_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1, "1"),
        (10**12 - 1, "999,999,999,999"),
        (10**12, "about 1.0e12"),
        (15 * 10**12, "about 1.5e13"),
        (999 * 10**12, "about 1.0e15"),
        (2 * 10**5000, "about 2.0e5000"),
        (inf, "infinitely many"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_size_is_exact_while_it_can_be_read(size, text):
    assert size_text(size) == text


def test_a_logarithm_alone_says_the_same():
    assert power_text(log10(7 * 10**40)) == size_text(7 * 10**40) == "about 7.0e40"
