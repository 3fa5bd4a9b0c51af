from pathlib import Path
from typing import Any

import orjson
import pytest
import torch
from torch import nn

from search_spaces import SPACES, Architecture, Reference, Signature, TensorType
from tests.trainers.trainer_samples import Nets, candidate, recipe, run
from trainers import Runner
from trainers.export import ExportError, export, load

SIGNATURE = Signature(TensorType((1, 8, 8)), TensorType((2,)))
ARCHITECTURE = candidate("norm").architecture


def weights(tmp_path: Path) -> Any:
    runner = Runner(recipe(tmp_path / "study"))
    run(runner, candidate("norm"), 2)
    found = runner.checkpoints(0).newest(2)
    assert found is not None
    return found.state["model"]


def test_round_trip(tmp_path: Path) -> None:
    trained = weights(tmp_path)
    folder = export(tmp_path / "out", trained, Reference(Nets), ARCHITECTURE, SIGNATURE, {"val_accuracy": 0.9})
    assert sorted(path.name for path in folder.iterdir()) == ["architecture.txt", "model.json", "weights.safetensors"]
    assert (folder / "architecture.txt").read_text() == 'kind="norm", width=4\n'
    again = load(folder, Reference(Nets))
    assert not again.training
    assert all(torch.equal(value, trained[name]) for name, value in again.state_dict().items())
    described = orjson.loads((folder / "model.json").read_bytes())
    assert described["parameters"] == 178
    assert described["notes"] == {"val_accuracy": 0.9}
    assert described["signature"]["input"] == {"shape": [1, 8, 8], "dtype": "float32"}


def test_the_folder_alone_is_enough_for_a_named_space(tmp_path: Path) -> None:
    space = Reference("tests.trainers.trainer_samples:Nets")
    folder = export(tmp_path / "out", weights(tmp_path), space, ARCHITECTURE, SIGNATURE)
    assert load(folder)(torch.zeros(3, 1, 8, 8)).shape == (3, 2)


def test_exporting_again_replaces(tmp_path: Path) -> None:
    trained = weights(tmp_path)
    for _ in range(2):
        export(tmp_path / "out", trained, Reference(Nets), ARCHITECTURE, SIGNATURE)
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_altered_weights_are_refused(tmp_path: Path) -> None:
    folder = export(tmp_path / "out", weights(tmp_path), Reference(Nets), ARCHITECTURE, SIGNATURE)
    content = bytearray((folder / "weights.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "weights.safetensors").write_bytes(content)
    with pytest.raises(ExportError, match="checksum differs"):
        load(folder, Reference(Nets))


def test_a_space_that_builds_something_else_each_time_is_refused(tmp_path: Path) -> None:
    class Whimsical(Nets):
        built = 0

        def build(self, architecture: Architecture, signature: Signature) -> nn.Module:
            type(self).built += 1
            network = super().build(architecture, signature)
            return nn.Sequential(*network, nn.Softmax(1)) if self.built == 1 else network

    with pytest.raises(ExportError, match="outputs differ"):
        export(tmp_path / "out", weights(tmp_path), Reference(Whimsical), ARCHITECTURE, SIGNATURE)
    assert list((tmp_path / "out").iterdir()) == []


def test_tied_weights(tmp_path: Path) -> None:
    class Tied:
        def build(self, architecture: Architecture, signature: Signature) -> nn.Module:
            network = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.Linear(64, 64))
            network[2].weight = network[1].weight
            return network

    network = Tied().build(ARCHITECTURE, SIGNATURE)
    folder = export(tmp_path / "out", network.state_dict(), Reference(Tied), ARCHITECTURE, SIGNATURE)
    again = load(folder, Reference(Tied))
    assert torch.equal(again.get_parameter("1.weight"), network.get_parameter("1.weight"))


def test_builtin_spaces_are_known_by_name() -> None:
    assert Reference("convnet").name in SPACES.names()


def test_a_network_of_tokens_keeps_its_vocabulary(tmp_path: Path) -> None:
    signature = Signature(TensorType((6,), "int64", vocabulary=11), TensorType((3,)))
    reference = Reference("transformer", {"layers": 1, "widths": 8, "heads": 2, "ratios": 1})
    space = reference.make(SPACES)
    architecture = space.parse(
        'width=8, activation="relu", position="rotary", layers=1, layer.0.heads=2, layer.0.ratio=1'
    )
    network = space.build(architecture, signature).eval()
    folder = export(tmp_path / "out", network.state_dict(), reference, architecture, signature)
    described = orjson.loads((folder / "model.json").read_bytes())
    assert described["signature"]["input"] == {"shape": [6], "dtype": "int64", "vocabulary": 11}
    tokens = torch.arange(12).view(2, 6) % 11
    assert torch.equal(load(folder)(tokens), network(tokens))
