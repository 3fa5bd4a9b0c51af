"""NAS-Bench-201: the space, its keys against the classes of the table, its parameters against its costs."""

import os
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from search_spaces import Architecture, Signature, TensorType, static_metrics
from search_spaces.cell201 import OPERATIONS, Cell201
from search_spaces.cell201_modules import CellModule

CIFAR = Signature(TensorType((3, 32, 32)), TensorType((10,)))
NAMES = ("1<-0", "2<-0", "2<-1", "3<-0", "3<-1", "3<-2")
DATA = Path(os.environ.get("NAS_BENCHMARK_DATA", Path(__file__).parents[3] / "shared" / "data"))
TABLE = DATA / "tables" / "nb201-cifar10.npz"


def cell(*codes):
    return Architecture({name: OPERATIONS[code] for name, code in zip(NAMES, codes, strict=True)})


@pytest.fixture(scope="module")
def table():
    if not TABLE.exists():
        pytest.skip(f"{TABLE} is missing: set NAS_BENCHMARK_DATA to the folder of the recorded tables")
    with np.load(TABLE) as content:
        return {name: content[name] for name in ("codes", "classes", "cost:params_millions")}


@pytest.fixture(scope="module")
def space():
    return Cell201()


def test_the_space_has_six_decisions_and_15_625_architectures(space):
    assert tuple(slot.name for slot in space.domain.slots) == NAMES
    assert all(slot.decision.options == OPERATIONS for slot in space.domain.slots)
    assert space.size() == 15_625


def test_samples_are_uniform_in_each_pair_of_decisions(space):
    rng = np.random.default_rng(0)
    samples = [tuple(space.sample(rng).values()) for _ in range(5_000)]
    for first in range(6):
        for second in range(first):
            counts = Counter((sample[first], sample[second]) for sample in samples)
            statistic = sum((counts[a, b] - 200) ** 2 / 200 for a in OPERATIONS for b in OPERATIONS)
            assert statistic < 24 + 6 * 48**0.5


def test_a_mutation_changes_one_operation_and_neighbours_are_24(space):
    rng = np.random.default_rng(0)
    for _ in range(50):
        parent = space.sample(rng)
        child = space.mutate(parent, rng)
        assert sum(parent[name] != child[name] for name in NAMES) == 1
        assert child in set(space.neighbours(parent))
    assert len(set(space.neighbours(parent))) == 24


def test_keys_never_merge_classes_of_the_benchmark(space, table):
    started = time.process_time()
    keys = [space.key(cell(*code)) for code in table["codes"].tolist()]
    seconds = time.process_time() - started
    assert len(set(keys)) == len(set(zip(keys, table["classes"].tolist(), strict=True))) == 6_900
    assert len(set(table["classes"].tolist())) == 6_466  # of which 434 hold different networks
    assert seconds < 3.0


def test_the_canonical_form_is_its_own_and_has_the_same_key(space):
    for architecture in list(space.domain.assignments())[::7]:
        canonical = space.canonical(Architecture(architecture))
        space.check(canonical)
        assert space.canonical(canonical) == canonical
        assert space.key(canonical) == space.key(Architecture(architecture))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((3, 4, 2, 0, 0, 0), (0, 0, 0, 0, 0, 0)),  # nothing reaches the output
        ((3, 0, 0, 2, 0, 0), (0, 0, 0, 2, 0, 0)),  # a branch that is not used
        ((0, 1, 3, 2, 4, 1), (0, 1, 0, 2, 0, 1)),  # a node that is not fed
        ((1, 3, 0, 2, 0, 1), (1, 0, 3, 2, 0, 1)),  # node 1 is the input
    ],
)
def test_the_same_network_has_one_key(space, one, other):
    assert space.key(cell(*one)) == space.key(cell(*other))
    assert space.features(cell(*one)) == space.features(cell(*other))


def test_one_convolution_used_twice_is_not_two(space):
    assert space.key(cell(3, 0, 1, 0, 1, 1)) != space.key(cell(3, 3, 0, 0, 1, 1))


def test_features_are_paths_and_numbers_of_operations(space):
    paths, *counts = space.features(cell(0, 0, 0, 3, 0, 0))
    assert len(paths) == 1 + 3 + 3**2 + 3**3  # sequences of convolutions and the pool; a skip is passed over
    assert [at for at, present in enumerate(paths) if present] == [2]
    assert counts == [(0.0,), (0.5,)]
    paths, *counts = space.features(cell(2, 0, 2, 1, 0, 4))
    assert [at for at, present in enumerate(paths) if present] == [0, 1 + 3 + 9 + 2]  # a skip; 1x1, 1x1, pool
    assert counts == [(1.0,), (0.0,)]
    assert not any(map(any, space.features(cell(3, 3, 3, 0, 0, 0))))


