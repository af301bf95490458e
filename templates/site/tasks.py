"""The verbs of gdr-toolkit as tasks of this folder: invoke doctor --inventory hosts.ini ..."""

from gdr_toolkit import namespace  # noqa: F401 # invoke looks for it
