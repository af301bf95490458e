"""What a rollout leaves behind: its journal, the system's log, claims, and the shared books."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import Struct, field
from msgspec.structs import replace

from tests.verbs.test_provision_worse import FAIL, NOW, UNKNOWN, WELL, judged
from toolkit.errors import ExitCode, LockedError, Outcome, ToolkitError, TransportError
from toolkit.hosts.host import Host
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Action, Change
from toolkit.plan.plan import Plan
from toolkit.progress import Silent
from toolkit.rollout.budget import books_of
from toolkit.rollout.journal import About, Event, Journal, Story
from toolkit.rollout.plan.batches import Past, Phase, Step, Terms
from toolkit.rollout.run import Rolled
from toolkit.rollout.runs import DEMO, RunFolder
from toolkit.verbs import rollout
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.plan import NO_CHANGE, Planned
from toolkit.verbs.provision import Provisioned, ProvisionOptions
from toolkit.verbs.provision_node import TurnWork
from toolkit.verbs.rollout import Agreed, ended_event, keep_journal, planned_event, roll_out
from toolkit.want import Want

ABOUT = About("provision", "op@here", "2026-11-22T00:00:00Z")
SOME = Plan(
    (Change("limits", "Limits", "/etc/limits.d/x.conf", Action.PLACE),),
    (Trigger.DEPMOD, Trigger.REBOOT),
)
PLANNED, NOTHING = Planned(judged(FAIL), SOME, boot_id="b1"), Planned(WELL, NO_CHANGE, boot_id="b2")
AWAY = TransportError("gpu3: away", hint="look at its BMC")
HOSTS = (Host("op@gpu1"), Host("gpu2", address="10.0.0.2", port=2222), Host("gpu3"))
DONE = Provisioned(judged(FAIL), WELL, steps=("DEPMOD: done",), rebooted=True)
BAD = Provisioned(judged(FAIL), judged(FAIL), left=SOME)
Found = Planned | ToolkitError


class Listener(Silent):
    """What a terminal is told of the whole."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin(self, title: str, total: int) -> None:
        self.told.append(f"{title} {total}")

    def finish(self) -> None:
        self.told.append("over")


class Site(Struct):
    """Runs of a site, and what its machine's own log was told."""

    runs: Path
    log: list[str] = field(default_factory=list)
    ears: Listener = field(default_factory=Listener)
    begun: list[str] = field(default_factory=list)  # hosts whose turn came
    pasts: Mapping[str, Past] = field(default_factory=dict)  # that the last turn was told

    def fleet(self, hosts: tuple[Host, ...] = HOSTS, *, demo: bool = False) -> Fleet:
        way = Access(progress=self.ears)
        return Fleet(hosts, lambda _: pytest.fail("it is reached"), way, demo=demo)

    def folder(self, demo: str = "") -> RunFolder:
        return RunFolder(self.runs, "provision", datetime.now(UTC), demo)

    def roll(
        self,
        agreed: Agreed,
        found: dict[str, Found],
        *,
        demo: bool = False,
        folder: RunFolder | None = None,
    ) -> Rolled[Provisioned]:
        """Roll out what was planned on each host."""
        planned = [
            Outcome(name, each) if isinstance(each, Planned) else Outcome(name, error=each)
            for name, each in found.items()
        ]
        return roll_out(
            self.fleet(tuple(map(Host, found)), demo=demo),
            planned,
            Want(),
            WELL.today,
            options=ProvisionOptions(),
            folder=folder or self.folder("/demo" if demo else ""),
            agreed=agreed,
        )

    def story(self) -> Story:
        (folder,) = (each.parent for each in self.runs.glob("*/journal.sqlite"))
        with Journal.open(folder) as journal:
            return journal.story()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path)
    monkeypatch.setattr(rollout, "tell_system", made.log.append)
    monkeypatch.setattr(rollout, "whoami", lambda: "op@here")
    return made


@pytest.fixture
def turns(site: Site, monkeypatch: pytest.MonkeyPatch) -> dict[str, Provisioned | Exception]:
    """How the turn of each host ends."""
    how: dict[str, Provisioned | Exception] = {}

    def take_turn(work: TurnWork, host: Host) -> Provisioned:
        site.begun.append(host.name)
        site.pasts = work.past
        ends = how.get(host.name, DONE)
        if isinstance(ends, BaseException):
            raise ends
        return ends

    monkeypatch.setattr(TurnWork, "take_turn", take_turn)
    return how


