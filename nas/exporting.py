"""Exports a trial of a study: the retrained weights where there are some, else those of its last checkpoint."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from nas.choosing import choose
from nas.config import SearchConfig
from nas.errors import NasError, StorageError, StudyError
from nas.parts import make_recipe
from nas.retrain import retrained_folder
from nas.study import load
from nas.trained import check_trained
from trainers import Checkpoint, Recipe, Runner
from trainers.materials import Materials


@dataclass(frozen=True, slots=True)
class Exported:
    """What was exported, from which checkpoint, and where to; ``retrained`` says which weights they are."""

    trial: int
    retrained: bool
    parameters: int
    checkpoint: Path
    folder: Path

    def plain(self) -> dict[str, Any]:
        """JSON values, with the paths of the three files."""
        from trainers import export

        return {
            "trial": self.trial,
            "source": "retrained" if self.retrained else "search",
            "parameters": self.parameters,
            "checkpoint": str(self.checkpoint),
            "weights": str(self.folder / export.WEIGHTS),
            "architecture": str(self.folder / export.ARCHITECTURE),
            "description": str(self.folder / export.DESCRIPTION),
        }


def export_trial(folder: Path, trial: int | None = None, out: Path | None = None) -> Exported:
    """Export ``trial`` (None: the best) into ``out``, by default ``export/`` in the study's folder.

    The files are loaded back and compared before they appear. Raises StudyError where the search trained no network, no
    weights are left or they are not a network's, StorageError where the files cannot be written.
    """
    study = load(folder)
    check_trained(study)
    chosen = choose(study, trial)
    recipe = make_recipe(SearchConfig.from_plain(study.config), folder)
    own = Runner(recipe).checkpoints(chosen.number).newest(recipe.maximum)
    retrained = _retrained(recipe, retrained_folder(folder, chosen.number))
    checkpoint = retrained or own
    if checkpoint is None:
        raise StudyError(
            f"trial {chosen.number}: no checkpoint of it is left; train it anew by: "
            f"nas retrain {folder} --trial {chosen.number}"
        )
    state = checkpoint.state
    if not isinstance(state, dict) or "model" not in state:
        raise StudyError(
            f"trial {chosen.number}: its checkpoint has no weights under the name 'model'; a training function that "
            'reports state={"model": network.state_dict()} can be exported'
        )

    from trainers.export import DESCRIPTION, ExportError, export

    out = out or folder / "export"
    notes = {"trial": chosen.number, "candidate": str(chosen.proposal.candidate), "metrics": dict(chosen.metrics)}
    architecture = chosen.proposal.candidate.architecture
    signature = Materials(recipe.space, recipe.task).task.signature
    try:
        export(out, state["model"], recipe.space, architecture, signature, notes)
    except ExportError as error:
        raise NasError(f"trial {chosen.number} cannot be exported: {error}") from error
    except OSError as error:
        raise StorageError(f"{out}: the export cannot be written ({error.strerror})") from error
    parameters = orjson.loads((out / DESCRIPTION).read_bytes())["parameters"]
    return Exported(chosen.number, retrained is not None, parameters, checkpoint.path, out)


def _retrained(recipe: Recipe, folder: Path) -> Checkpoint | None:
    """The weights of the first seed: which seed is best on the test split must not matter."""
    return Runner(replace(recipe, folder=folder)).checkpoints(0).newest(recipe.maximum) if folder.is_dir() else None