def parameters(codes):
    """By hand: the skeleton, and 5 cells of each width."""

    def conv(inputs, outputs, kernel):
        return inputs * outputs * kernel**2 + 2 * outputs

    reductions = sum(conv(c, 2 * c, 3) + conv(2 * c, 2 * c, 3) + 2 * c * c for c in (16, 32))
    skeleton = conv(3, 16, 3) + reductions + 2 * 64 + 64 * 10 + 10
    cells = [5 * sum(conv(c, c, kernel) for c in (16, 32, 64)) for kernel in (1, 3)]
    codes = np.asarray(codes)
    return skeleton + (codes == 2).sum(-1) * cells[0] + (codes == 3).sum(-1) * cells[1]


def test_parameters_are_those_of_the_table(space, table):
    counted = parameters(table["codes"])
    agree = np.abs(table["cost:params_millions"] - counted / 1e6) < 1e-6
    assert agree.sum() == 15_475  # the table itself miscounts the convolutions of 150 codes
    rows = np.random.default_rng(0).choice(len(agree), 60, replace=False)
    for row in rows:
        architecture = cell(*table["codes"][row].tolist())
        built = static_metrics(space, architecture, CIFAR)["parameters"]
        assert built == counted[row]
        assert abs(built / 1e6 - table["cost:params_millions"][row]) < 1e-6 or not agree[row]
    assert agree[rows].sum() >= 55


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (2, 7, 9), (1, 1, 1), (3, 150, 130)])
def test_images_of_any_size(shape):
    space, rng = Cell201(width=4, cells=1), np.random.default_rng(0)
    signature = Signature(TensorType(shape), TensorType((7,)))
    for _ in range(3):
        network = space.build(space.sample(rng), signature)
        assert network(torch.randn(2, *shape)).shape == (2, 7)


def test_widths_and_sizes_of_the_stages(space):
    shapes = []
    network = space.build(cell(1, 1, 1, 1, 1, 1), CIFAR)
    for part in network.stages:
        part.register_forward_hook(lambda _, __, output: shapes.append(tuple(output.shape[1:])))
    network(torch.randn(1, 3, 32, 32))
    assert shapes == [(16, 32, 32), (32, 16, 16), (32, 16, 16), (64, 8, 8), (64, 8, 8)]
    assert [len(part) for part in network.stages[::2]] == [5, 5, 5]


def test_a_cell_by_hand(space):
    torch.manual_seed(0)
    module = CellModule(space.graph(cell(3, 1, 4, 2, 0, 1)), 4)
    conv3, conv1, pool = (module.operations[f"from_{edge}"] for edge in ("0_to_1", "0_to_3", "1_to_2"))
    image = torch.randn(2, 4, 5, 5)
    torch.testing.assert_close(module(image), conv1(image) + image + pool(conv3(image)))


def test_dead_branches_are_counted_frozen_and_not_computed(space):
    used, unused = cell(0, 0, 0, 2, 0, 0), cell(3, 3, 0, 2, 0, 0)
    torch.manual_seed(0)
    module = CellModule(space.graph(unused), 4)
    twin = CellModule(space.graph(used), 4)
    twin.load_state_dict(module.state_dict(), strict=False)
    image = torch.randn(2, 4, 5, 5)
    torch.testing.assert_close(module(image), twin(image))
    frozen = [name for name, parameter in module.named_parameters() if not parameter.requires_grad]
    assert len(frozen) == 6
    assert all(name.startswith(("operations.from_0_to_1", "operations.from_0_to_2")) for name in frozen)


@pytest.fixture
def process_group():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("codes", [(0, 0, 0, 0, 0, 0), (3, 2, 0, 0, 0, 1), (3, 4, 2, 1, 2, 3)])
def test_data_parallel_training_takes_gradients_without_a_warning(codes):
    network = Cell201(width=4, cells=1).build(cell(*codes), Signature(TensorType((1, 8, 8)), TensorType((10,))))
    parallel = nn.parallel.DistributedDataParallel(network)
    for _ in range(2):  # warnings are errors; the layout of gradients shows at the second step
        parallel(torch.randn(4, 1, 8, 8)).sum().backward()


@pytest.mark.parametrize(
    ("make", "message"), [(lambda: Cell201(width=0), "width = 0"), (lambda: Cell201(cells=[5]), r"cells = \[5\]")]
)
def test_malformed_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_task_without_images_is_refused(space):
    with pytest.raises(ValueError, match="space Cell201 takes images"):
        space.check_signature(Signature(TensorType((64,)), TensorType((10,))))