def in_batches(*batches: tuple[str, ...], budget: int = 9) -> Agreed:
    return Agreed(Terms(batches, budget, 9, 9), ABOUT)


# --- how it begins ---


@pytest.mark.parametrize(
    ("reason", "demo", "told"),
    [
        ("", False, "provision on gpu[2-3],op@gpu1 by op@here"),
        ("ticket 7", False, "provision on gpu[2-3],op@gpu1 by op@here, ticket 7"),
        ("ticket 7", True, None),
    ],
)
def test_the_system_s_log_is_told_of_a_run_on_nodes_of_the_site_s(
    site: Site, reason: str, demo: bool, told: str | None
) -> None:
    about = replace(ABOUT, reason=reason)
    with ExitStack() as stack:
        keep_journal(stack, site.fleet(demo=demo), site.folder(), about, alone=True)
    (run,) = (each.parent.name for each in site.runs.glob("*/journal.sqlite"))
    assert site.log == ([f"run {run}: {told}"] if told else [])
    assert [turn.who for turn in site.story().turns] == ["op@here"]
    assert site.story().about == about


@pytest.mark.parametrize("alone", [True, False])
def test_hosts_are_claimed_by_what_every_controller_knows_them_by(site: Site, alone: bool) -> None:
    mode = "alone" if alone else "shared"
    with ExitStack() as stack:
        folder = site.folder()
        keep_journal(stack, site.fleet(), folder, ABOUT, alone=alone)
        claimed = (folder.path / "hosts").read_text().splitlines()
        assert claimed == [f"{mode} op@here", "10.0.0.2:2222", "gpu1:0", "gpu3:0"]
        with pytest.raises(LockedError) if alone else ExitStack():
            keep_journal(stack, site.fleet(HOSTS[1:2]), site.folder(), ABOUT, alone=False)
    kept = keep_journal(stack, site.fleet(), site.folder(), ABOUT, alone=True)  # all was let go
    stack.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        kept and kept._base.execute("PRAGMA user_version")


def test_a_run_that_goes_on_has_one_more_turn_in_its_own_journal(site: Site) -> None:
    folder = site.folder()
    for again in (False, True):
        with ExitStack() as stack:
            keep_journal(stack, site.fleet(), folder, ABOUT, alone=True, again=again)
    assert len(site.story().turns) == 2


def told(event: Event) -> tuple[str, str, str, object]:
    return event.host, event.phase, event.boot_id, json.loads(event.detail)


@pytest.mark.parametrize(
    ("found", "phase", "boot_id", "detail"),
    [
        (
            PLANNED,
            "planned",
            "b1",
            {
                "fails": [NOW],
                "changes": ["place /etc/limits.d/x.conf"],
                "triggers": ["DEPMOD", "REBOOT"],
            },
        ),
        (NOTHING, "nothing to do", "b2", {"fails": [], "changes": [], "triggers": []}),
        (AWAY, "out of reach", "", {"error": "gpu3: away", "hint": "look at its BMC"}),
    ],
)
def test_what_is_planned_is_written_with_its_reasons(
    found: Found, phase: str, boot_id: str, detail: object
) -> None:
    outcome: Outcome[Planned] = (
        Outcome("gpu3", found) if isinstance(found, Planned) else Outcome("gpu3", error=found)
    )
    assert told(planned_event(outcome)) == ("gpu3", phase, boot_id, detail)


@pytest.mark.parametrize("well", [True, False])
@pytest.mark.parametrize(
    ("outcome", "detail"),
    [
        (
            Outcome("gpu3", DONE),
            {"fails": [], "steps": ["DEPMOD: done"], "rebooted": True, "left": False},
        ),
        (Outcome("gpu3", BAD), {"fails": [NOW], "steps": [], "rebooted": False, "left": True}),
        (Outcome("gpu3", error=AWAY), {"error": "gpu3: away", "hint": "look at its BMC"}),
    ],
)
def test_how_a_turn_ended_is_written_with_what_fails(
    outcome: Outcome[Provisioned], detail: object, well: bool
) -> None:
    phase = "done" if well else "failed"
    assert told(ended_event(outcome, well)) == ("gpu3", phase, "", detail)


