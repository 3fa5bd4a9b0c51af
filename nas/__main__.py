"""``python -m nas``, the same as the command ``nas``."""

from nas.cli import main

main()
