"""What drift says of a node: three columns, from the checks and the plan alone."""

from __future__ import annotations

from datetime import date
from hashlib import sha256
from pathlib import Path

import pytest

from tests.checks.rows import ROWS
from tests.evidence.build import (
    KERNEL,
    SRC,
    build_note,
    groups,
    module_state,
    node,
    without_srcversion,
)
from tests.evidence.frames import ABSENT, Override
from tests.evidence.healthy_boot import grub
from tests.evidence.judging import FAIL, PASS
from tests.unit.planning import (
    LITTLE_MEMLOCK,
    NO_AUTOLOAD,
    NO_PT,
    NOT_LOADED,
    OURS_BY_NAME,
    STUBBED,
    TRANSLATED,
    carried_out,
    frames,
    placed,
    plan_for,
    rocky,
)
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Tense
from toolkit.checks.judged import judge_node
from toolkit.errors import ExitCode
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.features.drift.cli import drift_node
from toolkit.features.drift.plan import (
    Drift,
    DriftLine,
    DriftStanding,
    DriftTopic,
    Here,
    file_lines,
)
from toolkit.features.drift.plan_properties import PROPERTIES, drift_of
from toolkit.plan.artefacts import ARTEFACTS
from toolkit.plan.change import Blocked, Wanted
from toolkit.plan.plan import Plan, make_plan
from toolkit.plan.templates import render_text
from toolkit.want import Iommu, Waiver, Want

TODAY = date(2026, 11, 22)
CAPTURES = sorted(Path(__file__).parents[2].glob("evidence/*.txt"))
DROP_IN = OURS_BY_NAME["boot.arguments"]
AUTOLOAD = OURS_BY_NAME["modules-load.peermem"]
SAME, DRIFT, UNKNOWN, NONE = (
    DriftStanding.SAME,
    DriftStanding.DRIFT,
    DriftStanding.UNKNOWN,
    DriftStanding.NONE,
)
WITH_PT = f"{NO_PT} iommu=pt"
GRUB_PT = render_text("boot/grub.cfg.j2", {"arguments": "iommu=pt"})
ILL: dict[str, dict[str, Override]] = {
    "translated": TRANSLATED,
    "not-loaded": frames(NOT_LOADED, NO_AUTOLOAD),
    "memlock": LITTLE_MEMLOCK,
    "stub": STUBBED,
    "rocky": frames(TRANSLATED, rocky(NO_PT)),
    "all": frames(TRANSLATED, NO_AUTOLOAD, LITTLE_MEMLOCK),
}


def drift(changed: dict[str, Override], want: Want | None = None) -> Drift:
    return drift_node("gpu001", node(changed), want or Want(), TODAY)


def line(found: Drift, name: str) -> DriftLine:
    """The one line of this name."""
    (one,) = [each for each in found.lines if each.name == name]
    return one


def columns(one: DriftLine) -> tuple[DriftStanding, DriftStanding]:
    return one.on_disk.standing, one.in_effect.standing


def test_a_healthy_node_has_not_drifted() -> None:
    found = drift({})
    assert (found.state, found.exit_code) == ("as wanted", ExitCode.OK)
    assert {each.standing for each in found.lines} == {SAME}


@pytest.mark.parametrize("changed", ILL.values(), ids=ILL)
def test_an_ill_node_has_drifted_and_one_made_well_has_not(changed: dict[str, Override]) -> None:
    found = drift(changed)
    assert (found.state, found.exit_code) == ("drift", ExitCode.FAILED)
    after = drift(carried_out(dict(changed), plan_for(changed)))
    assert after.having(DRIFT) == ()


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_nothing_is_as_wanted_while_a_plan_would_change_it(capture: Path) -> None:
    evidence = Evidence.parse(capture.read_text())
    found = drift_node(capture.stem, evidence, Want(), TODAY)
    judged = judge_node(capture.stem, evidence, Want(), TODAY)
    here = Node(evidence)
    verdicts = {each.check.id: each for each in judged.verdicts}
    plan = make_plan(here, verdicts, Want(), today=TODAY)
    assert plan.empty or found.state == "drift"
    assert not plan.blocked or found.exit_code in {ExitCode.FAILED, ExitCode.UNKNOWN}
    assert found.reboot_owed == plan.needs_reboot


def test_what_is_written_and_not_in_effect_is_told_apart() -> None:
    changed = frames(TRANSLATED, placed({DROP_IN: GRUB_PT}), {"boot-entries": grub(WITH_PT)})
    found = drift(changed)
    domains = line(found, "IOMMU domains of HCAs")
    assert columns(domains) == (SAME, DRIFT)
    assert domains.means == "written, and not in effect"
    argument = line(found, "iommu=pt")
    assert argument.topic is DriftTopic.ARGUMENT
    assert columns(argument) == (SAME, DRIFT)
    file = line(found, DROP_IN)
    assert file.in_effect.text == "not yet: reboot"
    assert found.reboot_owed


