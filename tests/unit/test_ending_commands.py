"""The commands that the last line of a run names: each is one, and can be called from here."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from invoke.parser import Parser

from dev.run import ROOT
from tests.laws import few
from toolkit.cli import verbs
from toolkit.cli.options import HOSTS, REACH, Option, Said, VerbTask
from toolkit.cli.outcome_line import ending, record
from toolkit.errors import ExitCode
from toolkit.package_data import program

WAYS: tuple[dict[str, str | int | bool], ...] = (
    {"hosts": "gpu1"},
    {"hosts": "@all", "inventory": "i", "exclude": "gpu2", "limit": "gpu*"},
    {"hosts": "gpu9", "hosts_file": "a file", "via": "slurm", "transport": "srun"},
    {"from_": "evidence"},
)


def others(options: Mapping[str, Option]) -> list[dict[str, str | int | bool]]:
    """Each option alone, as it is not unless it is said; and all that lead to nodes."""
    told: dict[str, str | int | bool] = {
        name: not each.default if isinstance(each.default, bool) else "5"
        for name, each in options.items()
        if not {name} & {"from_", *(it.name for it in HOSTS)}
    }
    way = {each.name: told[each.name] for each in REACH if each.name in told}
    alone: list[dict[str, str | int | bool]] = [{name: value} for name, value in told.items()]
    flags = [each for each in alone if True in each.values() or False in each.values()]
    values = [each for each in alone if each not in flags]
    return [{}, way, *flags, *(few(values, 4, "alone") if values else ())]


def test_every_command_that_is_named_is_one() -> None:
    contexts, named, seen = verbs().to_contexts(), set(), set()
    for verb_, code in ((name, code) for name in verbs().task_names for code in ExitCode):
        task = verbs()[verb_]
        assert isinstance(task, VerbTask)
        options = {each.name: each for each in task.options}
        plain = Said({"hosts": "gpu1"})
        record(plain, [("gpu1", code)])
        if ending(task.name, code, plain).endswith("see above"):
            continue  # and no option makes a command of that
        for way in WAYS:
            for other in (
                others(options)[: None if way is WAYS[0] else 2]
                if {"hosts", "from_"} & {*options}
                else ()
            ):
                for host in ("gpu1", "n" * 250):  # and one that is too long to be said
                    told = Said(way | other)
                    record(told, [(host, code)])
                    seen.add(ending(task.name, code, told).rpartition("; ")[2])
    # One of those that are alike but for their values.
    alike = {tuple(w for w in line.split() if w[0] == "-" or w.isalpha()): line for line in seen}
    for line in {*alike.values()} - {"see above"}:
        words = shlex.split(line.rpartition(" shows")[0] or line)
        words = words[1 : next((at for at, w in enumerate(words) if w in {"asks", "makes"}), None)]
        parsed = Parser([each for each in contexts if each.name in words]).parse_argv(words)
        named |= {each.name for each in parsed if each.name}
    assert named == {"doctor", "plan", "provision", "drift", "history"}


@pytest.mark.parametrize(
    ("own", "folder", "name"),
    [
        pytest.param("/opt/v/bin/gdr", ROOT, "gdr", id="installed"),
        pytest.param("/any/invoke", ROOT, "./invokew", id="checkout"),
        pytest.param("/any/invoke", ROOT / "docs", "../invokew", id="below"),
        pytest.param("/any/invoke", Path("/"), str(ROOT / "invokew")[1:], id="above"),
        pytest.param("/any/invoke", Path("/usr/lib"), str(ROOT / "invokew"), id="elsewhere"),
        pytest.param("/a/toolkit/cli/__main__.py", ROOT, "python -m toolkit.cli", id="module"),
        pytest.param("/a/gdr_toolkit/__main__.py", ROOT, "python -m gdr_toolkit", id="package"),
        pytest.param("./gdr.pyz", ROOT, "./gdr.pyz", id="one-file"),
    ],
)
def test_a_program_is_named_as_it_can_be_called_from_here(
    own: str, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [own, "plan"])
    monkeypatch.chdir(folder)
    assert program() == name


def test_without_a_checkout_the_program_is_not_its_wrapper(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["/any/invoke", "plan"])
    monkeypatch.setattr("toolkit.package_data.PACKAGE", tmp_path / "toolkit")
    assert program() == "invoke"
