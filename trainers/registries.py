"""Name tables of the built-in tasks and trainers; other packages add theirs by entry point."""

from search_spaces import Registry

TASKS = Registry("task", "nas.tasks", {"digits": "trainers.tasks.digits:Digits"})
TRAINERS = Registry(
    "trainer",
    "nas.trainers",
    {
        "supervised": "trainers.supervised:Supervised",
        "synthetic": "trainers.synthetic:Synthetic",
    },
)
