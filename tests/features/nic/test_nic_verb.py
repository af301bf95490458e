"""The verb nic: what is looked at, written on consent, read again and taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from invoke.context import Context
from invoke.exceptions import Exit

from tests.features.iommu_groups.test_reach_domains import ok
from tests.features.iommu_groups.test_reach_domains import said as answering
from tests.features.nic.cards import FIRST, SECOND, NicTree
from toolkit.cli.options import Said
from toolkit.errors import ExitCode, StaleError, TransportError
from toolkit.evidence import Frame, State
from toolkit.features.nic import cli
from toolkit.features.nic.cli import nic
from toolkit.features.nic.io import failed, write
from toolkit.hosts.host import Host
from toolkit.rollout.history import read_run
from toolkit.rollout.journal import About, Journal, stamp
from toolkit.rollout.plan.batches import Phase
from toolkit.verbs.access import Access, Fleet
from toolkit.want import Want

SCHEMA = Path(__file__).parents[3] / "docs/nic.schema.json"


@dataclass
class Site:
    """Some nodes, and what the verb is told."""

    nodes: dict[str, NicTree]
    runs: Path
    values: dict[str, str | bool] = field(default_factory=dict)
    gone: str = ""  # the one that is out of reach

    @contextmanager
    def fleet(self, _: Said) -> Iterator[Fleet]:
        yield Fleet(tuple(Host(name) for name in self.nodes), self.connect, Access())

    def connect(self, host: Host) -> NicTree:
        if host.name == self.gone:
            raise TransportError(f"{host.name}: no route")
        return self.nodes[host.name]

    def run(self, *, dry: bool = False, **values: str | bool) -> ExitCode:
        context = Context()
        context.config.run.dry = dry
        told: dict[str, str | bool] = {"hosts": ",".join(self.nodes), "role": "bare-metal"}
        told |= {"profile": "auto", "yes": True, **values}
        try:
            nic(context, **told)
        except Exit as ended:
            return ExitCode(ended.code)
        return ExitCode.OK

    @property
    def newest(self) -> str:
        """The id of the newest run with a journal."""
        return sorted(each.parent.name for each in self.runs.glob("*/journal*"))[-1]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    names = ("gpu01", "gpu02")
    nodes = {name: NicTree(tmp_path / name, name=name) for name in names}
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = Site(nodes, tmp_path / "state/gdr-toolkit/runs")
    monkeypatch.setattr(cli, "fleet", found.fleet)
    return found


def written(site: Site) -> list[str]:
    return [line for node in site.nodes.values() for line in node.asked if " set " in line]


def test_a_look_tells_what_role_and_site_want_and_writes_nothing(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site.run() is ExitCode.FAILED
    out = capsys.readouterr().out
    assert "gpu[01-02]" in out
    assert f"\n  {FIRST} ConnectX7\n" in out
    assert "ATS_ENABLED                    True(1)              wanted 0" in out
    assert "Broadcom" in out
    assert not written(site)


def test_a_plan_writes_nothing_and_says_how_it_is_written(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site.run(set="profile") is ExitCode.PENDING
    told = capsys.readouterr()
    assert "would be 0" in told.out
    assert "write it with --apply" in told.err
    assert not written(site)
    assert site.run(set="profile", apply=True, dry=True) is ExitCode.PENDING
    assert not written(site)


def test_what_is_written_is_read_again_kept_and_told_to_wait_for_a_cold_boot(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site.run(set="ATS_ENABLED=off", apply=True) is ExitCode.PENDING
    for node in site.nodes.values():
        assert {node.next(card, "ATS_ENABLED") for card in (FIRST, SECOND)} == {"0"}
    told = capsys.readouterr()
    assert f"wrote {FIRST} ATS_ENABLED: 1 -> 0" in told.out
    assert "cold boot" in told.out
    assert "--undo" in told.err
    events = read_run(site.runs, site.newest).story.events
    order = [each.phase for each in events if each.host == "gpu01"]
    assert order.index("kept") < order.index(Phase.APPLYING.value)


def test_an_undo_of_a_host_that_the_run_did_not_touch_is_refused(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    later = site.nodes.pop("gpu02")
    site.run(set="ATS_ENABLED=off", apply=True)
    site.nodes["gpu02"] = later
    assert site.run(undo=site.newest, apply=True) is ExitCode.USAGE
    assert "wrote nothing on gpu02" in capsys.readouterr().err
    assert site.nodes["gpu01"].next(FIRST, "ATS_ENABLED") == "0"


def test_an_undo_puts_back_what_there_was(site: Site) -> None:
    site.run(set="ATS_ENABLED=off", apply=True)
    run = site.newest
    assert site.run(undo=run) is ExitCode.PENDING
    assert site.run(undo=run, apply=True) is ExitCode.OK
    assert site.nodes["gpu01"].next(FIRST, "ATS_ENABLED") == "1"


def test_a_tool_that_refuses_ends_with_its_words_and_five(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in site.nodes.values():
        node.put("refuses", "")
    assert site.run(set="ATS_ENABLED=off", apply=True) is ExitCode.STOPPED
    assert "Operation not permitted" in capsys.readouterr().out


def test_a_tool_that_says_done_and_wrote_nothing_is_not_believed(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in site.nodes.values():
        node.put("forgets", "")
    assert site.run(set="ATS_ENABLED=off", apply=True) is ExitCode.STOPPED
    assert "was written, and is not there" in " ".join(capsys.readouterr().out.split())


def test_a_node_out_of_reach_is_told_and_the_others_are_written(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.gone = "gpu02"
    done = site.run(set="ATS_ENABLED=off", apply=True, json=True)
    assert done is ExitCode.UNREACHABLE
    told = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in told["hosts"]] == ["gpu01"]
    assert [each["error"] for each in told["errors"]] == ["gpu02: no route"]
    assert site.nodes["gpu01"].next(FIRST, "ATS_ENABLED") == "0"
    assert site.nodes["gpu02"].next(FIRST, "ATS_ENABLED") == "True(1)"


def test_where_nothing_is_to_be_written_nobody_is_asked_and_no_undo_is_offered(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site.run(set="ATS_ENABLED=on", apply=True, yes=False) is ExitCode.OK
    assert "--undo" not in capsys.readouterr().err
    assert not written(site)


@pytest.mark.parametrize(("verb", "said"), [("provision", "was provision"), ("nic", "wrote no")])
def test_an_undo_is_of_a_run_of_nic_that_wrote_something(
    verb: str, said: str, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    Journal.create(site.runs / "run1", About(verb, "op@here", stamp())).close()
    assert site.run(undo="run1", apply=True) is ExitCode.USAGE
    assert said in capsys.readouterr().err


def test_a_node_that_is_not_as_it_was_judged_or_breaks_off_is_an_error() -> None:
    with pytest.raises(StaleError, match="what its HCAs say has changed"):
        write(answering(ok("expect", state=State.FAILED)), "")
    with pytest.raises(TransportError, match="the script broke off, with status 3"):
        write(answering(ok("set-0000:19:00.0"), exit_=3, complete=False), "")


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (Frame("set-x", State.OK, "x", "-E- no matter\n"), ""),
        (Frame("set-x", State.FAILED, "x", "-I- read\n-E- one\n-E- no right \n", 1), "no right"),
        (Frame("set-x", State.TIMEOUT, "mlxconfig", "-I- read\n"), "mlxconfig: no answer"),
    ],
)
def test_a_tool_that_did_not_write_says_why_in_its_last_error(frame: Frame, why: str) -> None:
    assert failed(frame).startswith(why)
    assert bool(failed(frame)) is bool(why)


def test_the_document_keeps_its_schema(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.run(set="profile", json=True)
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    assert {each["name"] for each in told["hosts"][0]["edits"]} == {"ATS_ENABLED"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"apply": True}, "--apply without --set"),
        ({"set": "profile", "undo": "x"}, "one of them"),
        ({"set": "MAGIC=1"}, "no setting"),
        ({"role": "king"}, "--role 'king'"),
        ({"undo": "no-such-run"}, "no-such-run"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_node_is_asked(
    values: dict[str, Any], said: str, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site.run(**values) is ExitCode.USAGE
    assert said in capsys.readouterr().err
    assert not site.nodes["gpu01"].asked


def test_a_site_names_its_own_settings(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text('[nic]\nLINK_TYPE = "eth"\nMAX_ACC_OUT_READ = 128\n')
    assert dict(Want.load("auto", site=file).nic) == {"LINK_TYPE": 2, "MAX_ACC_OUT_READ": 128}
