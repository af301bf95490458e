"""A run of a verb: how nodes are reached, what is wanted of them, what is left behind."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.evidence.build import node
from tests.unit.judged import HEALTHY, SICK
from toolkit.checks.all import BY_ID
from toolkit.checks.selection import selection
from toolkit.cli.options import Said
from toolkit.errors import ExitCode, Outcome, TransportError, Unwritten, UsageError
from toolkit.hosts.host import Host, Inventory
from toolkit.node.collect import Register
from toolkit.progress import Silent
from toolkit.report.document import ReportRun, Told
from toolkit.ssh.credentials import Credentials
from toolkit.ssh.limits import ROOM_S
from toolkit.verbs.access import Access, demo_folder
from toolkit.verbs.cli import session as module
from toolkit.verbs.cli.session import Session, access, refuse_inside
from toolkit.verbs.inside import opened_inside
from toolkit.want import PeerPath, Want

Words = dict[str, str | int | bool]
Begin = Callable[..., Session]
TOLD: list[Outcome[Told]] = [
    Outcome("gpu001", Told(judged=HEALTHY)),
    Outcome("gpu002", Told(judged=SICK)),
    Outcome("gpu003", error=TransportError("gpu003: away")),
]


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """A run of doctor, or of another verb, that was told this."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def begun(verb: str = "doctor", **words: str | int | bool) -> Session:
        return Session.begin(verb, Said({"profile": "peermem", **words}))

    return begun


def test_nodes_are_reached_as_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "read_secret", lambda what, **_: f"secret of {what}")
    words: Words = {
        "hosts": "a", "exclude": "b", "limit": "c", "inventory": "d", "hosts_file": "e",
        "user": "f", "key": "g", "ssh_config": "h", "transport": "openssh", "become": True,
        "wrapper": True, "ask_pass": True, "become_pass_fd": 7, "fanout": "5", "max_fail": "6",
        "yes": True, "quiet": True, "via": "slurm", "job_timeout": "9", "register": True,
        "libibverbs": "/l",
    }  # fmt: skip
    found = access(Said(words))
    assert found == Access(
        "a", "b", "c", "d", "e", "f", "g", "h", "openssh",
        wrapped=True, credentials=Credentials("secret of login password: ", "secret of 7"),
        fanout=5, max_fail="6", yes=True, progress=found.progress, via="slurm",
        register=Register("/l"), jobs_s=9.0,
    )  # fmt: skip
    assert isinstance(found.progress, Silent)
    other: Words = {
        "pass_fd": 0,
        "ask_become_pass": True,
        "inside": "docker:train",
        "register": True,
    }
    found = access(Said(other))
    assert found == Access(
        become=False,
        credentials=Credentials("secret of 0", "secret of sudo password: "),
        progress=found.progress,
        jobs_s=float(int(ROOM_S)),
        inside=opened_inside("docker:train"),
        register=Register(""),
    )
    assert not isinstance(found.progress, Silent)


