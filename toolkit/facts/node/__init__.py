"""The facts of one machine, by topic: the parts of ``Node``."""
