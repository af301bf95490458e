"""Examples for pipelines are well formed, and their commands are ones that we have."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.run import ROOT
from toolkit.cli import verbs
from toolkit.cli.options import VerbTask

FOLDER = ROOT / "docs/pipelines"
FILES = sorted(each for each in FOLDER.rglob("*") if each.is_file())
_COMMAND = re.compile(r"\bgdr ([a-z]+(?: [^#\n|]*)?)")


def commands(text: str) -> Iterator[list[str]]:
    """The words after each ``gdr`` of a file, comments and quotes around them left out."""
    for line in text.split("\n"):
        for found in _COMMAND.finditer(re.sub(r"(^| )#.*", "", line)):
            words = re.sub(r"\$\{[^}]*\}|\"|,\s*$", " ", found[1])
            yield shlex.split(words)


def faults(words: list[str]) -> list[str]:
    """What our command line does not know of a command."""
    try:
        verb = verbs()[words[0]]
    except KeyError:
        return [f"no verb {words[0]}"]
    assert isinstance(verb, VerbTask)
    known = {"--" + each.name.rstrip("_").replace("_", "-") for each in verb.options}
    return [f"{words[0]} has no {each}" for each in words if each[:1] == "-" and each not in known]


@pytest.mark.parametrize("file", [*FILES, ROOT / "docs/pipelines.md"], ids=lambda file: file.name)
def test_every_command_is_one_of_ours(file: Path) -> None:
    asked = list(commands(file.read_text()))
    assert asked or file.name == "mkosi.conf"
    assert [fault for words in asked for fault in faults(words)] == []


def test_a_command_that_is_not_ours_is_found() -> None:
    text = "run: sudo gdr imagine --disk x\nx: gdr verify --hosts a --junior f # gdr not"
    asked = list(commands(text))
    assert [faults(words) for words in asked] == [
        ["no verb imagine"],
        ["verify has no --junior"],
    ]


def _yaml(name: str) -> dict[Any, Any]:
    """Any: YAML takes the key ``on`` for a truth value."""
    read = yaml.safe_load((FOLDER / name).read_text())
    assert isinstance(read, dict)
    return read


def test_githubs_jobs_have_a_runner_a_limit_and_steps_of_one_kind() -> None:
    told = _yaml("github.yml")
    assert set(told) == {"name", True, "permissions", "jobs"}
    for job in told["jobs"].values():
        assert {"runs-on", "timeout-minutes", "steps"} <= set(job)
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), step
            assert set(step) <= {"name", "run", "uses", "with", "if"}


def test_gitlabs_jobs_stand_in_stages_and_need_what_is_there() -> None:
    told = _yaml("gitlab-ci.yml")
    jobs = {name: job for name, job in told.items() if name != "stages"}
    for job in jobs.values():
        assert job["stage"] in told["stages"]
        assert all(isinstance(line, str) for line in job["script"])
        assert set(job.get("needs", ())) <= set(jobs)


@pytest.mark.parametrize("name", ["github.yml", "gitlab-ci.yml"])
def test_the_junit_file_is_kept_also_where_a_check_failed(name: str) -> None:
    text = (FOLDER / name).read_text()
    [written] = set(re.findall(r"--junit (\S+)", text))
    always = text.index("always")
    assert written in text[always : always + 250]


def test_the_page_names_every_file() -> None:
    page = (ROOT / "docs/pipelines.md").read_text()
    for file in FILES:
        assert f"](pipelines/{file.relative_to(FOLDER)})" in page
