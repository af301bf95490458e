"""The simulated nodes over several runs: put right once, and then all verbs agree on it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.laws import few
from toolkit.cli import Gdr, verbs
from toolkit.cli.options import Said
from toolkit.demo.nodes import catalogue
from toolkit.package_data import from_home
from toolkit.verbs import access
from toolkit.verbs.access import demo_folder, state_dir
from toolkit.verbs.cli.session import Session

LONG = True
NODE = "demo2"  # a small one, whose IOMMU translates
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def gdr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, output and errors of a verb."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*words: str) -> tuple[int, str, str]:
        code = 0
        capsys.readouterr()
        try:
            Gdr(namespace=verbs()).run(["gdr", *words])
        except SystemExit as end:
            code = int(end.code or 0)
        seen = capsys.readouterr()
        return code, seen.out, seen.err

    return run


LOOKING = {("provision", "--check"): 7, ("plan",): 7, ("drift",): 2}  # and its code before


def test_they_are_put_right_by_whoever_runs_it_and_every_verb_says_so(gdr: Run) -> None:
    for words in (looking := few([*LOOKING], 2, "looking")):
        code, out, errors = gdr(*words, "--hosts", NODE)
        assert (code, "earlier run" in errors) == (LOOKING[words], False), out + errors
    code, out, errors = gdr("provision", "--hosts", NODE)
    assert (code, "earlier run" in errors) == (0, False), out + errors
    for words in (("provision",), *looking):
        code, out, errors = gdr(*words, "--hosts", NODE)
        assert code == 0, out + errors
        assert "put right by an earlier run; begin anew: ./invokew demo --reset\n" in errors
    gdr("demo", "--reset")
    code, out, errors = gdr("plan", "--hosts", NODE, "--json")
    assert (code, json.loads(out)["exit_code"]) == (7, 7)
    shown = f"./invokew plan --diff --hosts {NODE} shows them"
    assert errors.splitlines()[-1] == f"exit 7: changes are pending on {NODE}; {shown}"


def test_each_node_is_listed_with_the_set_that_names_it(gdr: Run) -> None:
    code, out, _ = gdr("demo")
    table, _, where = out.partition("\n\n")
    rows = {line.split()[0]: line.endswith("  demo-all only") for line in table.split("\n")}
    assert (code, rows) == (0, {name: not in_demo for name, _, in_demo in catalogue()})
    assert where.startswith(f"they lie in {demo_folder()};")
    assert gdr("demo", "--reset")[:2] == (0, "as they were at first\n")


def test_two_installations_of_one_user_have_nodes_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours = demo_folder()
    monkeypatch.setattr(access, "PACKAGE", tmp_path / "a:b" / "toolkit")
    theirs = demo_folder()
    assert theirs != ours
    assert ours.parent == theirs.parent == state_dir() / "demo"
    assert ":" not in theirs.name  # it becomes part of a PATH


def test_a_folder_that_cannot_be_made_is_one_sentence(
    gdr: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").touch()
    code, out, errors = gdr("doctor", "--hosts", NODE, "--quiet")
    assert (code, out) == (64, "")
    assert errors.startswith(f"error: demo nodes cannot be made in {tmp_path}/state/gdr-toolkit/")
    assert errors.endswith(
        "Not a directory\n"
        " next: set XDG_STATE_HOME to a folder with room, where you may write and run files\n"
    )


def test_a_user_without_home_and_name_has_nodes_of_their_own(
    gdr: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_: int) -> None:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("HOME", "XDG_STATE_HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    code, out, errors = gdr("provision", "--hosts", NODE)
    place = tmp_path / f"gdr-toolkit-{os.geteuid()}"
    assert (code, demo_folder().is_relative_to(place)) == (0, True), out + errors
    assert f"what is kept goes below {place}\n" in errors
    (row,) = json.loads(gdr("runs", "--json")[1])["runs"]
    assert row["who"] == f"{os.geteuid()}@{socket.gethostname()}"
    assert from_home("~/.ssh/config") == Path("~/.ssh/config")


@pytest.mark.parametrize(
    ("said", "ours"),
    [
        pytest.param({"hosts": NODE}, True, id="demo"),
        pytest.param({"hosts": NODE, "from_": "evidence"}, False, id="saved"),
        pytest.param({"hosts": NODE, "inventory": "i"}, False, id="of-an-inventory"),
        pytest.param({"hosts": NODE, "hosts_file": "h"}, False, id="of-a-file"),
        pytest.param({"hosts": NODE, "via": "slurm"}, False, id="of-slurm"),
        pytest.param({"hosts": f"{NODE},gpu1", "via": "slurm"}, False, id="of-slurm-and-others"),
    ],
)
def test_real_nodes_of_such_a_name_are_no_demo(
    said: dict[str, str | int | bool],
    ours: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    journal = demo_folder() / "nodes" / NODE / "tree/var/lib/gdr-toolkit/journal"
    journal.mkdir(parents=True)
    session = Session.begin("provision", Said(said))
    session.folder.keep("seen", "")
    assert (session.folder.path / "demo").exists() is ours
    session.healed([NODE])
    assert ("put right by an earlier run" in capsys.readouterr().err) is ours
