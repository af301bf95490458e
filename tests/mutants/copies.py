"""Copies of the tree, where mutants live: the tree itself is never written to."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from dev.run import ROOT, files


def copy(into: Path) -> Path:
    """Lay a copy of the tree, with this tree's environment and captures beside it.

    :param into: an empty or missing folder of our own; the copy is ``into/tree``.
    """
    tree = into / "tree"
    for file in files(ROOT):
        place = tree / file.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, place)
    for name, origin in ((".venv", ROOT), ("shared", ROOT.parent)):
        if (origin / name).exists():
            ((tree if origin == ROOT else into) / name).symlink_to(origin / name)
    return tree


def environment(tree: Path, **more: str) -> dict[str, str]:
    """This process's environment, with the copy before whatever was installed."""
    paths = [*more.pop("first", "").split(), str(tree)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"} | more


def write(tree: Path, file: str, text: str) -> None:
    """Lay a file anew, without what Python compiled of the old one.

    Python knows a compiled file's source by size and whole second, and mutants share both.
    """
    place = tree / file
    for stale in (place.parent / "__pycache__").glob(f"{place.stem}.*.pyc"):
        stale.unlink()
    place.write_text(text, encoding="utf-8")
