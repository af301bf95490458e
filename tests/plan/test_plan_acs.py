"""The unit that clears ACS: when it is planned, started, stopped, and taken away."""

from __future__ import annotations

from tests.evidence.board import BOARD, Board
from tests.evidence.build import node
from tests.evidence.frames import ABSENT, Override
from tests.plan.bridging import BARE, NEW, ODD, PATHS, REDIRECTED, runs
from tests.unit.planning import placed
from toolkit.checks.all import ALL
from toolkit.facts.node.node import Node
from toolkit.plan.acs import UNIT
from toolkit.plan.change import Action
from toolkit.plan.plan import Plan, make_plan
from toolkit.want import Role, Want

OURS = (
    "/etc/gdr-toolkit/acs",
    "/usr/lib/gdr-toolkit/acs",
    UNIT,
    "/etc/systemd/system/sysinit.target.d/gdr-toolkit-acs.conf",
)
RESTART = "START_UNITS systemctl restart gdr-toolkit-acs.service"
RUNS_OURS: dict[str, Override] = {
    "acs-units": "gdr-toolkit-acs.service enabled /usr/lib/gdr-toolkit/acs start\n"
}


def plan(changed: dict[str, Override], board: Board = REDIRECTED, want: Want = BARE) -> Plan:
    here = Node(node(changed, board=board))
    return make_plan(here, {each.id: each(here, want) for each in ALL}, want)


def of_acs(found: Plan) -> list[str]:
    return [each.path for each in found.changes if each.artefact.startswith("acs.")]


def actions(found: Plan) -> set[Action]:
    return {each.action for each in found.changes if each.artefact.startswith("acs.")}


def texts() -> dict[str, str]:
    """Our files as a first plan places them."""
    return {each.path: each.text for each in plan(runs(ODD)).changes if each.path in OURS}


def in_place() -> dict[str, Override]:
    """What the node shows of them."""
    frames = placed(texts())
    lines = str(frames["placed"]).replace(" 644 0 0 /usr/lib/", " 755 0 0 /usr/lib/")
    return runs(ODD) | RUNS_OURS | frames | {"placed": lines}


def test_where_no_argument_does_it_a_unit_is_placed_and_started() -> None:
    found = plan(runs(ODD))
    assert of_acs(found) == list(OURS)
    calls = [act.call for act in found.acts]
    assert calls[-2:] == ["DAEMON_RELOAD systemctl daemon-reload", RESTART]
    listed = next(each.text for each in found.changes if each.path == OURS[0])
    assert [line for line in listed.split("\n")[:-1] if not line.startswith("#")] == [
        f"002c {path}" for path in PATHS
    ]


def test_a_rollback_stops_it_before_its_files_go() -> None:
    act = plan(runs(ODD)).acts[-1]
    assert act.undo == (("first", ("systemctl", "stop", "gdr-toolkit-acs.service")),)


def test_once_it_works_there_is_nothing_to_do() -> None:
    assert of_acs(plan(in_place(), BOARD)) == []


def test_bits_that_somebody_set_again_are_cleared_again() -> None:
    found = plan(in_place())
    assert actions(found) == {Action.TRIGGER}
    assert RESTART in [act.call for act in found.acts]


def test_a_list_of_other_bridges_is_written_anew_and_its_undo_starts_the_old_one() -> None:
    old = texts() | {OURS[0]: "002c 0000:15:01.0/00.0/00.0\n"}
    frames = placed(old)
    lines = str(frames["placed"]).replace(" 644 0 0 /usr/lib/", " 755 0 0 /usr/lib/")
    found = plan(runs(ODD) | RUNS_OURS | frames | {"placed": lines}, BOARD)
    assert of_acs(found) == [OURS[0]]
    assert [when for when, _ in found.acts[-1].undo] == ["first", "after"]


def test_where_guests_come_to_live_it_is_stopped_and_taken_away() -> None:
    found = plan(in_place(), BOARD, Want(role=Role.VM_HOST))
    assert sorted(of_acs(found)) == sorted(OURS)
    assert actions(found) == {Action.REMOVE}
    stop = next(act for act in found.acts if act.trigger.name == "START_UNITS")
    assert (stop.early, stop.command[1]) == (True, "stop")


def test_a_kernel_with_an_argument_does_not_take_a_unit_away_that_works() -> None:
    changed = in_place() | {key: runs(NEW)[key] for key in ("kernel-release", "boot-entries")}
    assert of_acs(plan(changed, BOARD)) == []


def test_what_is_in_its_way_is_said_once() -> None:
    blocked = plan(runs(ODD) | {"setpci": ABSENT}).blocked
    (told,) = (each for each in blocked if each.artefact.startswith("acs."))
    assert told.artefact == "acs.bridges"
    assert "setpci is not on the node" in told.reason
    assert told.hint == "install pciutils"
