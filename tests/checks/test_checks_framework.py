"""What holds for every check, whatever it asks."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from tests.checks.rows import ASKED_OF_ALL, ROWS
from tests.evidence.board import BOARD, GPUS
from tests.evidence.build import HEALTHY, node
from tests.evidence.frames import ABSENT, DENIED, MISSING, TIMEOUT
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN
from tests.laws import sample
from toolkit.checks.all import ALL, BY_ID, named
from toolkit.checks.check import Check, Impact, Status, Tense, Verdict, check, passed, without_gpus
from toolkit.errors import UsageError
from toolkit.evidence import Evidence
from toolkit.facts.fact import fact
from toolkit.facts.node import devices, modules, stack, system
from toolkit.facts.node.node import Node
from toolkit.want import PeerPath, Waiver, Want

TODAY = date(2026, 11, 21)
IDS = [each.id for each in ALL]


def judge(evidence: Evidence, want: Want | None = None) -> dict[str, Verdict]:
    shared = Node(evidence)
    return {each.id: each(shared, want or Want()) for each in ALL}


WHOLE = judge(node())


def statuses(verdicts: dict[str, Verdict]) -> Counter[Status]:
    return Counter(verdict.status for verdict in verdicts.values())


# --- the tables ---


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("name", IDS)
def test_every_check_has_a_row_of_each_status(name: str, status: Status) -> None:
    """But n/a where a sentence says that no rule of the check's own lets a node off."""
    seen = any(row.check == name and row.status is status for row in ROWS)
    asked_of_all = status is NA and name in ASKED_OF_ALL
    assert seen != asked_of_all, "there is a row: take the sentence away" if seen else "no row"


def test_a_sentence_is_of_a_check_that_there_is() -> None:
    assert set(ASKED_OF_ALL) <= set(IDS)
    assert all(ASKED_OF_ALL.values())


def test_no_row_is_of_a_check_that_is_not_there() -> None:
    assert {row.check for row in ROWS} == set(IDS)


@pytest.mark.parametrize("each", ALL, ids=IDS)
def test_every_check_says_what_it_wants_why_and_how(each: Check) -> None:
    assert each.title.endswith(".") or each.why
    assert each.title != each.id
    assert each.source
    assert each.fix
    assert "\n" not in each.fix
    assert named(each.id) is each


