"""The recipes of docs/contributing.md, all done as they say in one copy of the project."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.checkout import ROOT

PAGE = (ROOT / "docs/contributing.md").read_text()
RECIPES = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
TRIED = [name for name, text in RECIPES.items() if "\n```sh\n" in text]
STEP = re.compile(
    r"^`(?P<file>[\w./-]+)`, "
    r"(?:(?P<where>new|at its end)|(?P<side>before|after) `(?P<line>[^\n]+)`):"
    r"\n\n```\w+\n(?P<text>.*?)```$",
    re.DOTALL | re.MULTILINE,
)
ACCEPT = "./invokew accept"
LONG = True


def test_most_recipes_are_tried() -> None:
    assert TRIED == [
        "A check",
        "A distribution",
        "A report format",
        "A data row",
        "A profile",
    ]


def test_no_step_is_passed_over() -> None:
    assert (
        len(STEP.findall(PAGE)) == len(re.findall(r"^`[\w./-]+`, .*:$", PAGE, re.MULTILINE)) == 13
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the steps of each recipe; what is renewed after them is, once for all."""
    made = tmp_path_factory.mktemp("copy")
    files = subprocess.run(
        ("git", "-c", "safe.directory=*", "ls-files", "-coz", "--exclude-standard"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")[:-1]
    for name in (*files, *_compiled(files)):
        if (ROOT / name).is_file():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, made / name)
    for name in TRIED:
        for step in STEP.finditer(RECIPES[name]):
            add(step, made)
    run(ACCEPT, made)
    return made


def _compiled(files: list[str]) -> Iterator[str]:
    """What Python compiled of them, so that a copy of the same age need not do it again."""
    for folder in {Path(name).parent for name in files if name.endswith(".py")}:
        for each in (ROOT / folder / "__pycache__").glob("*.pyc"):
            yield str(each.relative_to(ROOT))


def add(step: re.Match[str], root: Path) -> None:
    file, text = root / step["file"], step["text"]
    if step["where"] == "new":
        assert not file.exists(), f"{file} is there already"
        file.write_text(text)
    elif step["where"] == "at its end":
        file.write_text(f"{file.read_text()}\n\n{text}")
    else:
        line, found = f"{step['line']}\n", file.read_text()
        assert found.count(f"\n{line}") == 1, f"{file}: not once {line}"
        together = f"{text}{line}" if step["side"] == "before" else f"{line}{text}"
        file.write_text(found.replace(f"\n{line}", f"\n{together}"))


def words_of(command: str, root: Path) -> list[str]:
    program, *words = shlex.split(command)
    return {
        "./invokew": [sys.executable, "-P", str(root / "dev"), "--search-root", str(root), *words],
        "pytest": [sys.executable, "-m", "pytest", "-q", "-n", "0", *words],
        "gdr": [sys.executable, "-m", "toolkit.cli", *words],
    }[program]


def run(command: str, root: Path) -> None:
    own = {"XDG_STATE_HOME": str(root / "state"), "PYTHONPATH": str(root)}
    plain = {each: os.environ[each] for each in os.environ if not each.startswith("PYTEST_")}
    ended = subprocess.run(
        words_of(command, root),
        cwd=root,
        env=plain | own,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout[-4000:]}\n{ended.stderr[-2000:]}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", TRIED)
def test_a_recipe_does_what_it_says(name: str, copy: Path) -> None:
    [commands] = re.findall(r"^```sh\n(.*?)^```", RECIPES[name], re.DOTALL | re.MULTILINE)
    for command in commands.splitlines():
        if command != ACCEPT:
            run(command, copy)