def test_words_of_others_are_written_so_that_any_reader_has_them() -> None:
    event = planned_event(Outcome("gpu3", error=TransportError("gpu3: é\udcff", hint="")))
    assert event.detail.isascii()


@pytest.mark.usefixtures("turns")
def test_every_host_has_its_outcome_and_only_what_is_to_be_done_has_a_turn(site: Site) -> None:
    agreed = in_batches(("gpu1",))
    rolled = site.roll(agreed, {"gpu1": PLANNED, "gpu2": NOTHING, "gpu3": AWAY})
    assert site.begun == ["gpu1"]
    assert rolled.outcomes["gpu1"].get() == DONE
    assert rolled.outcomes["gpu2"].get() == Provisioned(WELL, WELL)
    assert rolled.outcomes["gpu3"].error is AWAY
    assert site.ears.told == ["provisioning 1", "over"]
    events = [(each.host, each.phase) for each in site.story().events]
    assert events == [
        ("gpu1", "planned"),
        ("gpu2", "nothing to do"),
        ("gpu3", "out of reach"),
        ("gpu1", "begun"),
        ("gpu1", "done"),
    ]


@pytest.mark.parametrize(
    ("ends", "halt", "code", "demo"),
    [
        ({}, "", 0, False),
        ({}, "", 0, True),
        ({"gpu1": BAD}, "", 2, False),
        ({"gpu1": AWAY}, "", 4, False),
        ({"gpu1": BAD, "gpu2": AWAY}, "", 4, False),
        ({"gpu1": BAD}, "the canary gpu1 failed", 5, False),
    ],
)
def test_the_last_words_are_how_it_ended_and_what_vouches_for_it(
    site: Site,
    turns: dict[str, Provisioned | Exception],
    *,
    ends: dict[str, Provisioned | Exception],
    halt: str,
    code: int,
    demo: bool,
) -> None:
    turns |= ends
    agreed = in_batches(*((("gpu1",), ("gpu2",)) if halt else (("gpu1", "gpu2"),)))
    rolled = site.roll(agreed, {"gpu1": PLANNED, "gpu2": PLANNED}, demo=demo)
    (turn,) = site.story().turns
    assert (rolled.halt, turn.how, turn.code) == (halt, halt or "ended", code)
    (run,) = (each.parent for each in site.runs.glob("*/journal.sqlite"))
    with Journal.open(run) as journal:
        last = f"run {run.name}: exit {code}, chain {journal.head()}"
    assert site.log[1:] == ([] if demo else [last])
    assert ((run / DEMO).exists(), bool(site.log)) == (demo, not demo)


def test_a_run_that_was_interrupted_ends_with_that(site: Site) -> None:
    rolled = Rolled({"gpu1": Outcome("gpu1", DONE)}, interrupted=True)
    with Journal.create(site.runs / "run", ABOUT) as journal:
        journal.take_turn("op@here")
        rollout._last_words(journal, rolled)
    (turn,) = site.story().turns
    assert (turn.how, turn.code) == ("ended", ExitCode.INTERRUPTED)


def test_a_journal_that_broke_has_no_last_words_and_raises_nothing(site: Site) -> None:
    with Journal.create(site.runs / "run", ABOUT) as journal:
        journal.take_turn("op@here")
        journal._base.execute("PRAGMA query_only = 1")
        rollout._last_words(journal, Rolled({"gpu1": Outcome("gpu1", DONE)}))
    assert site.log == []


def test_progress_is_over_where_a_rollout_breaks(site: Site) -> None:
    class Broken:
        progress, terms = site.ears, Terms((("gpu1",), ("gpu2", "gpu3")), 9, 9, 9)

        def roll(self) -> Rolled[Provisioned]:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        rollout.roll(Broken(), "undoing")  # type: ignore[arg-type] # that alone is asked
    assert site.ears.told == ["undoing 3", "over"]


