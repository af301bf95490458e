"""What a demo node is made of: one that differs is another node to every test.

``demo_trees.txt`` has a line for each folder of the first kind of node, and for each that differs
on another kind. To accept a difference, run this with GDR_ACCEPT=1 in the environment.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from toolkit.demo.create import commands, packages
from toolkit.demo.disk import disk
from toolkit.demo.node_files import inside
from toolkit.demo.nodes import READY, recipe_of
from toolkit.demo.sysfs import sysfs

KEPT = Path(__file__).parent / "demo_trees.txt"
DEEP = 5  # folders further down are told with the one above them
ACCEPT = os.environ.get("GDR_ACCEPT") == "1"


def laid(name: str) -> dict[str, str]:
    """What lies in each folder of a node before its first boot, as a number and a digest."""
    recipe = recipe_of(name)
    found: dict[str, str] = {f"command/{each}": "" for each in commands(recipe)}
    machine = sysfs(recipe.machine, root=recipe.user == "root")
    for part in (machine, disk(recipe), packages(recipe), inside(recipe)):
        for path, data in part.files.items():
            found[path] = f"{path in part.programs} {sha256(data).hexdigest()}"
        found |= part.links | dict.fromkeys(part.folders, "folder")
    folders: dict[str, list[str]] = {}
    for path in sorted(found):
        folder = "/".join(path.split("/")[:-1][:DEEP])
        folders.setdefault(folder, []).append(f"{path} {found[path]}")
    return {
        folder: f"{len(held)} in all, {sha256(repr(held).encode()).hexdigest()[:8]}"
        for folder, held in folders.items()
    }


def told() -> str:
    first, *others = READY
    usual = laid(first)
    lines = [f"# {first}", *(f"{path}: {usual[path]}" for path in sorted(usual))]
    for name in others:
        own = laid(name)
        differing = sorted(path for path in own | usual if own.get(path) != usual.get(path))
        lines += [f"# {name}", *(f"{path}: {own.get(path, 'is not there')}" for path in differing)]
    return "\n".join(lines) + "\n"


def test_every_file_of_every_kind_of_node() -> None:
    text = told()
    if ACCEPT:
        KEPT.write_text(text)
    assert text == KEPT.read_text()