def test_what_the_next_boot_would_lose_is_told_apart() -> None:
    domains = line(drift({"boot-entries": grub(NO_PT)}), "IOMMU domains of HCAs")
    assert columns(domains) == (DRIFT, SAME)
    assert domains.means == "in effect, and lost at the next boot or load"
    assert KERNEL in domains.on_disk.text


def test_a_file_that_other_hands_changed_has_drifted() -> None:
    found = line(drift(placed({AUTOLOAD: "nvidia\n"})), AUTOLOAD)
    assert found.standing is DRIFT
    assert found.on_disk.text.endswith(": its text differs")
    assert found.on_disk.text[:12] != found.wanted


@pytest.mark.parametrize(
    ("left", "whose"),
    [
        pytest.param(
            sha256(b"nvidia\n").hexdigest(), "as we left it", id="ours-of-an-older-version"
        ),
        pytest.param("0" * 64, "changed by others since we placed it", id="others"),
        pytest.param("absent", "changed by others since we placed it", id="made-anew-by-others"),
    ],
)
def test_who_changed_a_file_is_told_where_our_runs_tell(left: str, whose: str) -> None:
    told = {"left": f"{left} {AUTOLOAD}\n"}
    found = line(drift({**placed({AUTOLOAD: "nvidia\n"}), **told}), AUTOLOAD)
    assert found.on_disk.text.endswith(f"its text differs; {whose}")


def test_a_file_that_is_no_longer_wanted_has_drifted() -> None:
    found = drift(placed({DROP_IN: GRUB_PT}), Want(iommu=Iommu.ANY))
    assert line(found, DROP_IN).wanted == "no such file"
    assert found.state == "drift"


def test_a_file_that_nobody_needs_is_no_line() -> None:
    assert DROP_IN not in {each.name for each in drift({}).lines}


def test_an_argument_that_is_quoted_for_the_loader_is_found_without_quotes() -> None:
    words = "iommu=pt pci=disable_acs_redir=0000:01:00.0;0000:02:00.0"
    text = render_text("boot/grub.cfg.j2", {"arguments": "iommu=pt"})
    wanted = Wanted("boot.arguments", "t", DROP_IN, sha256(text.encode()).hexdigest(), (), (
        '"pci=disable_acs_redir=0000:01:00.0;0000:02:00.0"',
    ))  # fmt: skip
    changed = frames(placed({DROP_IN: text}), {"cmdline": f"ro {words}\n"})
    here = Here(Node(node(changed)), {}, Plan(wanted=(wanted,)), TODAY)
    (argument,) = [each for each in file_lines(here) if each.topic is DriftTopic.ARGUMENT]
    assert argument.name == "pci=disable_acs_redir=0000:01:00.0;0000:02:00.0"
    assert argument.in_effect.text == "there"


def test_an_argument_that_nothing_needs_any_more_is_no_drift() -> None:
    off = {
        "cmdline": f"{NO_PT} intel_iommu=off\n",
        "boot-entries": grub(f"{NO_PT} intel_iommu=off"),
    }
    found = line(drift(frames(placed({DROP_IN: GRUB_PT}), off)), "iommu=pt")
    assert columns(found) == (SAME, SAME)
    assert found.in_effect.text == "not there, not needed"


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"iommu-groups": "0/type:\n"}, id="a-shape-that-is-not-known"),
        pytest.param({"placed": ABSENT}, id="no-hashes"),
        pytest.param({"module-state": None}, id="not-collected"),
    ],
)
def test_what_was_not_read_is_never_as_wanted(changed: dict[str, Override]) -> None:
    found = drift(changed)
    assert found.having(UNKNOWN)
    assert found.exit_code in {ExitCode.UNKNOWN, ExitCode.FAILED}


def test_a_column_whose_check_is_open_is_not_known() -> None:
    found = drift({"iommu-groups": "0/type:\n", "boot-entries": ""})
    assert columns(line(found, "IOMMU domains of HCAs")) == (UNKNOWN, UNKNOWN)
    assert (found.state, found.exit_code) == ("unknown", ExitCode.UNKNOWN)


def test_evidence_that_was_cut_off_is_out_of_reach() -> None:
    whole = node()
    found = drift_node("gpu001", Evidence(whole.frames, complete=False), Want(), TODAY)
    assert (found.state, found.exit_code) == ("cut off", ExitCode.UNREACHABLE)


def test_work_that_an_earlier_run_owes_is_drift() -> None:
    found = drift({"pending": "DEPMOD depmod -a 6.8.0\n"})
    owed = line(found, "DEPMOD depmod -a 6.8.0")
    assert (owed.topic, owed.standing) == (DriftTopic.WORK, DRIFT)


