"""What was asked of the verb ``build`` is done, or said to be impossible."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest
from invoke.context import Context
from invoke.exceptions import Exit

from toolkit.built.plan.model import Part
from toolkit.cli.options import Said
from toolkit.compat.reader import Confidence
from toolkit.errors import (
    BecomeError,
    ExitCode,
    Outcome,
    TransportError,
    Unsupported,
    UsageError,
)
from toolkit.features.builds import cli as building
from toolkit.features.builds import cli_packages as packages
from toolkit.features.builds.cli import build
from toolkit.features.builds.io.package_tools import pack_rpm
from toolkit.features.builds.io.sandbox import read_ground
from toolkit.features.builds.plan.graph import BuildGraph
from toolkit.features.builds.plan.outcome import BuildRun, Need, NeedGraph
from toolkit.features.builds.plan.preflight import CompileAnswer, Outlook, Preflight, Reason
from toolkit.features.builds.run.places import BuildPlace
from toolkit.features.builds.run.run import NodeNeeds, Surveyed
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.verbs.access import Access

NEED = Need(("6.1.0-49-amd64",), "535.261.03", "inbox", ("gpu001",), "x86_64")
GONE = TransportError("gpu002: it does not answer", hint="is it on?")
PREFLIGHT = json.loads((Path(__file__).parents[3] / "docs/preflight.schema.json").read_text())


class Verb:
    """The verb, over two nodes of which one is out of reach, and a place that builds nothing."""

    def __init__(self) -> None:
        self.heard: list[Access] = []  # by whom nodes were asked
        self.needs: list[Need] = []
        self.reached = 0  # how often the operator was asked how

    def run(self, **values: str | int | bool) -> ExitCode:
        try:
            build(Context(), **values)
        except Exit as ended:
            return ExitCode(ended.code)
        return ExitCode.OK

    def access(self, said: Said) -> Access:
        self.reached += 1
        return Access(hosts=said.text("hosts"), hosts_file=said.text("hosts_file"))

    @contextmanager
    def fleet(self, access: Access) -> Iterator[Access]:
        self.heard.append(access)
        yield access

    def ask(self, *_: object, **__: object) -> list[Outcome[NodeNeeds]]:
        return [Outcome("gpu001", NodeNeeds((NEED,))), Outcome("gpu002", error=GONE)]

    @contextmanager
    def place(self, *_: object, **__: object) -> Iterator[BuildPlace]:
        yield BuildPlace("here", "", "local", lambda _: pytest.fail("asked"), lambda _: "")

    def graphs(self, _: object, needs: Sequence[Need], *__: object) -> Surveyed:
        self.needs += needs
        works = tuple(NeedGraph(need, BuildGraph((), ())) for need in needs)
        return Surveyed(None, works)  # type: ignore[arg-type] # nothing is built in it


@pytest.fixture
def verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verb:
    made = Verb()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(building, "access", made.access)
    monkeypatch.setattr(building, "open_fleet", made.fleet)
    monkeypatch.setattr(building, "needs_of", made.ask)
    monkeypatch.setattr(building, "open_place", made.place)
    monkeypatch.setattr(building, "graphs_for", made.graphs)
    return made


def test_nodes_named_by_a_file_are_asked_where_a_builder_is_named_too(verb: Verb) -> None:
    assert verb.run(hosts_file="nodes", on="builder", plan=True) is ExitCode.UNREACHABLE
    assert [each.hosts_file for each in verb.heard] == ["nodes"]
    assert verb.needs == [NEED]


def test_an_inventory_beside_a_builder_only_says_where_that_is(verb: Verb) -> None:
    assert verb.run(inventory="hosts.ini", on="builder", plan=True) is ExitCode.OK
    assert verb.heard == []


def test_passwords_are_asked_for_once(verb: Verb) -> None:
    verb.run(hosts="gpu[001-002]", on="builder", plan=True)
    assert verb.reached == 1


def test_a_foretelling_names_the_nodes_that_could_not_be_asked(
    verb: Verb, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that is known will compile, and what the other node needs is not known."""
    sure = Reason(CompileAnswer.WILL, "it did", "a build of ours", Confidence.HIGH)
    outlook = Outlook("6.1.0-49-amd64", Part.PEERMEM, "nvidia-peermem/535", (sure,))
    monkeypatch.setattr(packages, "preflight", lambda *_, **__: Preflight((outlook,)))
    assert verb.run(hosts="gpu[001-002]", check=True) is ExitCode.UNREACHABLE
    said = capsys.readouterr().out
    assert "\n\nerror    gpu002\n         found     it does not answer\n" in said
    assert said.endswith("is it on?\n\n1 will compile\n")
    assert verb.run(hosts="gpu[001-002]", check=True, json=True) is ExitCode.UNREACHABLE
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, PREFLIGHT)
    assert (told["answer"], told["exit_code"]) == ("will compile", 4)
    assert told["errors"][0]["name"] == "gpu002"


def test_a_package_that_could_not_be_made_shows_in_the_document(
    verb: Verb, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise UsageError("it cannot go into a package")

    monkeypatch.setattr(building, "build_in", lambda *_: BuildRun((), ()))
    monkeypatch.setattr(building, "pack_built", refuse)
    assert verb.run(package="deb", json=True) is ExitCode.USAGE
    assert json.loads(capsys.readouterr().out)["exit_code"] == ExitCode.USAGE


def test_where_no_node_could_be_read_that_is_what_is_said(
    verb: Verb, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone: list[Outcome[NodeNeeds]] = [Outcome("gpu002", error=GONE)]
    monkeypatch.setattr(building, "needs_of", lambda *_, **__: gone)
    assert verb.run(hosts="gpu002", plan=True) is ExitCode.UNREACHABLE
    assert "nothing to build: no node is known to need any." in capsys.readouterr().out


def test_rpmbuild_is_not_given_a_folder_that_its_scripts_would_take_apart(tmp_path: Path) -> None:
    for name in ("a b", "50%{nil}", "$(id)"):
        with pytest.raises(UsageError, match="rpmbuild takes no folder of such a name"):
            pack_rpm("", (), tmp_path / name, 1, "x86_64")
        assert list((tmp_path / name).iterdir()) == []


class Mute:
    """A ground in which not even a shell can be started."""

    name = "builder"

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        return Result(127, "", "chroot: failed to run command 'env': No such file or directory\n")

    def close(self) -> None:
        """Nothing was opened."""


def test_a_survey_that_could_not_begin_tells_what_the_shell_said() -> None:
    with pytest.raises(Unsupported, match="there: chroot: failed to run command 'env'"):
        read_ground(Mute())


class Refusing(Mute):
    """This machine, for somebody whose sudo asks for a password."""

    def __init__(self, *, hearing: object = None) -> None:
        pass

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        raise BecomeError("localhost: sudo wants a password", hint="add --ask-become-pass")


def test_who_is_not_root_here_is_told_what_helps_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build of this machine runs in processes of its own, which are given no password."""
    monkeypatch.setattr("toolkit.features.builds.io.sandbox.LocalTransport", Refusing)
    with pytest.raises(BecomeError, match="localhost: sudo wants a password") as here:
        read_ground()
    assert here.value.hint.startswith("run it by sudo")
    with pytest.raises(BecomeError) as there:
        read_ground(Refusing())
    assert there.value.hint == "add --ask-become-pass"
