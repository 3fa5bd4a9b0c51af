"""Random streams by number."""

import numpy as np

from nas.streams import Streams


def test_a_stream_depends_on_seed_and_number_alone():
    streams = Streams(3)
    first = streams.at(7).random(5)
    streams.at(8).integers(0, 100, 3, dtype=np.int32)  # leaves half a word behind
    assert np.array_equal(streams.at(7).random(5), first)
    assert np.array_equal(Streams(3).at(7).random(5), first)
    assert not np.array_equal(Streams(4).at(7).random(5), first)


def test_streams_look_independent():
    streams = Streams(0)
    drawn = np.array([streams.at(number).random(64) for number in range(512)])
    assert abs(drawn.mean() - 0.5) < 4 / np.sqrt(12 * drawn.size)
    between = np.corrcoef(drawn)[np.triu_indices(512, 1)]
    assert abs(between.mean()) < 0.002
    assert np.abs(between).max() < 0.7
