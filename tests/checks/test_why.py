"""``why``: the way from a symptom to its cause, in the words of the evidence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest

from tests.evidence.board import BOARD
from tests.evidence.build import node
from tests.evidence.frames import DENIED
from tests.evidence.machines.held import evidence_of
from tests.invoked import here
from tests.replay import ReplayTransport
from tests.unit.fleets import CAPTURES, TODAY, capture
from tests.unit.planning import TRANSLATED
from toolkit.checks.check import Status
from toolkit.checks.judged import causes, judge_node
from toolkit.checks.why import Matched, Quote, chain, matching, quotes
from toolkit.cli.options import Said
from toolkit.compat.reader import Failure, shipped
from toolkit.errors import ExitCode, Outcome, TransportError
from toolkit.evidence import Evidence, Frame, State
from toolkit.hosts.host import Host, select
from toolkit.report.plan_text import trigger_name
from toolkit.report.why import Answer, _quoted
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.cli import why as verb
from toolkit.verbs.cli.why import asked as asked_about
from toolkit.verbs.cli.why import explained
from toolkit.want import Want

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/why.schema.json").read_text())
KINDS = [path.stem for path in sorted(CAPTURES.glob("*.txt"))]
OPEN = {Status.FAIL, Status.UNKNOWN}
AUTO = Want(path=None)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one ill node."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved/gpu07.evidence").write_text((CAPTURES / "stub.txt").read_text())
    return tmp_path / "saved"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """``why`` in this process: exit code, standard output and standard error."""

    def ran(*words: str) -> tuple[int, str, str]:
        code = here(monkeypatch, "why", *words)
        told = capsys.readouterr()
        return code, told.out, told.err

    return ran


@pytest.mark.parametrize("kind", KINDS)
def test_each_quoted_line_stands_in_its_frame_word_for_word(kind: str) -> None:
    evidence = capture(kind)
    for verdict in judge_node("gpu07", evidence, AUTO, TODAY).verdicts:
        for quote in quotes(evidence, verdict):
            assert quote.frame.key in verdict.cited
            assert set(quote.lines) <= set(quote.frame.text.split("\n"))
            absent = [word for word in quote.lacks if word in quote.frame.text]
            assert not absent, verdict.check.id


@pytest.mark.parametrize("kind", KINDS)
def test_each_way_ends_at_the_cause_whose_block_doctor_shows(kind: str) -> None:
    evidence = capture(kind)
    judged = judge_node("gpu07", evidence, AUTO, TODAY)
    for each in causes(judged):
        for verdict in each.follows:
            links = chain(judged, evidence, verdict.check.id)
            alone = len(links) == 1  # it is not known for the same reason as the cause
            assert alone or links[-1].verdict == each.root
            assert all(link.step is not None and link.step.why for link in links[:-1])
            assert links[-1].step is None


def test_what_a_failure_is_told_by_is_quoted_before_what_stands_beside_it() -> None:
    evidence = node(TRANSLATED)
    judged = judge_node("gpu07", evidence, Want(), TODAY)
    [verdict] = [each for each in judged.verdicts if each.check.id == "iommu.passthrough"]
    [quote] = quotes(evidence, verdict)
    assert quote.frame.key == "iommu-groups"
    assert all(line.endswith(":DMA-FQ") for line in quote.lines)


def test_a_silence_is_told_as_what_was_looked_for() -> None:
    evidence = capture("stub")
    judged = judge_node("gpu07", evidence, AUTO, TODAY)
    first = chain(judged, evidence, "peermem.loaded")[0]
    silent = next(each for each in first.quotes if each.frame.key == "module-state")
    assert (silent.lines, silent.lacks) == ((), ("nvidia-peermem",))


def test_a_source_of_blank_lines_is_told_as_empty() -> None:
    quote = Quote(Frame("dkms-status", State.OK, "dkms status", "\n \n"), ())
    told = next(_quoted(quote, "evidence", ""))
    assert told.endswith("dkms-status: dkms status is empty")


def test_a_frame_that_was_refused_is_evidence_of_what_is_not_known() -> None:
    evidence = node({"pci-config": DENIED}, board=BOARD)
    judged = judge_node("gpu07", evidence, Want(), TODAY)
    [verdict] = [each for each in judged.verdicts if each.check.id == "acs.redirect"]
    states = {each.frame.key: each.frame.state for each in quotes(evidence, verdict)}
    assert states["pci-config"] is State.DENIED


LINES = [
    ("modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument", "peermem.stub"),
    ("modprobe: ERROR: could not insert 'nvidia_peermem': Key was rejected by service",
     "module.signed"),
    ("[   31.683273] nvidia_peermem: disagrees about version of symbol ib_get_peer_client",
     "peermem.crc"),
    ("nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)",
     "peermem.unknown_symbol"),
    ("modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.8.0-64-generic",
     "peermem.file"),
    ("NVRM: Xid (PCI:0000:ca:00): 79, pid=1, name=x, GPU has fallen off the bus.", "gpu.lost"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "check"), LINES, ids=[check for _, check in LINES])
def test_a_line_leads_to_the_check_that_reads_it(line: str, check: str) -> None:
    assert check in matching(line, Evidence(complete=True), AUTO).checks


def test_of_several_lines_each_is_read() -> None:
    copied = "\n".join(f"> {line}" for line, _ in LINES[1:3])
    assert {LINES[1][1], LINES[2][1]} <= set(matching(copied, Evidence(complete=True), AUTO).checks)


def test_of_several_lines_each_is_looked_for_on_the_node(run: Run, saved: Path) -> None:
    evidence = evidence_of("gpu-xid")
    line = next(each for each in evidence.text("dmesg").split("\n") if "Xid" in each)
    matched = matching(f"modprobe: something\n{line}\n", evidence, AUTO)
    assert [(each.frame.key, each.lines) for each in matched.quotes] == [("dmesg", (line,))]
    _, told, _ = run(f"{LINES[0][0]}\n{LINES[5][0]}", "--from", str(saved))
    assert LINES[0][0] in told
    assert "Xid (PCI:0000:ca:00): 79" in told


@pytest.mark.parametrize("about", ["peermem.loaded", LINES[0][0]])
def test_what_is_asked_about_is_no_node_beside_a_file_of_hosts(about: str, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("gpu07\n")
    said, asked = asked_about(Said({"about": about, "hosts_file": str(tmp_path / "hosts")}))
    assert (said.text("hosts"), asked) == ("", about)


def test_a_line_of_this_node_is_shown_where_it_stands() -> None:
    evidence = evidence_of("gpu-xid")
    line = next(each for each in evidence.text("dmesg").split("\n") if "Xid" in each)
    matched = matching(line, evidence, AUTO)
    assert [(each.frame.key, each.lines) for each in matched.quotes] == [("dmesg", (line,))]
    assert "gpu.xid" in matched.checks


def test_a_refusal_leads_to_what_stands_in_the_way_on_this_node(run: Run, saved: Path) -> None:
    (saved / "gpu07.evidence").write_text((CAPTURES / "kernel.txt").read_text())
    code, told, _ = run(LINES[0][0], "--from", str(saved))
    assert code == ExitCode.FAILED
    assert "peermem.loadable  fails" in told
    assert "└─ dkms.state  fails" in told


def test_a_line_that_nobody_reads_leads_nowhere() -> None:
    matched = matching("hello world", capture("healthy"), AUTO)
    assert (matched.checks, matched.row, matched.quotes) == ((), None, ())


def test_a_line_too_short_to_name_anything_is_shown_nowhere() -> None:
    assert matching(" e\n", capture("healthy"), AUTO).quotes == ()


@pytest.mark.parametrize("begins", [LINES[0][0], "y", "peermem.loaded"])
def test_a_very_long_line_is_cut_for_a_person(begins: str, run: Run, saved: Path) -> None:
    line = f"{begins}{'x' * 10_000}.z"
    _, told, said = run(line, "--from", str(saved))
    assert max(map(len, f"{told}{said}".split("\n"))) < 1000
    assert "and 9" in told or "and 10" in told  # so many thousand characters more
    _, told, _ = run(line, "--from", str(saved), "--json")
    assert json.loads(told)["hosts"][0]["line"]["text"] == line


def test_a_very_long_line_of_the_evidence_is_cut_too(run: Run, saved: Path) -> None:
    evidence = capture("stub")
    long = Frame("dmesg", State.OK, "dmesg", f"[1.0] {LINES[3][0]} {'x' * 10_000}\n")
    (saved / "gpu07.evidence").write_text(evidence.plus([long]).dump())
    _, told, _ = run("peermem.unknown_symbol", "--from", str(saved))
    assert LINES[3][0].split()[-2] in told
    assert max(map(len, told.split("\n"))) < 1000


def test_a_check_is_no_node(run: Run, saved: Path) -> None:
    assert saved.is_dir()
    code, _, said = run("peermem.loaded")
    assert code == ExitCode.USAGE
    assert "no hosts named" in said


def test_the_repair_is_what_the_plan_would_do(saved: Path, run: Run) -> None:
    code, told, _ = run("path.selected", "--from", str(saved))
    assert code == ExitCode.FAILED
    plan = explained("gpu07", capture("stub"), AUTO, TODAY).plan
    assert plan is not None
    ours = [each for each in plan.changes if any("peermem.stub" in why for why in each.why)]
    assert ours
    assert all(f"{each.action} {each.path}: " in told for each in ours)
    called = {trigger for each in ours for trigger in each.triggers}
    then = ", ".join(trigger_name(each) for each in plan.triggers if each in called)
    assert f"then {then} " in " ".join(told.split())
    heads = [line.split()[0:2] for line in told.split("\n") if "fails (" in line]
    assert [each[-1] if each[0] == "└─" else each[0] for each in heads] == [
        "path.selected",
        "peermem.loaded",
        "peermem.loadable",
        "peermem.stub",
    ]


def test_without_a_check_each_cause_is_told_with_what_follows(saved: Path, run: Run) -> None:
    code, told, _ = run("--from", str(saved), "--json")
    assert code == ExitCode.FAILED
    [host] = json.loads(told)["hosts"]
    roots = {each["links"][0]["check"]: each["follows"] for each in host["ways"]}
    assert roots == {
        "peermem.stub": ["path.selected", "peermem.loadable", "peermem.loaded"],
        "peermem.autoload": [],
        "peermem.rebuild": [],
    }


@pytest.mark.parametrize(
    ("about", "code", "words"),
    [
        pytest.param("pcie.link", ExitCode.OK, "pcie.link  pass", id="passes"),
        pytest.param("hello world", ExitCode.UNKNOWN, "no check knows a line", id="nobody's"),
        pytest.param(LINES[0][0], ExitCode.FAILED, "means     nvidia-peermem is a stub", id="line"),
        pytest.param(LINES[5][0], ExitCode.OK, "pass      gpu.lost: ", id="not-here"),
    ],
)
def test_the_exit_code_is_that_of_what_was_asked(
    about: str, code: ExitCode, words: str, saved: Path, run: Run
) -> None:
    ended, told, _ = run(about, "--from", str(saved))
    assert ended == code
    assert words in told


@pytest.mark.parametrize(
    ("checks", "row", "code"),
    [((), None, 3), (("gpu.lost",), None, 0), ((), shipped().build_failures[0], 0)],
    ids=["nobody's", "a-check-passes", "a-known-cause"],
)
def test_a_line_that_somebody_knows_is_no_unknown(
    checks: tuple[str, ...], row: Failure | None, code: int
) -> None:
    answer = Answer((), (), None, matched=Matched("a line", checks, row))
    assert verb._code(Outcome("gpu07", answer)) == code


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        pytest.param(("peermem.loadd",), "peermem.loaded", id="no-such-check"),
        pytest.param(("peermem.loaded", "peermem.stub"), "a line goes into quotes", id="two"),
        pytest.param(("gpu07", "peermem.loaded"), "leave the node out", id="a-node-beside-a-file"),
        pytest.param((" ",), "name a check or a line", id="blank"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_can(
    words: tuple[str, ...], hint: str, saved: Path, run: Run
) -> None:
    code, _, said = run(*words, "--from", str(saved))
    assert code == ExitCode.USAGE
    assert hint in said


def test_a_node_of_a_distribution_without_rules_is_explained_without_a_plan() -> None:
    evidence = node({"os-release": 'ID="odd"\n', **TRANSLATED})
    found = explained("gpu07", evidence, Want(), TODAY)
    assert found.plan is None or found.plan.blocked
    assert found.judged.having(Status.FAIL)


@pytest.fixture
def reached(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that answer as the saved one did, but for gpu08."""
    evidence = capture("stub")
    assert saved.is_dir()

    def connect(host: Host) -> ReplayTransport:
        if host.name == "gpu08":
            raise TransportError("gpu08: away", hint="switch it on")
        return ReplayTransport(host.name, evidence)

    @contextmanager
    def fleet(said: Said) -> Iterator[Fleet]:
        yield Fleet(tuple(select(said.text("hosts"))), connect, Access())

    monkeypatch.setattr(verb, "fleet", fleet)


@pytest.mark.usefixtures("reached")
def test_what_asked_nodes_said_is_kept_and_whom_nobody_reached_is_told(run: Run) -> None:
    code, told, said = run("gpu[07-08]", "peermem.loaded")
    assert code == ExitCode.UNREACHABLE
    assert told.startswith("gpu07: ")
    assert "\n\nerror    gpu08\n" in told
    (folder,) = re.findall(r"^kept in (\S+)$", said, re.MULTILINE)
    assert Evidence.parse(Path(folder, "gpu07.evidence").read_text()) == capture("stub")
    code, told, _ = run("gpu[07-08]", "peermem.loaded", "--json")
    assert code == ExitCode.UNREACHABLE
    jsonschema.validate(json.loads(told), SCHEMA)
    assert [each["name"] for each in json.loads(told)["hosts"]] == ["gpu07", "gpu08"]


def test_of_what_was_saved_nothing_is_kept_again(run: Run, saved: Path) -> None:
    _, told, said = run("peermem.loaded", "--from", str(saved))
    assert told.startswith("gpu07: ")
    assert "\n{" not in told, "and a person is given no document"
    assert "kept" not in said
