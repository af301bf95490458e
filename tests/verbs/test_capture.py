"""What capture writes of each node, and what it says of evidence that was cut off."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.evidence.build import node
from tests.invoked import here
from tests.replay import ReplayTransport
from tests.unit.planning import TRANSLATED
from toolkit import progress
from toolkit.errors import ExitCode, TransportError, Unwritten, UsageError
from toolkit.evidence import Evidence
from toolkit.hosts.host import Host
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.cli import capture as verb
from toolkit.verbs.cli.capture import capture_nodes

CUT = Evidence(dict(list(node().frames.items())[:20]), complete=False)
AWAY = Evidence()
ILL = node(TRANSLATED)
NAMED = node({"hostname": "one.cluster\n"})


def fleet(**nodes: Evidence) -> Fleet:
    """A fleet whose nodes answer with this evidence; one without any is away."""

    def connect(host: Host) -> ReplayTransport:
        if not nodes[host.name].frames:
            raise TransportError(f"{host.name}: away", hint="switch it on")
        return ReplayTransport(host.name, nodes[host.name])

    return Fleet(tuple(Host(name) for name in nodes), connect, Access())


Capture = Callable[..., tuple[int, str]]


@pytest.fixture
def capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Capture:
    """The verb, on these nodes, in a folder of its own: the code, and what it says of them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def run(*words: str, **nodes: Evidence) -> tuple[int, str]:
        monkeypatch.setattr(verb, "fleet", lambda _: nullcontext(fleet(**nodes)))
        named = ("--hosts", ",".join(nodes)) if nodes else ()
        return here(monkeypatch, "capture", *named, *words), capsys.readouterr().out

    return run


def test_each_file_is_named_and_a_cut_or_silent_node_counts(capture: Capture) -> None:
    code, out = capture("--out", "new", whole=node(), cut=CUT, away=AWAY)
    assert code == ExitCode.UNREACHABLE
    assert out.startswith(
        "new/whole.evidence\nnew/cut.evidence (cut off: what is missing is unknown)\nerror"
    )
    assert "switch it on" in out
    assert sorted(each.name for each in Path("new").iterdir()) == ["cut.evidence", "whole.evidence"]
    assert Path("new/whole.evidence").stat().st_mode & 0o777 == 0o600
    assert capture("--out", "new", whole=node()) == (ExitCode.OK, "new/whole.evidence\n")
    assert capture("--out", "new", cut=CUT)[0] == ExitCode.UNREACHABLE


def test_scrubbed_files_are_numbered_by_the_place_of_their_node(capture: Capture) -> None:
    code, out = capture("--scrub", "--out", "new", one=NAMED, away=AWAY, two=node())
    assert code == ExitCode.UNREACHABLE
    assert out.split("\n")[:2] == ["new/node001.evidence", "new/node003.evidence"]
    assert "one.cluster" not in Path("new/node001.evidence").read_text()
    Path("dmesg").write_text("[    0.000000] Linux version 6.8.0-45-generic dmesg\n")
    words = ("--import", "dmesg=dmesg", "--out")
    assert capture("--scrub", *words, "loose")[1] == "loose/node001.evidence\n"
    assert Path("loose/node001.evidence").read_text().count("Linux version") == 1
    assert capture(*words, "loose")[1] == "loose/dmesg.evidence\n"
    told = json.loads(capture(*words, "loose", "--json")[1])
    assert [each["written"] for each in told["hosts"]] == [["loose/dmesg.evidence"]]
    capture(*words[:2], "--incident", "t.tar.gz", "--scrub")
    with tarfile.open("t.tar.gz") as tar:
        text = tar.extractfile("evidence/node001.evidence").read().decode()  # type: ignore[union-attr] # it is a file
    assert "generic dmesg\n" in text, "the name of a file is no node's"


@pytest.mark.parametrize("scrubbed", [True, False])
def test_progress_tells_that_nodes_are_captured(tmp_path: Path, scrubbed: bool) -> None:
    class Titled(progress.Silent):
        def begin(self, title: str, total: int) -> None:
            begun.append((title, total))

    begun: list[tuple[str, int]] = []
    known = replace(fleet(one=node(), two=node()), access=Access(progress=Titled()))
    capture_nodes(known, tmp_path / "out", scrubbed=scrubbed)
    assert begun == [("capturing", 2)]


@pytest.mark.parametrize("scrubbed", [True, False])
def test_an_incident_has_every_node_and_its_code_is_of_those_out_of_reach(
    capture: Capture, scrubbed: bool
) -> None:
    Path("site.toml").write_text("# of one.cluster\nofed = 'inbox'\n")
    scrub = ("--scrub",) * scrubbed
    words = ("--incident", "t.tar.gz", "--site", "site.toml", *scrub)
    code, out = capture(*words, **{"one.cluster": NAMED, "away": AWAY})
    assert code == ExitCode.UNREACHABLE
    assert out.startswith("t.tar.gz\nerror")
    names = ("node001", "node002") if scrubbed else ("one.cluster", "away")
    with tarfile.open("t.tar.gz") as tar:
        texts = {name: tar.extractfile(name).read().decode() for name in tar.getnames()}  # type: ignore[union-attr] # all are files
    assert f"evidence/{names[0]}.evidence" in texts
    told = json.loads(texts["report.json"])
    assert ([each["name"] for each in told["hosts"]], told["exit_code"]) == ([*names], 4)
    assert [bool(each["verdicts"]) for each in told["hosts"]] == [True, False]
    assert told["verb"] == "doctor", "which would say the same of it"
    assert texts["site.toml"].endswith("\nofed = 'inbox'\n")
    assert " --site site.toml\n" in texts["about.txt"]
    assert ("one.cluster" in "".join(texts.values())) is not scrubbed
    assert ("away:" in texts["report.json"]) is not scrubbed
    code, _ = capture("--incident", "u.tar.gz", *scrub, **{"one.cluster": ILL})
    assert code == ExitCode.OK, "whatever ails it"
    with tarfile.open("u.tar.gz") as tar:
        assert "site.toml" not in tar.getnames()
        about = tar.extractfile("about.txt").read().decode()  # type: ignore[union-attr] # likewise
    assert "--site" not in about


@pytest.mark.parametrize("scrubbed", [True, False])
def test_a_folder_that_takes_nothing_is_refused_and_a_file_costs_one_node(
    tmp_path: Path, scrubbed: bool
) -> None:
    (out := tmp_path / "out").mkdir()
    (out / ("node001.evidence" if scrubbed else "a.evidence")).mkdir()
    away, found = capture_nodes(fleet(a=node(), b=node()), out, scrubbed=scrubbed)
    assert isinstance(away.error, Unwritten)
    assert found.value is not None
    with pytest.raises(UsageError, match="File exists") as why:
        capture_nodes(fleet(a=node()), found.value.file, scrubbed=scrubbed)
    assert "--out DIR" in why.value.hint


@pytest.mark.parametrize("scrubbed", [False, True])
def test_evidence_that_was_cut_off_is_kept_and_told_from_whole(
    tmp_path: Path, scrubbed: bool
) -> None:
    outcomes = capture_nodes(fleet(whole=node(), cut=CUT), tmp_path / "out", scrubbed=scrubbed)
    told = {each.host: each.get() for each in outcomes}
    assert {name: each.complete for name, each in told.items()} == {"whole": True, "cut": False}
    for each in told.values():
        assert Evidence.parse(each.file.read_text()).complete is each.complete
