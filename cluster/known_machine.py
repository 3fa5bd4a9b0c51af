"""Rates of the present machine for whoever needs them: as they were measured once, or by a short calibration now."""

from collections.abc import Callable

from cluster.calibration import SHORT, calibrate
from cluster.device_memory import local_devices
from cluster.machine_file import DamagedError, Key, cache_folder, load
from trainers.parallelism.rates import Machine


def as_trained(device: str) -> tuple[int, str]:
    """CPU threads of a rank on this device, and what its forward passes compute in where nothing else is asked."""
    if device == "cpu":
        return 1, "float32"
    from trainers.precision import precision_for

    chosen = precision_for("auto", device).dtype
    threads = max(1, local_devices("cpu") // max(local_devices(device), 1))
    return threads, "float32" if chosen is None else str(chosen).removeprefix("torch.")


def known_machine(
    device: str = "cpu",
    threads: int | None = None,
    dtype: str | None = None,
    devices: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Machine:
    """Rates of a device as trials use it unless told otherwise: those that ``nas calibrate`` left, or else of a short
    calibration, which is told through ``say``, as is a file that cannot be read.

    Nothing is written: the user's cache is filled by ``nas calibrate`` alone, and who needs the rates again keeps them.
    """
    usual = as_trained(device)
    threads, dtype = threads or usual[0], dtype or usual[1]
    key = Key.here(device, threads, dtype)
    try:
        found = load(key, cache_folder())
    except DamagedError as error:
        say(str(error))
        found = None
    if found is not None:
        return found
    say(f"no rates of {key.device} with {threads} thread(s) yet: measuring for {SHORT:g} s; nas calibrate is exacter")
    measured = calibrate(device, threads, dtype, SHORT, devices)
    for failure in measured.failures:
        say(failure)
    return measured.machine