@pytest.mark.usefixtures("turns")
def test_one_that_goes_on_adds_who_is_new_and_begins_who_is_left(site: Site) -> None:
    folder = site.folder()
    site.roll(in_batches(("gpu1",), ("gpu2",)), {"gpu1": PLANNED, "gpu2": PLANNED}, folder=folder)
    site.begun.clear()
    past = {
        "gpu1": Past((Step("gpu1", Phase.DONE),)),
        "gpu2": Past((Step("gpu2", Phase.APPLYING),)),
    }
    agreed = replace(in_batches(("gpu1",), ("gpu2", "gpu3")), past=past)
    found: dict[str, Found] = {"gpu1": NOTHING, "gpu2": PLANNED, "gpu3": PLANNED}
    site.roll(agreed, found, folder=folder)
    assert site.begun == ["gpu2", "gpu3"]
    assert site.pasts["gpu2"] is past["gpu2"]
    more = replace(agreed, terms=Terms((("gpu4",), ("gpu5",)), 9, 9, 9))
    site.roll(more, {"gpu4": PLANNED, "gpu5": PLANNED}, folder=folder)
    story = site.story()
    assert story.batches == (("gpu1",), ("gpu2",), ("gpu3",), ("gpu4",), ("gpu5",))
    shown = [e.host for e in story.events if e.phase in {"planned", "nothing to do"}]
    assert shown == ["gpu1", "gpu2", "gpu3", "gpu4", "gpu5"]


# --- the books ---


@pytest.fixture
def books(site: Site, turns: dict[str, Provisioned | Exception]) -> Iterator[dict[str, object]]:
    """What the books have while a host's turn is."""
    seen: dict[str, object] = {}
    old = TurnWork.take_turn

    def take_turn(work: TurnWork, host: Host) -> Provisioned:
        now = books_of(site.runs)
        seen["limit"] = now.limit
        seen["held"] = sorted((each.node, each.held.value) for each in now.shares)
        return old(work, host)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TurnWork, "take_turn", take_turn)
        yield seen


@pytest.mark.parametrize(("budget", "limit"), [(2, 2), (1_000_000, None)])
def test_a_run_tells_the_others_its_limit_and_whom_it_cannot_reach(
    site: Site, books: dict[str, object], budget: int, limit: int | None
) -> None:
    agreed = in_batches(("gpu1",), budget=budget)
    site.roll(agreed, {"gpu1": PLANNED, "gpu2": NOTHING, "gpu3": AWAY})
    assert books["limit"] == limit
    assert books["held"] == [("gpu1", "in hand"), ("gpu3", "out of reach")]
    assert books_of(site.runs).shares == ()


def test_a_node_that_an_earlier_run_left_is_free_once_it_is_found_as_wanted(
    site: Site, turns: dict[str, Provisioned | Exception]
) -> None:
    turns |= dict.fromkeys(("gpu1", "gpu2", "gpu4"), replace(BAD, before=WELL))
    first: dict[str, Found] = dict.fromkeys(("gpu1", "gpu2", "gpu4"), PLANNED)
    site.roll(in_batches(tuple(first)), first)
    assert {each.node: each.why for each in books_of(site.runs).shares} == dict.fromkeys(
        first, f"worse than before: {NOW}"
    )
    unsure = replace(NOTHING, judged=judged(UNKNOWN))
    found: dict[str, Found] = {"gpu1": NOTHING, "gpu2": unsure, "gpu4": PLANNED, "gpu5": PLANNED}
    site.roll(in_batches(("gpu5",)), found)
    assert {each.node for each in books_of(site.runs).shares} == {"gpu2", "gpu4"}


@pytest.mark.usefixtures("turns")
def test_what_others_report_out_of_service_counts(site: Site) -> None:
    others = {"gpu8": "Slurm has it down"}
    agreed = replace(in_batches(("gpu1",), budget=1), reported=lambda: others)
    rolled = site.roll(agreed, {"gpu1": PLANNED})
    assert site.begun == []
    assert "gpu8" in rolled.halt


@pytest.mark.usefixtures("turns")
def test_simulated_nodes_share_no_budget(site: Site) -> None:
    asks = in_batches(("gpu1",), budget=1)
    agreed = replace(asks, reported=lambda: pytest.fail("others are asked"))
    assert site.roll(agreed, {"gpu1": PLANNED}, demo=True).outcomes["gpu1"].ok
    assert not list(site.runs.glob("budget*"))