def test_ids_are_topic_and_name_and_each_is_there_once() -> None:
    assert len(BY_ID) == len(ALL)
    assert all("." in name and name == name.lower() for name in IDS)


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        pytest.param("peermem.stubs", "known: peermem.stub, peermem.file", id="near"),
        pytest.param("ACS.redirects", "known: acs.redirect, ", id="near-in-capitals"),
        pytest.param("passthrough", "known: iommu.passthrough", id="without-its-topic"),
        pytest.param("pcie.acs", "known: acs.redirect, acs.mask", id="in-another-topic"),
        pytest.param("iomu.passtrough", "known: iommu.passthrough", id="mistyped-throughout"),
        pytest.param("nonsense", "the verb checks lists them all", id="nowhere-near"),
        pytest.param("", "the verb checks lists them all", id="nothing"),
    ],
)
def test_a_mistyped_check_is_answered_with_the_known_ones(wrong: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        named(wrong)
    assert str(refused.value) == f"no check {wrong!r}"
    assert refused.value.hint.startswith(hint)


# --- applicability ---


@pytest.mark.parametrize("want", [Want(), DMABUF], ids=lambda want: str(want.path))
def test_a_healthy_node_fails_nothing_and_leaves_nothing_open(want: Want) -> None:
    assert set(statuses(judge(node(), want))) == {PASS, NA}


def test_a_check_of_the_other_path_does_not_apply_and_reads_nothing() -> None:
    verdict = judge(node(), DMABUF)["peermem.stub"]
    assert (verdict.status, verdict.finding.found) == (NA, "not part of the dmabuf path")
    assert verdict.cited == ()


@pytest.mark.parametrize("path", PeerPath)
def test_nothing_applies_to_a_node_known_to_have_no_gpu(path: PeerPath) -> None:
    verdicts = judge(node(board=BOARD.without(*GPUS)), Want(path=path))
    assert set(statuses(verdicts)) == {NA}


@pytest.mark.parametrize("bad", [ABSENT, DENIED, "nonsense\n"], ids=["absent", "denied", "odd"])
def test_a_bus_that_could_not_be_read_proves_no_absence_of_gpus(bad: Any) -> None:
    evidence = node({"pci": bad})
    verdicts = judge(evidence)
    assert not without_gpus(Node(evidence))
    assert verdicts["nvidia.present"].status is UNKNOWN
    assert verdicts["peermem.loaded"].status is PASS


def test_nothing_applies_for_sure_where_the_bus_was_cut_off() -> None:
    evidence = node({"pci-links": MISSING}, complete=False)
    verdicts = judge(evidence)
    assert not without_gpus(Node(evidence))
    assert verdicts["kernel.version"].status is UNKNOWN
    assert "pci-links: cut off before it was read" in verdicts["kernel.version"].finding.found
    assert statuses(verdicts)[PASS] == 0


def test_an_image_has_no_present_and_has_a_next_boot() -> None:
    verdicts = judge(node({"boot-id": ABSENT}))
    of_now = {name for name in IDS if BY_ID[name].tense is Tense.NOW}
    told = {n for n in of_now if verdicts[n].finding.found == "an image has no present"}
    asked = {name for name in of_now if PeerPath.PEERMEM in BY_ID[name].paths}
    assert told == {name for name in asked if not BY_ID[name].on_disk}
    assert verdicts["peermem.autoload"].status is PASS


def test_evidence_without_boot_id_is_not_taken_for_an_image() -> None:
    verdicts = judge(node({"boot-id": MISSING}, complete=False))
    assert verdicts["peermem.loaded"].status is UNKNOWN
    assert "boot-id: cut off" in verdicts["peermem.loaded"].finding.found


def test_a_boot_id_that_may_not_be_read_is_still_one() -> None:
    assert judge(node({"boot-id": DENIED}))["peermem.loaded"].status is PASS


# --- what was not read ---


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        pytest.param(DENIED, "module-state: permission denied", id="denied"),
        pytest.param(TIMEOUT, "module-state: no answer in time, abandoned", id="timeout"),
        pytest.param(ABSENT, "module-state: not there", id="absent"),
        pytest.param(MISSING, "module-state: not part of this evidence", id="missing"),
        pytest.param("nonsense\n", "/sys/module: cannot read line 1: 'nonsense'", id="odd"),
    ],
)
def test_what_was_not_read_leaves_the_verdict_open_and_says_why(bad: Any, reason: str) -> None:
    verdict = judge(node({"module-state": bad}))["peermem.loaded"]
    assert (verdict.status, verdict.finding.found) == (UNKNOWN, reason)


LOST = {"denied": DENIED, "timeout": TIMEOUT, "missing": MISSING}


@pytest.mark.parametrize(
    ("key", "lost"), sample([*product((*HEALTHY, *BOARD.frames()), LOST)], "a lost source")
)
def test_a_source_that_is_lost_never_makes_a_failure_or_an_excuse(key: str, lost: str) -> None:
    whole, without = WHOLE, judge(node({key: LOST[lost]}))
    for name, verdict in without.items():
        if verdict.status is not whole[name].status:
            assert verdict.status is UNKNOWN, f"{name} without {key}: {verdict.finding}"


@pytest.mark.parametrize("want", [Want(), DMABUF], ids=lambda want: str(want.path))
def test_a_verdict_cites_every_source_whose_loss_would_open_it(want: Want) -> None:
    whole = judge(node(), want)
    shared_by_all = {"boot-id", "pci", "pci-links", "pci-resources"}  # whether it applies at all
    for key in {*HEALTHY, *BOARD.frames()} - shared_by_all:
        for name, verdict in judge(node({key: TIMEOUT}), want).items():
            if verdict.status is not whole[name].status:
                assert key in whole[name].cited, f"{name} rests on {key} and does not say so"


def test_sources_are_a_checks_own_though_facts_are_shared() -> None:
    verdicts = judge(node())
    assert verdicts["iommu.cmdline"].cited == ("cmdline", "cpu", "arch")
    first, second = verdicts["peermem.file"], verdicts["peermem.stub"]
    assert first.cited == ("peermem-resolve", "peermem-modinfo")
    assert second.cited == (*first.cited, "peermem-elf")


