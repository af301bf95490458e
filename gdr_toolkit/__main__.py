"""``python -m gdr_toolkit``: the command ``gdr`` where it is not installed."""

from gdr_toolkit import script

script()
