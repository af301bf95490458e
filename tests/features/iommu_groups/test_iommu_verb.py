"""The verb iommu: who is asked, who is changed, what is told of each node and of all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from invoke.context import Context
from invoke.exceptions import Exit
from msgspec.structs import replace

from tests.features.iommu_groups.test_iommu_runtime import GPU, HCA, node
from toolkit.cli.options import Said
from toolkit.errors import ApplyError, ExitCode, TransportError
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.pci.iommu import Domain
from toolkit.facts.pci.iommu_groups import Domains
from toolkit.features.iommu_groups import cli
from toolkit.features.iommu_groups import io as reach
from toolkit.features.iommu_groups import run as flow
from toolkit.features.iommu_groups.cli import iommu
from toolkit.features.iommu_groups.io import GroupsChanged
from toolkit.hosts.host import Host
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.verbs.access import Access, Fleet

IDENTITY, DMA_FQ = Domain.IDENTITY, Domain.DMA_FQ
READY, SAME, REFUSED = node(), node(domain=IDENTITY), node(HCA, GPU)
BEFORE = replace(node(domain=IDENTITY), before={HCA.address: "DMA-FQ"})
NONE = replace(node(), groups=())


@dataclass(frozen=True)
class Wire:
    name: str

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        raise AssertionError(script)

    def close(self) -> None: ...


@dataclass
class Site:
    """Some nodes, what each is found to be, and what is asked of them."""

    nodes: dict[str, Domains | TransportError]
    comes: str = "identity"  # the domain that a group has after it was changed
    local: bool = False
    demo: bool = False
    asked: list[str] = field(default_factory=list)

    def ask(self, transport: Wire) -> Evidence:
        found = self.nodes[transport.name]
        self.asked.append(f"look {transport.name}")
        if isinstance(found, TransportError):
            raise found
        return Evidence({"name": Frame("name", State.OK, "x", transport.name)}, complete=True)

    def parse(self, evidence: Evidence) -> Domains:
        found = self.nodes[evidence.text("name")]
        assert isinstance(found, Domains)
        return found

    def change(self, transport: Wire, text: str) -> GroupsChanged:
        self.asked.append(f"{transport.name}: {text}")
        return GroupsChanged(("echo: done",), f"12 {self.comes} yes 0000:19:00.0 0x020700 - - 0\n")

    @contextmanager
    def fleet(self, _: Said) -> Iterator[Fleet]:
        access = Access(transport="local" if self.local else "paramiko")
        hosts = tuple(Host(name) for name in self.nodes)
        yield Fleet(hosts, lambda host: Wire(host.name), access, demo=self.demo)

    def run(self, *, dry: bool = False, **values: str | bool) -> ExitCode:
        context = Context()
        context.config.run.dry = dry
        told = {"hosts": ",".join(self.nodes), "to": "identity", **values}
        try:
            iommu(context, **told)
        except Exit as ended:
            return ExitCode(ended.code)
        return ExitCode.OK


def of(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *found: Domains | TransportError,
    **more: object,
) -> Site:
    names = [f"gpu{number}" for number in range(1, len(found) + 1)]
    site = Site(dict(zip(names, found, strict=True)), **more)  # type: ignore[arg-type] # as the rows have them
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(cli, "fleet", site.fleet)
    monkeypatch.setattr(reach, "ask", site.ask)
    monkeypatch.setattr(reach, "change", site.change)
    monkeypatch.setattr(
        reach, "change_script", lambda look, words, s, _: f"{look.text('name')} {words} {s}"
    )
    monkeypatch.setattr(flow, "parse_domains", site.parse)
    return site


WORD = "12/identity/0000:19:00.0=mlx5_core"


def test_what_is_ready_is_changed_and_what_is_not_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = TransportError("gpu5: no route", hint="is it on?")
    site = of(monkeypatch, tmp_path, READY, SAME, REFUSED, NONE, gone)
    assert site.run(yes=True) is ExitCode.STOPPED
    assert sorted(site.asked) == [
        f"gpu1: gpu1 ['{WORD}'] 60",
        *(f"look gpu{number}" for number in range(1, 6)),
    ]
    told = capsys.readouterr()
    lines = told.out.split("\n")
    assert lines[:4] == [
        "gpu1",
        "  group 12   changed      DMA-FQ -> identity",
        "         devices   0000:19:00.0 (mlx5_core)",
        "         did       echo: done",
    ]
    assert lines[5:8] == [
        "gpu2",
        "  group 12   as wanted    identity",
        "         devices   0000:19:00.0 (mlx5_core)",
    ]
    assert lines[9:11] == ["gpu3", "  group 12   refused      DMA-FQ -> identity"]
    assert "         because   " in told.out
    assert "  nothing to change: no IOMMU group of an HCA" in told.out
    assert told.out.split("\n")[-4:-1] == [
        "error    gpu5",
        "         found     no route",
        "         next      is it on?",
    ]
    assert "kept in" in told.err


@pytest.mark.parametrize(
    ("found", "code"),
    [
        pytest.param(READY, ExitCode.PENDING, id="would-change"),
        pytest.param(SAME, ExitCode.OK, id="as-wanted"),
        pytest.param(REFUSED, ExitCode.STOPPED, id="refused"),
    ],
)
def test_a_look_changes_nothing_and_says_what_would(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    found: Domains,
    code: ExitCode,
) -> None:
    site = of(monkeypatch, tmp_path, found)
    for dry, values in ((False, {"check": True}), (True, {})):
        assert site.run(dry=dry, **values) is code
        assert ("would change " in capsys.readouterr().out) is (found is READY)
    assert site.asked == ["look gpu1"] * 2


@pytest.mark.parametrize(
    ("found", "demo"),
    [
        pytest.param(READY, False, id="asked"),
        pytest.param(READY, True, id="not-of-a-demo"),
        pytest.param(SAME, False, id="not-of-nothing"),
    ],
)
def test_the_operator_is_asked_before_a_node_is_changed(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    found: Domains,
    demo: bool,
) -> None:
    site = of(monkeypatch, tmp_path, found, SAME, demo=demo)
    asked = found is READY and not demo
    assert site.run() is (ExitCode.USAGE if asked else ExitCode.OK)
    changed = [f"gpu1: gpu1 ['{WORD}'] 60"] if demo else []
    assert [each for each in site.asked if "look" not in each] == changed
    assert ("nobody to ask" in capsys.readouterr().err) is asked


def test_a_group_that_has_not_what_it_was_given_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = of(monkeypatch, tmp_path, READY, comes="DMA-FQ")
    assert site.run(yes=True) is ApplyError("x").exit_code
    assert "another domain than they were given: 12: DMA-FQ" in capsys.readouterr().out


def test_machines_are_told_the_steps_and_the_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = of(monkeypatch, tmp_path, READY, SAME, TransportError("gpu3: no route"))
    site.run(yes=True, json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["verb"], told["exit_code"]) == ("iommu", ExitCode.UNREACHABLE.value)
    assert [each["steps"] for each in told["hosts"]] == [["echo: done"], [], []]
    assert [bool(each["error"]) for each in told["hosts"]] == [False, False, True]


def test_undoing_gives_what_it_had_and_asks_for_no_domain(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site = of(monkeypatch, tmp_path, BEFORE, comes="DMA-FQ")
    assert site.run(undo=True, to="odd", yes=True) is ExitCode.OK
    assert site.asked[1:] == [f"gpu1: gpu1 ['{WORD.replace('identity', 'DMA-FQ')}'] 60"]


def test_a_domain_that_nobody_may_ask_for_is_refused_before_a_node_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = of(monkeypatch, tmp_path, READY)
    for to in ("odd", "blocked", "unmanaged"):
        assert site.run(to=to) is ExitCode.USAGE
    assert site.asked == []
    assert "one of identity, DMA, DMA-FQ" in capsys.readouterr().err


@pytest.mark.parametrize("local", [True, False])
def test_which_groups_are_meant_and_whether_a_session_by_ssh_is_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, local: bool
) -> None:
    site = of(monkeypatch, tmp_path, READY, local=local)
    heard: list[object] = []

    def switches(*told: object, **more: object) -> tuple[()]:
        heard.extend([*told[1:], more])
        return ()

    monkeypatch.setattr(flow, "switches", switches)
    site.run(to="DMA", device="0000:19:00.0,,0000:AB:00.0", check=True)
    assert heard == [Domain.DMA, ("0000:19:00.0", "0000:ab:00.0"), {"ssh": not local}]
    monkeypatch.setattr(flow, "back", switches)
    heard.clear()
    site.run(undo=True, check=True)
    assert heard == [{"ssh": not local}]
