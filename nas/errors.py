"""What can go wrong that is not the product's fault; each kind has its exit code (DESIGN, "Answers")."""


class NasError(Exception):
    """Root of the tree; its text names what is wrong and the remedy, and is all that a user sees."""

    exit_code = 1


class ConfigError(NasError, ValueError):
    """The configuration, a command-line option or a search space is wrong."""

    exit_code = 2


class StudyError(NasError):
    """The folder holds no study, a damaged one, or one that cannot be used so (written by another process now)."""

    exit_code = 2


class AllFailedError(NasError):
    """No trial could succeed: the same error came from each."""

    exit_code = 3


class StorageError(NasError):
    """The storage of a study is full or gone; names the folder and the bytes."""

    exit_code = 4


class CapacityError(NasError):
    """The cluster can never hold what is asked of it; names the resource."""

    exit_code = 5


class Interrupted(NasError):  # noqa: N818 - a signal, not an error
    """A signal ended the command; ``exit_code`` is 128 + its number."""

    def __init__(self, signal: int) -> None:
        super().__init__(f"ended by signal {signal}")
        self.exit_code = 128 + signal

    def __reduce__(self) -> tuple[type["Interrupted"], tuple[int]]:
        return type(self), (self.exit_code - 128,)
