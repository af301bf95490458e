"""The page of a fleet: what stands on it, what never does, and what it may do."""

from __future__ import annotations

import base64
import hashlib
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.evidence.board import Board
from tests.evidence.boards import boards
from tests.evidence.build import node
from tests.evidence.frames import Override
from tests.evidence.test_recall import LOST
from tests.laws import tried
from tests.unit import fleets
from tests.unit.fleets import TODAY, capture, kinds, page_of, written
from toolkit.checks.all import ALL
from toolkit.checks.check import Verdict, failed
from toolkit.checks.judged import judge_node
from toolkit.errors import Outcome, TransportError
from toolkit.evidence import Evidence, Frame
from toolkit.facts.rdma.perftest import MeasuredPair
from toolkit.facts.recall import forget
from toolkit.features.page.cli import looking, looking_apart
from toolkit.features.page.show.fold import GROUPS, Who, commands
from toolkit.features.page.show.parts import Page
from toolkit.features.page.show.seen import HeatSpot, Seeing, SeenNode, excerpt, named
from toolkit.features.page.show.view import make
from toolkit.report.pages import plain, policy
from toolkit.verbs.each import on_saved
from toolkit.want import Want

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[2J\u202e\x00\udc80"


@pytest.fixture(scope="module")
def page() -> Page:
    return kinds("healthy", "replaced", "stub", "acs", "rocky")


@pytest.fixture(scope="module")
def text(page: Page) -> str:
    return written(page)


def with_frame(evidence: Evidence, key: str, text: str) -> Evidence:
    return evidence.plus([replace(evidence.frames[key], text=text)])


def test_every_node_and_every_failure_stands_on_the_page(page: Page, text: str) -> None:
    for each in page.nodes:
        assert f"<b>{each.name}</b>" in text
    failing = [each for each in page.folds if each.finding.status.value == "fail"]
    assert failing
    for fold in failing:
        assert f'id="f{fold.number}"' in text
        assert fold.check.id in text


def test_a_finding_of_several_nodes_is_told_once(page: Page) -> None:
    (loaded,) = [
        each
        for each in page.folds
        if each.check.id == "peermem.loaded" and each.finding.status.value == "fail"
    ]
    assert loaded.who.names == "gpu-rocky,gpu-stub"
    assert loaded.who.numbers == (2, 4)


def test_links_within_the_page_lead_somewhere(text: str) -> None:
    ids = set(re.findall(r' id="([^"]+)"', text))
    links = set(re.findall(r'href="#([^"]+)"', text))
    assert links
    assert links <= ids


def test_no_id_stands_twice(text: str) -> None:
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_the_page_names_nothing_to_load(text: str) -> None:
    assert not re.search(r"(?:src|srcset|action|data|poster)\s*=", text.partition("<script>")[0])
    assert set(re.findall(r'href="(.)', text)) == {"#"}
    assert "url(" not in text
    assert "@import" not in text
    assert " style=" not in text.partition("<script>")[0]


def test_the_policy_allows_this_style_and_this_script_alone(text: str) -> None:
    said = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert said is not None
    told = said[1].replace("&#39;", "'")
    assert told.startswith("default-src 'none'; ")
    assert "unsafe" not in told
    for name in ("style", "script"):
        (held,) = re.findall(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(held.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in told


def test_a_page_without_script_allows_none() -> None:
    assert "script-src 'none'" in policy("a {}", "")


@pytest.mark.parametrize("key", ["module-state", "hostname", "dmesg", "cmdline"])
def test_what_a_node_says_stays_text(key: str) -> None:
    evil = with_frame(capture("stub"), key, f"{EVIL} nvidia_peermem\n")
    made = written(page_of([(EVIL, evil)], [(EVIL + "2", TransportError(EVIL, hint=EVIL))]))
    assert made.count("<script>") == 1
    assert "<img" not in made
    assert "&lt;/script&gt;" in made
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e\ud800-\udfff]", made)
    made.encode("utf-8")


def test_commands_quote_what_a_name_may_hold() -> None:
    evil = "gpu$(reboot);'x"
    (told,) = {
        command
        for each in page_of([(evil, capture("stub"))]).folds
        for command in each.commands
        if command.startswith("./invokew provision")
    }
    assert told == "./invokew provision --hosts 'gpu$(reboot);'\"'\"'x'"


def test_commands_name_the_nodes_and_no_placeholder(page: Page) -> None:
    told = {command for each in page.folds for command in each.commands}
    assert "./invokew provision --hosts gpu-acs" in told
    assert "modprobe nvidia-peermem" in told
    assert not [each for each in told if "NODE" in each or each.endswith(":")]


@pytest.mark.parametrize(
    ("hint", "nodes", "told"),
    [
        pytest.param(
            "see that it builds (./invokew build --on NODE --kernel 6.8.0-64-generic), then x",
            1,
            ("./invokew build --on gpu1 --kernel 6.8.0-64-generic",),
            id="in-brackets",
        ),
        pytest.param("see ./invokew build --on NODE --kernel 6.8", 2, (), id="one-host-of-many"),
        pytest.param("see ./invokew build --on NODE --kernel $(id)", 1, (), id="for-a-shell"),
        pytest.param("see ./invokew build --on NODE --kernel `id`", 1, (), id="for-a-shell-too"),
        pytest.param("see ./invokew build --on NODE --kernel 6>x|id", 1, (), id="into-a-file"),
        pytest.param(
            "./invokew bios --hosts NODE --set iommu=on shows what to change; by hand: so",
            1,
            ("./invokew bios --set iommu=on --hosts gpu1",),
            id="prose-after-options",
        ),
        pytest.param(
            "lay it there, then ./invokew provision",
            2,
            ("./invokew provision --hosts 'gpu[1-2]'",),
            id="no-hosts",
        ),
        pytest.param(
            "/usr/lib/gdr-toolkit/rebuild, which provision places",
            1,
            ("/usr/lib/gdr-toolkit/rebuild",),
            id="prose-after-a-path",
        ),
    ],
)
def test_a_command_is_whole_and_nothing_in_it_is_for_a_shell_to_expand(
    hint: str, nodes: int, told: tuple[str, ...]
) -> None:
    check = next(each for each in ALL if each.id == "dkms.state")
    verdict = Verdict(check, failed("ill", expected="well", hint=hint), ())
    who = Who(tuple(range(nodes)), "gpu1" if nodes == 1 else "gpu[1-2]")
    assert commands(verdict, who) == told


def test_nothing_but_failures_has_commands(page: Page) -> None:
    assert not [e for e in page.folds if e.commands and e.finding.status.value != "fail"]


def test_secrets_are_never_on_the_page() -> None:
    line = "ro quiet iommu=off rd.iscsi.password=hunter2 console=ttyS0"
    made = written(page_of([("gpu1", with_frame(capture("rocky"), "cmdline", line + "\n"))]))
    assert "hunter2" not in made


def test_hosts_out_of_reach_are_told_with_what_to_do() -> None:
    error = TransportError("gpu9: no route to host", hint="is it on?")
    made = written(page_of([("gpu1", capture("healthy"))], [("gpu9", error)]))
    assert "gpu9: no route to host" in made
    assert "is it on?" in made
    assert "1 of 2 nodes are ready" in made


def test_what_was_not_judged_is_no_pass_in_the_matrix(page: Page) -> None:
    for row in page.matrix.rows:
        for number, fold in zip(row.who.numbers, [row.cells] * len(row.who.numbers), strict=True):
            judged = page.nodes[number]
            ill = {each.check.id for each in judged.open}
            for check, cell in zip(page.matrix.columns, fold, strict=True):
                failing = cell is not None and cell.finding.status.value in {"fail", "unknown"}
                assert failing == (check.id in ill)


def test_the_grid_marks_pairs_that_are_redirected(page: Page, text: str) -> None:
    (cut,) = [each for each in page.grids if each.heat.redirects]
    assert cut.who.names == "gpu-acs"
    assert "0000:17:00.0: ReqRedir CmpltRedir" in text
    assert len(page.grids) == 3


def test_who_is_told_in_ranges() -> None:
    assert Who((0, 1, 2, 3, 7, 9, 10), "").ranges == "0-3,7,9-10"
    assert Who((), "").ranges == ""


def test_a_long_source_is_shown_where_it_names_what_was_found() -> None:
    lines = [f"line {at}" for at in range(500)]
    lines[300] = "0000:17:00.0 redirects"
    frame = Frame("pci", capture("acs").frames["pci"].state, "/sys", "\n".join(lines) + "\n")
    names = named("0000:17:00.0: ReqRedir")
    told = excerpt(Evidence({"pci": frame}, complete=True), "pci", names)
    assert told.text == "\u22ef\n0000:17:00.0 redirects\nline 301\nline 302\n\u22ef"
    assert told.left == 497
    wide = Frame("pci", frame.state, "x", f"{'a' * 240}\n{'b' * 241}\n")
    shown = excerpt(Evidence({"pci": wide}, complete=True), "pci", frozenset()).text
    assert shown == f"{'a' * 240}\n{'b' * 240} \u2026", "as wide as the page, and wider"


def test_a_source_that_is_not_there_is_said_to_be_missing() -> None:
    assert excerpt(Evidence(complete=True), "pci", frozenset()).trouble != ""
    cut = excerpt(Evidence(complete=False), "pci", frozenset()).trouble
    assert cut == "cut off before it was read"


def test_plain_text_keeps_lines_and_loses_what_steers() -> None:
    assert plain("a\tb\n\x1b[2Jc\u202e") == "a\tb\n\ufffd[2Jc\ufffd"


def test_what_paths_carry_is_told_once_for_equal_nodes(page: Page, text: str) -> None:
    assert sum(len(each.who) for each in page.carries) == 5
    assert len(page.carries) < 5
    said = page.carries[0].carry.paths[0]
    assert said.now in text
    assert page.carries[0].measured == ("",)
    assert "not measured" in text


def test_a_node_of_which_much_could_not_be_judged_is_not_alike_to_a_healthy_one() -> None:
    page = kinds("healthy", "noroot")
    assert {row.who.names: row.gaps > 0 for row in page.matrix.rows} == {
        "gpu-healthy": False,
        "gpu-noroot": True,
    }
    assert "could not be judged</span></th>" in written(page)


def test_what_was_measured_stands_beside_what_was_predicted() -> None:
    of_one = (
        MeasuredPair("0000:18:00.0", "mlx5_0", 46.12, "ib_write_bw", "2026-11-20"),
        MeasuredPair("0000:9a:00.0", "mlx5_1", 47.5, "ib_write_bw", "2026-11-20"),
        MeasuredPair("0000:18:00.0", "mlx5_1", 12.5, "ib_write_bw", "2026-11-20"),  # the far one
    )
    page = page_of([(f"gpu{at}", capture("healthy")) for at in (1, 2)], measured={"gpu2": of_one})
    assert page.carries[0].measured == ("46.1-47.5 GB/s, 2 times",)
    assert [len(node.measured) for node in page.nodes] == [0, 3]
    assert "46.1 GB/s" in written(page)


def test_long_lists_of_names_break_after_commas() -> None:
    made = written(page_of((f"n{3 * at}-{at}", capture("stub")) for at in range(3)))
    assert ",<wbr>" in made


def test_a_fleet_in_which_each_node_says_its_own_is_told_once_and_at_each_node() -> None:
    seeing, want = Seeing(Want()), Want()
    seen = seeing.see(judge_node("gpu", capture("acs"), want, TODAY), capture("acs"))
    outcomes = [
        Outcome(f"gpu{at}", own_words(fleets.named(seen, f"gpu{at}"), at)) for at in range(60)
    ]
    page = make(outcomes, seeing.passing, "peermem", fleets.WHEN)
    told = [each for each in page.having("fail") if each.check.id == "acs.redirect"]
    assert len(told) == GROUPS + 1
    assert told[-1].finding.found == f"{60 - GROUPS} more findings, each of few nodes: see those"
    assert sum(len(each.who) for each in told) == 60
    text = written(page)
    for number in range(60):
        assert f"in words of {number} only" in text
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(re.findall(r' id="([^"]+)"', text))


@tried(20)
@given(st.lists(st.tuples(boards(), LOST), min_size=2, max_size=4))
def test_what_a_page_keeps_of_a_node_is_what_it_would_keep_of_it_alone(
    drawn: list[tuple[Board, dict[str, Override]]],
) -> None:
    fleet = [node(lost, board=board) for board, lost in drawn]
    forget()
    together = Seeing(Want())
    seen = [see(together, each) for each in fleet]
    for evidence, known in zip(fleet, seen, strict=True):
        forget()
        assert see(Seeing(Want()), evidence) == known


def test_a_page_of_which_other_processes_saw_the_nodes_has_the_same_bytes() -> None:
    """Two of them by turns, a chunk of nodes each; what they send is as pickle makes it."""
    nodes = [(f"gpu{at}", capture(kind)) for at, kind in enumerate(CHUNKS)]
    here, there = Seeing(Want()), Seeing(Want())
    seen = on_saved(nodes, looking(here, TODAY))
    two = [looking_apart(TODAY) for _ in range(2)]
    told = (
        pickle.dumps(
            [two[at // 2 % 2](name, evidence, Want()) for name, evidence in nodes[at : at + 2]]
        )
        for at in range(0, len(nodes), 2)
    )
    apart = [there.take(*each) for chunk in told for each in pickle.loads(chunk)]  # noqa: S301 our own
    assert apart == [each.value for each in seen]
    pages = [
        written(make(outcomes, seeing.passing, "peermem", fleets.WHEN))
        for outcomes, seeing in (
            (seen, here),
            ([Outcome(each.judged.host, each) for each in apart], there),
        )
    ]
    assert pages[0] == pages[1]


CHUNKS = ("stub", "healthy", "acs", "healthy", "rocky", "acs", "healthy", "noroot", "stub", "acs")


def see(seeing: Seeing, evidence: Evidence) -> SeenNode:
    return seeing.see(judge_node("gpu", evidence, Want(), TODAY), evidence)


def own_words(seen: SeenNode, number: int) -> SeenNode:
    verdicts = tuple(
        replace(each, finding=replace(each.finding, found=f"in words of {number} only"))
        for each in seen.judged.verdicts
    )
    return replace(seen, judged=replace(seen.judged, verdicts=verdicts))


@pytest.mark.parametrize(
    ("spot", "told"),
    [
        (HeatSpot("PIX", 0, "", "", (), "", nearest=True, why=""), "PIX"),
        (HeatSpot("?", 0, "", "", None, "", nearest=False, why=""), "?; ACS not known"),
        (
            HeatSpot(
                "PHB",
                63,
                "32 GT/s x16",
                "0000:17:00.0",
                ("a", "b"),
                "48 GB/s",
                nearest=True,
                why="",
            ),
            "PHB; predicted 48 GB/s; narrowest link 32 GT/s x16 (63 GB/s) at 0000:17:00.0; "
            "redirected at a, b",
        ),
    ],
)
def test_a_pair_tells_what_is_known_of_it_and_no_more(spot: HeatSpot, told: str) -> None:
    assert spot.told == told


@pytest.mark.parametrize(
    ("names", "brief"),
    [
        ("n" * 160, "n" * 160),
        ("n" * 161, "n" * 160 + ", \u2026"),
        ("gpu[1-4]," * 18, "gpu[1-4]," * 16 + "gpu[1-4], \u2026"),
    ],
)
def test_of_a_long_list_of_nodes_the_first_are_named(names: str, brief: str) -> None:
    assert Who((0, 1), names).brief == brief
