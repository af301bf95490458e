"""The table of the design, row by row, for one artefact."""

from __future__ import annotations

import pytest

from tests.evidence.build import node
from tests.evidence.frames import ABSENT, Override
from tests.unit.judged import verdict
from tests.unit.planning import placed
from toolkit.checks.all import ALL
from toolkit.checks.check import Finding, failed, not_applicable, passed, unknown
from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Trigger
from toolkit.plan.plan import Plan, make_plan
from toolkit.plan.templates import render_text
from toolkit.want import PeerPath, Want

PATH = "/etc/modules-load.d/gdr-toolkit.conf"
TEXT = render_text("modules-load/peermem.conf.j2", {})

PASSES = {"peermem.autoload": passed("yes"), "peermem.loaded": passed("live")}
FAILS = PASSES | {"peermem.autoload": failed("nothing loads it", expected="a file")}
UNKNOWN = FAILS | {"peermem.loaded": unknown("not read")}
NOT_ITS_MATTER = dict.fromkeys(PASSES, not_applicable("not here"))

NONE: dict[str, Override] = {}
DIFFERS = placed({PATH: "nvidia\n"})
SAME = placed({PATH: TEXT})
OTHER_MODE = placed({PATH: TEXT}, mode="600")
LOST_STATE = SAME | {"owned": ABSENT}  # our name is on it, whatever the node remembers

WANTED, UNWANTED = Want(), Want(path=PeerPath.DMABUF)


def plan_with(
    frames: dict[str, Override], findings: dict[str, Finding], want: Want = WANTED
) -> Plan:
    """A plan where every check passes but those of ``findings``."""
    verdicts = {each.id: verdict(each.id, passed("well")) for each in ALL}
    verdicts |= {check: verdict(check, finding) for check, finding in findings.items()}
    return make_plan(Node(node(frames)), verdicts, want)


def outcome(plan: Plan) -> str:
    """ "place", "trigger", "remove", "blocked" or "nothing"."""
    if plan.changes:
        assert [each.path for each in plan.changes] == [PATH]
        return plan.changes[0].action.value
    return "blocked" if plan.blocked else "nothing"


@pytest.mark.parametrize(
    ("frames", "findings", "want", "expected"),
    [
        pytest.param(NONE, UNKNOWN, WANTED, "blocked", id="none-unknown"),
        pytest.param(DIFFERS, UNKNOWN, WANTED, "blocked", id="differs-unknown"),
        pytest.param(SAME, UNKNOWN, WANTED, "blocked", id="same-unknown"),
        pytest.param(NONE, PASSES, WANTED, "nothing", id="none-pass"),
        pytest.param(NONE, NOT_ITS_MATTER, WANTED, "nothing", id="none-na"),
        pytest.param(NONE, FAILS, WANTED, "place", id="none-fail"),
        pytest.param(DIFFERS, PASSES, WANTED, "place", id="differs-pass"),
        pytest.param(DIFFERS, FAILS, WANTED, "place", id="differs-fail"),
        pytest.param(OTHER_MODE, PASSES, WANTED, "place", id="differs-in-mode"),
        pytest.param(SAME, FAILS, WANTED, "trigger", id="same-fail"),
        pytest.param(SAME, PASSES, WANTED, "nothing", id="same-pass"),
        pytest.param(LOST_STATE, FAILS, WANTED, "trigger", id="ours-by-name"),
        pytest.param(SAME, PASSES, UNWANTED, "remove", id="unwanted-pass"),
        pytest.param(DIFFERS, FAILS, UNWANTED, "remove", id="unwanted-fail"),
        pytest.param(SAME, UNKNOWN, UNWANTED, "remove", id="unwanted-unknown"),
        pytest.param(NONE, FAILS, UNWANTED, "nothing", id="unwanted-none"),
    ],
)
def test_the_table(
    frames: dict[str, Override], findings: dict[str, Finding], want: Want, expected: str
) -> None:
    # peermem.loaded proves the order in modprobe.d too; it stays out of this table.
    assert outcome(plan_with(frames, findings, want)) == expected


def test_a_change_says_what_is_there_and_why_it_is_made() -> None:
    change = plan_with(DIFFERS, FAILS).changes[0]
    assert change.old is not None
    assert change.old_text == "nvidia\n"
    assert change.text == TEXT
    assert change.why == ("its text differs", "peermem.autoload: nothing loads it")
    assert change.triggers == (Trigger.RELOAD_MODULES,)


def test_a_file_that_was_given_away_is_taken_back() -> None:
    given = str(SAME["placed"]).replace("644 0 0", "644 1000 1000")
    change = plan_with(SAME | {"placed": given}, PASSES).changes[0]
    assert change.why == ("it belongs to 1000:1000, not to root",)


def test_who_is_not_root_owns_what_he_placed() -> None:
    given = str(SAME["placed"]).replace("644 0 0", "644 1000 1000")
    assert plan_with(SAME | {"placed": given, "uid": "1000\n"}, PASSES).empty


def test_a_missing_verdict_is_an_unknown_one() -> None:
    verdicts = {each.id: verdict(each.id, passed("well")) for each in ALL}
    del verdicts["peermem.autoload"]
    plan = make_plan(Node(node()), verdicts, WANTED)
    assert plan.blocked[0].reason == "cannot be known: peermem.autoload: not judged"


def test_a_file_of_another_version_of_ours_is_told_and_left() -> None:
    plan = plan_with(placed({"/etc/gdr-toolkit/from-the-future": "x\n"}), PASSES)
    assert plan.empty
    assert "placed by another version" in plan.blocked[0].reason


def test_folders_and_files_already_gone_are_no_removals() -> None:
    owned = f"/etc/gdr-toolkit/\n{PATH}\n"
    assert plan_with({"owned": owned}, PASSES, UNWANTED).empty
