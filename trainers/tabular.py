"""Measurements read from a table instead of trained, with the seconds that they took."""

from search_spaces import Candidate
from trainers.context import Context
from trainers.tasks.recorded import Recorded


class Tabular:
    """Reports what the task's table holds for a candidate at the leg's end."""

    builds = False
    trains = False

    def __call__(self, candidate: Candidate, context: Context) -> None:
        """Report once; raises Infeasible for a candidate without a row, ValueError where the task is no table."""
        task = context.task
        if not isinstance(task, Recorded):
            raise ValueError(f'this trainer reads recorded results: it takes task = "table:PATH", not {task!r}')
        seconds = task.seconds(candidate.architecture, context.start, context.until)
        context.report(context.until, task.measure(candidate.architecture, context.until), state={}, seconds=seconds)
