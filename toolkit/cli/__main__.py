"""``python -m toolkit.cli``: the command ``gdr`` where it is not installed."""

from toolkit.cli import main, start

start.end_after(main)
