"""Encodings of cells: by hand, with the lengths that the papers give, and decoded again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.cell_encoding import adjacency_encoding, operation_counts, path_encoding
from search_spaces.cell_graph import CellGraph

EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))


def on_edges(*operations):
    return CellGraph(4, EDGES, dict(zip(EDGES, operations, strict=True)))


ON_NODES = CellGraph(4, ((0, 1), (1, 2), (1, 3), (2, 3)), {1: "a", 2: "b"})


def test_adjacency_of_operations_on_edges():
    encoding = adjacency_encoding(on_edges(*"abnanb"), "nab")
    assert "".join("nab"[row.argmax()] for row in encoding.reshape(6, 3)) == "abnanb"
    assert encoding.sum() == 6
    missing = adjacency_encoding(CellGraph(3, ((0, 2),), {(0, 2): "b"}), "ab")
    assert missing.tolist() == [0, 0, 0, 1, 0, 0]


def test_adjacency_of_operations_on_nodes():
    encoding = adjacency_encoding(ON_NODES, "ab", on="nodes")
    assert encoding.tolist() == [1, 0, 1, 0, 1, 1] + [1, 0] + [0, 1]


def test_paths_of_operations_on_edges():
    encoding = path_encoding(on_edges(*"abnanb"), "nab", none="n")
    assert len(encoding) == 2 + 4 + 8
    assert np.flatnonzero(encoding).tolist() == [0, 2 + 3]  # "a" and "bb": nothing uses node 1


def test_paths_of_operations_on_nodes():
    encoding = path_encoding(ON_NODES, "ab", on="nodes")
    assert len(encoding) == 1 + 2 + 4
    assert np.flatnonzero(encoding).tolist() == [1, 3 + 1]  # "a" and "ab"
    straight = CellGraph(3, ((0, 2), (0, 1)), {1: "a"})
    assert path_encoding(straight, "a", on="nodes").tolist() == [1, 0]


def test_lengths_are_those_of_the_papers():
    # White et al. 2021: 364 paths on NAS-Bench-101, of which the 40 of at most three operations are kept
    graph = CellGraph(7, ((0, 6),), dict.fromkeys(range(1, 6), "a"))
    assert len(path_encoding(graph, "abc", on="nodes")) == 364
    assert len(path_encoding(graph, "abc", on="nodes", longest=3)) == 40
    assert path_encoding(graph, "abc", on="nodes", longest=3).sum() == 1


@given(st.lists(st.sampled_from("nabcd"), min_size=6, max_size=6), st.integers(1, 3))
def test_a_truncated_path_encoding_is_the_beginning_of_the_whole(operations, longest):
    graph = on_edges(*operations)
    whole = path_encoding(graph, "nabcd", none="n")
    short = path_encoding(graph, "nabcd", none="n", longest=longest)
    assert len(whole) == 84
    assert short.tolist() == whole[: len(short)].tolist()


def test_operations_are_counted_where_a_way_leads_through():
    assert operation_counts(on_edges(*"anbnan"), "nab", none="n").tolist() == [2.0, 0.0]  # node 2 leads nowhere
    assert operation_counts(on_edges(*"aabbba"), "nab", none="n").tolist() == [3.0, 3.0]


@pytest.mark.parametrize("operations", ["nnnnnn", "aaannn"])
def test_a_cell_without_output_has_no_path(operations):
    assert not operation_counts(on_edges(*operations), "na", none="n").any()
    assert not path_encoding(on_edges(*operations), "na", none="n").any()
