"""Closed forms against messages that are counted, limits, and tables that are interpolated."""

import numpy as np
import pytest

from trainers.parallelism.collective_costs import (
    Algorithm,
    all_reduce,
    fit,
    half,
    lower_bound,
    seconds,
    send,
    sent_bytes,
)
from trainers.parallelism.rates import Link

ALL_REDUCES = [Algorithm.TREE, Algorithm.BUTTERFLY, Algorithm.RING, Algorithm.RABENSEIFNER]


def ring_messages(ranks, size):
    """Rounds of an all-reduce on a ring: chunk c of rank r goes to r + 1 until all chunks are whole and everywhere."""
    holds = [[{rank} for _ in range(ranks)] for rank in range(ranks)]
    rounds, sent = 0, 0.0
    while any(len(chunk) < ranks for chunks in holds for chunk in chunks):
        sending = [(rank, (rank - rounds) % ranks) for rank in range(ranks)]
        moved = [(rank, chunk, set(holds[rank][chunk])) for rank, chunk in sending]
        for rank, chunk, summed in moved:
            holds[(rank + 1) % ranks][chunk] |= summed
        rounds, sent = rounds + 1, sent + size / ranks
    return rounds, sent


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8])
def test_a_ring_takes_the_rounds_and_bytes_of_its_messages(ranks):
    rounds, sent = ring_messages(ranks, 960.0)
    assert sent == pytest.approx(sent_bytes(Algorithm.RING, ranks, 960.0))
    assert rounds * 5.0 + sent * 0.5 == pytest.approx(seconds(Algorithm.RING, ranks, 960.0, 5.0, 0.5))


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_rabenseifner_halves_then_doubles(ranks):
    pieces = [960.0 / 2**round for round in range(1, ranks.bit_length())]
    counted = sum(2 * (5.0 + piece * 0.5) for piece in pieces)
    assert counted == pytest.approx(seconds(Algorithm.RABENSEIFNER, ranks, 960.0, 5.0, 0.5))
    assert 2 * sum(pieces) == pytest.approx(sent_bytes(Algorithm.RABENSEIFNER, ranks, 960.0))


@pytest.mark.parametrize("algorithm", ALL_REDUCES)
@pytest.mark.parametrize("ranks", [2, 3, 8, 17])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e9])
def test_no_algorithm_beats_the_bound(algorithm, ranks, size):
    assert seconds(algorithm, ranks, size, 1e-5, 1e-9) >= lower_bound(ranks, size, 1e-5, 1e-9) * (1 - 1e-12)


def test_small_messages_want_few_rounds_and_large_ones_few_bytes():
    def fastest(size):
        return min(ALL_REDUCES, key=lambda algorithm: seconds(algorithm, 16, size, 1e-5, 1e-9))

    assert fastest(8.0) is Algorithm.BUTTERFLY
    assert fastest(1e9) is Algorithm.RABENSEIFNER


def test_shards_of_a_parameter_server_share_its_bytes():
    times = [seconds(Algorithm.PARAMETER_SERVER, 8, 1e6, 0.0, 1e-9, servers) for servers in (1, 2, 8, 16)]
    assert times == pytest.approx([16e-3, 8e-3, 2e-3, 2e-3])


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_the_fit_finds_the_ring_that_was_measured(ranks):
    sizes = [2.0**power for power in range(10, 30)]
    link = fit(ranks, 1, [(size, seconds(Algorithm.RING, ranks, size, 3e-6, 4e-11)) for size in sizes])
    assert (link.latency_seconds, link.seconds_per_byte) == (pytest.approx(3e-6), pytest.approx(4e-11))


def test_a_fit_needs_two_sizes():
    with pytest.raises(ValueError, match="two sizes"):
        fit(2, 1, [(1024.0, 1e-5)])


def test_measured_times_are_kept_above_1_mib_and_never_fall_with_size():
    table = ((2.0**20, 5e-5), (2.0**21, 6e-5), (2.0**22, 9e-5))
    link = Link(4, 1, 1e-3, 1e-10, table)  # a latency that is far too high
    sizes = np.array([size for size, _ in table])
    assert all_reduce(link, 4, sizes) == pytest.approx([time for _, time in table])
    several = all_reduce(link, 4, np.geomspace(1.0, 1e9, 300))
    assert (np.diff(several) >= 0).all()
    assert several[0] == 5e-5
    assert all_reduce(link, 4, np.array([2.0**24])) == pytest.approx(4 * 9e-5)
    assert all_reduce(link, 2, sizes)[0] == pytest.approx(seconds(Algorithm.RING, 2, 2.0**20, 1e-3, 1e-10))


def test_nothing_costs_nothing():
    link = Link(4, 1, 1e-3, 1e-10)
    assert all_reduce(link, 4, np.array([0.0])) == 0
    assert all_reduce(link, 1, np.array([1e6])) == 0
    assert send(link, np.array([0.0, 1e10])) == pytest.approx([0.0, 1.001])
    assert half(link, 4, np.array([1e6])) * 2 == pytest.approx(all_reduce(link, 4, np.array([1e6])))