def test_each_source_is_parsed_once_for_all_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[tuple[object, ...]] = Counter()

    def counting(name: str, real: Any) -> Any:
        def parse(*texts: object) -> Any:  # a text, or its lines
            calls[name, *map(repr, texts)] += 1
            return real(*texts)

        return parse

    def counted(name: str, real: Any) -> Any:
        def read(one: Node) -> Any:
            calls[name,] += 1
            return real(one)

        return read

    for room in (devices, modules, stack, system):
        for name in [each for each in vars(room) if each.startswith("parse_")]:
            monkeypatch.setattr(room, name, counting(name, getattr(room, name)))
    rows = {name: held for room in Node.__mro__ for name, held in vars(room).items()}
    for name, row in rows.items():
        if isinstance(row, fact):  # NAME = parsed(KEY, PARSER) has its parser in itself
            monkeypatch.setattr(row, "_read", counted(name, row._read))
    judge(node())
    assert len(calls) > 100
    assert set(calls.values()) == {1}


def test_an_error_is_remembered_as_a_value_is(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Node(node({"modules": "nonsense\n"}))
    read: list[str] = []
    text = one.sources.text

    def watched(key: str) -> str:
        read.append(key)
        return text(key)

    monkeypatch.setattr(one.sources, "text", watched)
    seen = []
    for _ in range(2):
        with pytest.raises(Exception, match="/proc/modules: cannot read line 1") as caught:
            _ = one.modules
        seen.append(caught.value)
    assert read == ["modules"]
    assert vars(seen[0]) == vars(seen[1])


# --- waivers ---


@pytest.mark.parametrize(
    ("until", "waived"),
    [
        pytest.param(TODAY + timedelta(days=1), True, id="still-runs"),
        pytest.param(TODAY, True, id="last-day"),
        pytest.param(TODAY - timedelta(days=1), False, id="expired"),
    ],
)
def test_a_waiver_counts_to_its_last_day(until: date, waived: bool) -> None:
    waiver = Waiver("peermem.autoload", "loaded by the prologue", until)
    verdict = judge(node({"modules-load": ""}), Want(waivers=(waiver,)))["peermem.autoload"]
    assert verdict.waived(TODAY) is waived
    assert (verdict.status, verdict.waiver) == (FAIL, waiver)


def test_a_waiver_is_for_failures_of_its_own_check_alone() -> None:
    want = Want(waivers=(Waiver("peermem.autoload", "x", TODAY),))
    assert not judge(node(), want)["peermem.autoload"].waived(TODAY)
    open_ = judge(node({"modules-load": DENIED}), want)["peermem.autoload"]
    assert (open_.status, open_.waived(TODAY)) == (UNKNOWN, False)
    other = judge(node({"legacy": "/etc/init.d/nv_peer_mem\n"}), want)["peermem.legacy_conflict"]
    assert (other.status, other.waived(TODAY)) == (FAIL, False)


# --- a check of its own ---


def test_a_bug_in_a_check_is_not_taken_for_missing_evidence() -> None:
    @check("test.bug", impact=Impact.SLOW, source="x", fix="y")
    def buggy(seen: Node, want: Want) -> Any:
        """Nothing."""
        raise KeyError("bug")

    with pytest.raises(KeyError):
        buggy(Node(node()), Want())


def test_title_and_reason_come_from_the_docstring() -> None:
    @check("test.doc", impact=Impact.SLOW, source="x", fix="y", tense=Tense.AT_BOOT)
    def documented(seen: Node, want: Want) -> Any:
        """It is so.

        For this reason,
        and that.
        """
        return passed("so")

    assert (documented.title, documented.why) == ("It is so.", "For this reason,\nand that.")
    assert documented(Node(node()), Want()).status is PASS
    assert replace(documented, id="test.other").id == "test.other"


def test_which_checks_ask_of_nvidia_peermem_alone() -> None:
    """By their topic, or because no other path is what they are of."""
    of_it = {each.id for each in ALL if each.of_nvidia_peermem}
    by_topic = {each for each in IDS if each.startswith(("peermem.", "ib."))}
    assert by_topic <= of_it
    assert of_it - by_topic == {"dkms.owner_conflict", "ctr.peermem_sidecar", "register.peermem"}