def test_a_fleet_is_opened_by_it_and_simulated_nodes_are_served_but_where_none_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def open_fleet(way: Access, *, serve: bool) -> AbstractContextManager[str]:
        return nullcontext(f"{way.hosts} {way.bmc} {serve}")

    monkeypatch.setattr("toolkit.verbs.connect.open_fleet", open_fleet)
    monkeypatch.setattr("toolkit.cli.bmc.bmc_access", lambda said: said.text("bmc_user"))
    said = Said({"hosts": "gpu1", "bmc_user": "ops"})
    with module.fleet(said) as first, module.fleet(said, serve=False) as second:
        assert (str(first), str(second)) == ("gpu1 ops True", "gpu1 ops False")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"libibverbs": "/l"}, "--libibverbs is for a registration"),
        ({"inside": "docker:x", "wrapper": True}, "--inside needs more than gdr-node may do"),
        ({"inside": "image:/x", "register": True}, "--register runs a program"),
        ({"inside": "nowhere:x"}, "nowhere"),
    ],
)
def test_what_no_node_can_be_asked_for_is_refused(words: Words, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        access(Said(words))


def test_who_asks_no_host_looks_into_none() -> None:
    refuse_inside(Said({}), "no host is asked")
    with pytest.raises(UsageError, match="--inside: no host is asked") as why:
        refuse_inside(Said({"inside": "docker:x"}), "no host is asked", "name one")
    assert why.value.hint == "name one"


def test_libraries_that_were_said_stand_in_place_of_the_sites(begin: Begin, tmp_path: Path) -> None:
    (site := tmp_path / "site.toml").write_text('[consumers]\nnccl = "2.20"\nucx = "1.15"\n')
    said = begin(site=str(site), nccl_version="2.27")
    plain = dict(begin(site=str(site)).want().consumers)
    assert sorted(plain) == ["nccl", "ucx"]
    found = dict(said.want().consumers)
    assert (found["nccl"] > plain["nccl"], found["ucx"]) == (True, plain["ucx"])
    with pytest.raises(UsageError, match="--ucx-version: ") as why:
        begin(ucx_version="new").want()
    assert "--ucx-version 2.27" in why.value.hint


@pytest.mark.parametrize(
    ("words", "demanded", "looked"),
    [
        ({}, (False, ""), []),
        ({"passport": True}, (True, ""), []),
        ({"passport_key": "k"}, (True, "k"), [Path("k")]),
    ],
)
def test_a_key_demands_a_passport_and_is_looked_at_first(
    begin: Begin,
    monkeypatch: pytest.MonkeyPatch,
    words: Words,
    demanded: tuple[bool, str],
    looked: list[Path],
) -> None:
    seen: list[Path] = []
    monkeypatch.setattr("toolkit.verbs.passport.known_key", seen.append)
    want = begin(**words).want()
    assert ((want.passport, want.passport_key), seen) == (demanded, looked)


WAIVER = 'check = "rdma.{}"\nreason = "x"\nuntil = 2999-01-31\n'


@pytest.mark.parametrize("table", ["[[waivers]]\n", '[[group]]\nhosts = "a"\n[[group.waivers]]\n'])
def test_a_waiver_of_no_check_is_refused_whoever_has_it(
    begin: Begin, tmp_path: Path, table: str
) -> None:
    (site := tmp_path / "site.toml").write_text(table + WAIVER.format("mtu"))
    assert begin(site=str(site)).want().checks == selection("", "")
    site.write_text(table + WAIVER.format("mtv"))
    with pytest.raises(UsageError, match=r"rdma\.mtv"):
        begin(site=str(site)).want()


@pytest.mark.parametrize("via", ["", "slurm"])
def test_groups_of_hosts_are_those_of_the_inventory_and_of_slurm(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, via: str
) -> None:
    def inventory_of(site: object, own: Inventory) -> Inventory:
        assert site == "a site"
        hosts = {**own.hosts, "gpu9": Host("gpu9")}
        return replace(own, hosts=hosts, groups={"train": ("gpu1", "gpu9")})

    monkeypatch.setattr("toolkit.features.slurm.run.nodes.inventory_of", inventory_of)
    monkeypatch.setattr("toolkit.features.slurm.run.nodes.open_site", lambda _: "a site")
    (tmp_path / "hosts.ini").write_text("[train]\ngpu1\n[rest]\ngpu2\n")
    (site := tmp_path / "site.toml").write_text('[[group]]\nhosts = "@train"\nprofile = "dmabuf"\n')
    wants = begin(site=str(site), inventory=str(tmp_path / "hosts.ini"), via=via).wants()
    paths = {host: wants.of(host).path for host in ("gpu1", "gpu2", "gpu9")}
    assert [host for host, path in paths.items() if path is PeerPath.DMABUF] == [
        "gpu1", *["gpu9"] * bool(via),
    ]  # fmt: skip


@pytest.mark.parametrize(("only", "skip"), [("rdma", ""), ("", "rdma"), ("rdma", "rdma.mtu")])
def test_the_checks_that_are_left_are_those_of_the_want(begin: Begin, only: str, skip: str) -> None:
    assert begin(only=only, skip=skip).wants().common.checks == selection(only, skip)


def test_a_document_stands_alone_and_quiet_is_quiet(
    begin: Begin, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ({}, {"json": True}, {"quiet": True}):
        run = begin(**words)
        run.say("told \udcff")
        run.remark("beside")
    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("told ?\n" * 2, "beside\n" * 2)


@pytest.mark.parametrize("printed", [True, False])
def test_the_document_is_kept_as_it_is_printed(
    begin: Begin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    printed: bool,
) -> None:
    def wanted(profile: str, site: str) -> Want:
        assert (profile, site) == ("auto", "a-site")
        return Want(own=(replace(BY_ID["kernel.version"], id="own.check"),))

    junit = tmp_path / "j"
    run = begin(json=printed, only="kernel", profile="auto", site="a-site", junit=str(junit))
    monkeypatch.setattr(module, "wanted", wanted)
    assert run.finish(TOLD, ExitCode.FAILED, {"more": 1}) is ExitCode.FAILED
    seen = capsys.readouterr()
    kept = (run.folder.path / "report.json").read_text()
    assert seen.out == kept * printed
    assert seen.err == f"kept in {run.folder.path}\n"
    told = json.loads(kept)
    assert (told["verb"], told["profile"], told["exit_code"], told["more"]) == (
        "doctor", "auto", 2, 1,
    )  # fmt: skip
    assert (told["checks"]["only"], told["checks"]["of"]) == (["kernel"], len(BY_ID) + 1)
    assert "gpu002" in junit.read_text()
    assert run.tell(TOLD, ExitCode.FAILED, {"more": 1}) is ExitCode.FAILED
    assert capsys.readouterr().out == kept * printed


def test_a_disk_that_takes_nothing_costs_the_record_and_is_told(
    begin: Begin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin()
    (tmp_path / "state").write_text("no folder\n")
    assert run.finish(TOLD, ExitCode.OK) is ExitCode.OK
    assert capsys.readouterr().err.startswith("note: nothing was kept of this run: ")


@pytest.mark.parametrize("words", [{}, {"from_": "evidence"}])
def test_each_report_that_was_asked_for_is_written_of_the_verdicts(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: Words
) -> None:
    def text(outcomes: Iterable[Outcome[Any]], run: ReportRun) -> str:
        hosts = [(each.host, each.value or str(each.error)) for each in outcomes]
        assert hosts == [("gpu001", HEALTHY), ("gpu002", SICK), ("gpu003", "gpu003: away")]
        seen.append(run)
        return "a report\n"

    seen: list[ReportRun] = []
    for name in ("junit", "sarif", "ctrf"):
        monkeypatch.setattr(f"toolkit.report.{name}.text", text)
    run = begin(junit=str(tmp_path / "j"), ctrf=str(tmp_path / "c"), **words)
    run.folder.keep_evidence("gpu001", node())
    run.reports(TOLD, ExitCode.FAILED)
    assert [(tmp_path / name).read_text() for name in "jc"] == ["a report\n"] * 2
    first, _ = seen
    assert (first.verb, first.code, first.began) == ("doctor", ExitCode.FAILED, run.now)
    assert first.evidence == ("" if words else str(run.folder.path))
    assert first.file_of("gpu001") == "gpu001.evidence"
    run.folder.keep_evidence("gpu001", node(), "after")
    assert first.file_of("gpu001") == "gpu001.after.evidence"
    assert first.file_of("gpu009") == "gpu009.evidence"


class Flushed(io.StringIO):
    """Standard output, which knows what a file had as it was flushed."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file, self.had = file, list[str]()

    def flush(self) -> None:
        self.had.append(self.file.read_text() if self.file.exists() else "")


def test_a_report_is_whole_or_not_there(
    begin: Begin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (place := tmp_path / "reports").mkdir()
    run = begin(junit=str(place / "j"))
    run.said.at_end.close()
    assert list(place.iterdir()) == [], "and nothing is left of one that never came"
    run = begin(junit=str(place / "j"))
    out = Flushed(place / "j")
    monkeypatch.setattr("sys.stdout", out)
    assert [run.deliver("junit", text) for text in ("first", "whole\n")] == [5, 6]
    run.said.at_end.close()
    assert [each.read_text() for each in place.iterdir()] == ["whole\n"]
    assert out.had[:2] == ["", "first"], "what was printed goes before: it may be the same file"
    run = replace(run, said=Said({"junit": str(place / "gone/j")}))
    assert run.deliver("junit", "lost") == 0
    assert capsys.readouterr().err.startswith(f"note: --junit {place}/gone/j was not written: ")

    def unable(_: Path) -> None:
        raise OSError("of no number")

    monkeypatch.setattr(module, "open_beside", unable)
    run.deliver("junit", "lost")
    assert capsys.readouterr().err.endswith(" was not written: of no number\n")


def test_what_out_has_not_got_counts(begin: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    why = Unwritten(Path("out/gpu1"), OSError(28, "No space left on device"))
    assert begin().unwritten(why) is ExitCode.UNKNOWN
    assert capsys.readouterr().err.startswith("note: --out was not written: out/gpu1")


@pytest.mark.parametrize(
    ("xml", "named", "file", "kept"),
    [
        ("<x/>", True, "<x/>", False),
        ("<x/>", False, None, True),
        ("", True, None, False),
        ("", False, None, False),
    ],
)
def test_the_suites_cases_go_where_was_said_else_to_the_run(
    begin: Begin, tmp_path: Path, *, xml: str, named: bool, file: str | None, kept: bool
) -> None:
    run = begin("verify", junit=str(tmp_path / "j") if named else "")
    run.cases(xml)
    run.said.at_end.close()
    place = tmp_path / "j"
    assert (place.read_text() if place.exists() else None) == file
    assert (run.folder.path / "verify.xml").exists() is kept


@pytest.mark.parametrize(
    ("words", "simulated"),
    [
        ({"hosts": "demo"}, True),
        ({"hosts": "gpu1"}, False),
        ({"hosts": "demo", "inventory": "i"}, False),
        ({"hosts": "demo", "hosts_file": "h"}, False),
        ({"hosts": "demo", "via": "slurm"}, False),
        ({"hosts": "demo", "from_": "evidence"}, False),
    ],
)
def test_a_run_on_simulated_nodes_goes_with_them(
    begin: Begin,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: Words,
    simulated: bool,
) -> None:
    run = begin(**words)
    run.folder.settle()
    mark = run.folder.path / "demo"
    assert (mark.read_text() if mark.exists() else "") == f"{demo_folder()}\n" * simulated
    asked: list[object] = []
    for well in (True, False):
        monkeypatch.setattr("toolkit.demo.fleet.put_right", lambda *_, well=well: well)
        run.healed(asked)  # type: ignore[arg-type] # nobody looks into it here
    assert capsys.readouterr().err.count("put right by an earlier run") == simulated


@pytest.mark.parametrize(
    ("out", "tar", "refused"),
    [("new", False, False), ("file", False, True), ("image.tar", True, False),
     ("file/image.tar", True, True), ("gone/image.tar", True, False)],
)  # fmt: skip
def test_a_place_that_takes_nothing_is_refused_before_any_node_is_asked(
    begin: Begin, tmp_path: Path, out: str, tar: bool, refused: bool
) -> None:
    (tmp_path / "file").touch()
    words: Words = {"out": str(tmp_path / out), "tar": "a tar" * tar}
    if refused:
        with pytest.raises(UsageError, match=f"--out {tmp_path / out}: "):
            begin("bundle", **words)
    else:
        begin("bundle", **words)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file"]