def test_what_is_blocked_and_no_file_of_ours_is_work_of_which_nothing_is_known() -> None:
    """A blocked file has its own line."""
    evidence = node()
    judged = judge_node("gpu001", evidence, Want(), TODAY)
    wanted = (Wanted("a.file", "", "/etc/a", "0" * 64, ()),)
    stuck = (Blocked("a.file", "x"), Blocked("acs.now", "no register was read", "look there"))
    found = drift_of(Node(evidence), judged, Plan(blocked=stuck, wanted=wanted))
    work = [each for each in found.lines if each.topic is DriftTopic.WORK]
    assert [(each.name, each.standing, each.hint) for each in work] == [
        ("acs.now", UNKNOWN, "look there")
    ]


def test_a_waived_failure_is_shown_as_waived() -> None:
    names = ("iommu.passthrough", "iommu.boot")
    waivers = tuple(Waiver(each, "a reason", date(2027, 1, 1)) for each in names)
    found = drift(TRANSLATED, Want(waivers=waivers))
    assert columns(line(found, "IOMMU domains of HCAs")) == (
        DriftStanding.WAIVED,
        DriftStanding.WAIVED,
    )
    assert found.state == "as wanted"
    expired = tuple(Waiver(each, "a reason", date(2026, 1, 1)) for each in names)
    assert drift(TRANSLATED, Want(waivers=expired)).state == "drift"


def test_both_builds_of_a_module_are_shown() -> None:
    other = module_state().replace(SRC["nvidia_peermem"], "7" * 23)
    found = line(drift({"module-state": other}), "nvidia-peermem")
    assert columns(found) == (SAME, DRIFT)
    assert "srcversion" in found.on_disk.text
    assert "7" * 23 in found.in_effect.text
    plain = without_srcversion(module_state()) + f"nvidia_peermem/build:{build_note('aa' * 20)}\n"
    loaded = line(drift({"module-state": plain}), "nvidia-peermem").in_effect.text
    assert f"build id {'aa' * 20}" in loaded


def test_translated_domains_tell_of_both_columns() -> None:
    found = line(drift({**TRANSLATED, "iommu-groups": groups("DMA")}), "IOMMU domains of HCAs")
    assert columns(found) == (DRIFT, DRIFT)
    assert found.means == "not as wanted"


def test_the_table_names_checks_that_exist_and_each_once() -> None:
    named = [each for row in PROPERTIES for each in (*row.on_disk, *row.in_effect)]
    assert len(named) == len(set(named))
    assert set(named) <= BY_ID.keys()
    in_effect = {each for row in PROPERTIES for each in row.in_effect}
    assert {BY_ID[each].tense for each in in_effect} == {Tense.NOW}


def test_every_proof_of_a_wanted_file_has_a_line() -> None:
    found = drift(frames(*ILL.values()))
    told = {each.name for each in found.lines}
    covered = {each for row in PROPERTIES for each in (*row.on_disk, *row.in_effect)}
    wanted = {each.name for each in found.lines if each.topic is DriftTopic.FILE}
    proofs = {proof for each in ARTEFACTS if each.path in wanted for proof in each.proofs}
    assert proofs
    assert proofs - covered <= told


def test_what_proves_a_file_and_stands_in_no_row_is_told_as_it_is_in_effect() -> None:
    covered = {each for row in PROPERTIES for each in (*row.on_disk, *row.in_effect)}
    beside = {proof for each in ARTEFACTS for proof in each.proofs} - covered
    assert {BY_ID[each].tense for each in beside} == {Tense.NOW}
    plan = Plan(blocked=tuple(Blocked(each.id, "x") for each in ARTEFACTS))
    seen = {PASS: SAME, FAIL: DRIFT}
    rows = [each for each in ROWS if each.check in beside and each.status in seen][:12]
    assert {each.status for each in rows} == {*seen}
    for row in rows:
        evidence = node(row.frames, board=row.board)
        judged = judge_node("gpu001", evidence, row.want, TODAY)
        found = line(drift_of(Node(evidence), judged, plan), BY_ID[row.check].id)
        assert columns(found) == (NONE, seen[row.status]), row.claim
        assert found.wanted == BY_ID[row.check].title


def test_what_is_not_as_wanted_says_what_the_first_check_would_do() -> None:
    """The finding's own hint, else the fix of the check; nothing where all is well."""
    found = drift(frames(*ILL.values()))
    hints = {each.name: each.hint for each in found.lines if each.topic is DriftTopic.PROPERTY}
    assert hints["nvidia-peermem at boot"] == BY_ID["peermem.autoload"].fix
    assert hints["IOMMU domains of HCAs"].startswith("iommu=pt on the kernel command line")
    assert hints["nvidia-peermem"].startswith("./invokew provision --hosts NODE, then on NODE: ")
    assert {name for name, hint in hints.items() if not hint} == {
        each.name
        for each in found.lines
        if each.topic is DriftTopic.PROPERTY and each.standing is SAME
    }


def test_what_is_blocked_is_told_of_its_own_artefact() -> None:
    plan = Plan(blocked=(Blocked("a", "the one"), Blocked("b", "the other")))
    here = Here(Node(node()), {}, plan, TODAY)
    told = [here.blocked(each) for each in ("a", "b", "c")]
    assert told == [*plan.blocked, None]
