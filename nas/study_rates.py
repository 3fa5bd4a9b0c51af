"""Rates of the machine by which a study predicts seconds: found once, kept in its folder, the same on every resume."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.device_memory import local_devices
from cluster.machine_file import write_whole
from nas.errors import StorageError, StudyError
from nas.present_machine import present_device, trial_rates
from trainers.parallelism.rates import Machine

FILE = "rates.json"

_logger = logging.getLogger(__name__)


def study_rates(folder: Path, settings: Mapping[str, Any], links: bool = False) -> Machine:
    """Rates of the study in ``folder``, else those of one present device for trials with ``settings`` of the trainer.

    With ``links`` those between all present devices are found too. What is found is then kept there. Raises StudyError
    where the file is damaged, StorageError where it cannot be written.
    """
    machine = kept_rates(folder)
    if machine is not None:
        return machine
    path = folder / FILE
    machine = trial_rates(settings, devices=local_devices(present_device()) if links else 1, say=_logger.warning)
    try:
        write_whole(path, machine.to_json() + "\n")
    except OSError as error:
        raise StorageError(f"{path}: the rates of this machine cannot be kept there ({error.strerror})") from error
    return machine


def kept_rates(folder: Path) -> Machine | None:
    """Rates by which the study in ``folder`` predicts; None where it has none. Raises StudyError: a damaged file."""
    path = folder / FILE
    try:
        return Machine.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError) as error:
        raise StudyError(
            f"{path}: the rates by which this study predicts seconds cannot be read ({error}); put the file back, or "
            "delete it: what comes is then predicted by the present machine's, and no longer comparable with what was"
        ) from error
