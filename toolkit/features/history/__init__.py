"""History of runs: list, show, undo."""
