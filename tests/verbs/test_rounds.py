"""The rounds on one node: what is applied, asked, booted and looked at, in which order."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from msgspec import Struct, field
from msgspec.structs import replace

from tests.evidence.build import node
from tests.rollout.test_hook import Told
from tests.verbs.test_provision_worse import FAIL, NOW, WELL, judged
from tests.verbs.test_turns import HOST, Clock
from toolkit.checks.judged import Judged
from toolkit.errors import StaleError, ToolkitError, TransportError
from toolkit.facts.boot.next_boot import MARK
from toolkit.node import deliver
from toolkit.node.deliver import Applied, Step, StepState
from toolkit.plan.artefact import Trigger
from toolkit.plan.bundle import Bundle
from toolkit.plan.change import Change
from toolkit.plan.plan import Plan
from toolkit.plan.trial import CommandLines, Trial
from toolkit.progress import Silent
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Sink
from toolkit.verbs import provision
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.plan import NO_CHANGE, Planned
from toolkit.verbs.provision import NodeRounds, ProvisionOptions
from toolkit.verbs.trial import Hands
from toolkit.want import Want

TRIAL = Trial("1", ("iommu=pt",), (), (), cast("Change", None), ())
FILES, OTHER = Plan(triggers=(Trigger.DEPMOD,)), Plan(triggers=(Trigger.REBUILD_INITRAMFS,))
BOTH, BOOT = Plan(triggers=(Trigger.DEPMOD, Trigger.REBOOT)), Plan(triggers=(Trigger.REBOOT,))
TRIED = replace(BOTH, trial=TRIAL)
MANY = [replace(FILES, family=str(at)) for at in range(8)]  # each is another one
BUNDLE = Bundle((), (), "{}", "")
APPLY, REBOOT = ["applying b1", "apply"], ["rebooting b1", "reboot b1"]
LOOK, JOBS, TRY = ["look"], ["jobs"], ["try"]
ILL = judged(FAIL)
Found = Plan | ToolkitError | Judged


class Node(Told, Silent):
    """A node, the witness of what is done to it, and who listens."""

    name = "gpu1"
    was_booted = False

    def about_to(self, phase: str, boot_id: str = "") -> None:
        self.heard.append(f"{phase} {boot_id}".rstrip())

    def ran(self, run: str) -> None:
        self.heard.append(f"ran {run}")

    def booted(self, boot_id: str) -> bool:
        assert boot_id == "b1"
        return self.was_booted

    def note(self, host: str, text: str) -> None:
        assert host == "gpu1"
        self.heard.append(f"note: {text}")


class RoundsCase(Struct):
    """What each look finds, and what is done then; the first is what was agreed to."""

    found: list[Found]
    heard: list[str]
    reboot: bool = False
    jobs: str = ""
    over_jobs: bool = False
    booted: bool = False
    stale: int = 0  # so often the node is not as it was when it was planned for
    left: Plan | None = None
    busy: str = ""
    plans: list[Plan] = field(default_factory=list)


def planned(found: Found, *, marked: bool = False) -> Planned:
    if isinstance(found, ToolkitError):
        raise found
    lines = CommandLines((f"{MARK}=9",)) if marked else CommandLines()
    plan = found if isinstance(found, Plan) else FILES
    bundle = None if plan in {NO_CHANGE, BOOT} else BUNDLE
    now = WELL if isinstance(found, Plan) else found
    return Planned(now, plan, bundle, "b1", lines=lines)


def rounds(node: Node, runs: Path, options: ProvisionOptions | None = None) -> NodeRounds:
    fleet = Fleet((HOST,), lambda _: pytest.fail("it is reached"), Access(progress=node))
    folder = RunFolder(runs, "provision", datetime.now(UTC))
    return NodeRounds(
        HOST, node, fleet, Want(), WELL.today, options or ProvisionOptions(), folder, node
    )


def looks(monkeypatch: pytest.MonkeyPatch, found: list[Found]) -> None:
    def look(at: NodeRounds) -> Planned:
        cast("Node", at.transport).heard.append("look")
        return planned(found.pop(0) if len(found) > 1 else found[0])

    monkeypatch.setattr(NodeRounds, "_look", look)


@pytest.mark.parametrize(
    "case",
    [
        RoundsCase([NO_CHANGE], []),
        RoundsCase([FILES, NO_CHANGE], [*APPLY, *LOOK], plans=[FILES]),
        RoundsCase([FILES, OTHER, NO_CHANGE], [*APPLY, *LOOK, *APPLY, *LOOK], plans=[FILES, OTHER]),
        RoundsCase([FILES, FILES], [*APPLY, *LOOK], left=FILES, plans=[FILES]),
        RoundsCase([*MANY], [*APPLY, *LOOK] * 6, left=MANY[6], plans=MANY[:6]),
        RoundsCase([BOTH, BOOT], [*APPLY, *LOOK], left=BOOT, plans=[BOTH]),
        RoundsCase([BOTH, NO_CHANGE], [*APPLY, *LOOK], plans=[BOTH]),
        RoundsCase([BOTH, NO_CHANGE], [*APPLY, *JOBS, *REBOOT, *LOOK], reboot=True, plans=[BOTH]),
        RoundsCase(
            [BOTH, BOOT],
            [*APPLY, *JOBS, *LOOK],
            reboot=True,
            jobs="at work: a",
            busy="at work: a",
            left=BOOT,
            plans=[BOTH],
        ),
        RoundsCase(
            [BOTH, NO_CHANGE],
            [*APPLY, *REBOOT, *LOOK],
            reboot=True,
            jobs="at work: a",
            over_jobs=True,
            plans=[BOTH],
        ),
        RoundsCase(
            [BOTH, BOOT], [*APPLY, *LOOK], reboot=True, booted=True, left=BOOT, plans=[BOTH]
        ),
        RoundsCase([BOOT, NO_CHANGE], [*JOBS, *REBOOT, *LOOK], reboot=True),
        RoundsCase([BOOT, BOOT], [*LOOK], left=BOOT),
        RoundsCase(
            [TRIED, FILES, NO_CHANGE], [*JOBS, *TRY, *APPLY, *LOOK], reboot=True, plans=[FILES]
        ),
        RoundsCase([TRIED, NO_CHANGE], [*JOBS, *TRY], reboot=True, booted=True),
        RoundsCase(
            [TRIED, TRIED],
            [*JOBS, *APPLY, *LOOK],
            reboot=True,
            jobs="at work: a",
            busy="at work: a",
            left=TRIED,
            plans=[TRIED],
        ),
        RoundsCase([TRIED, TRIED], [*APPLY, *LOOK], left=TRIED, plans=[TRIED]),
        RoundsCase([FILES, NO_CHANGE], [*APPLY, *LOOK], stale=1),
        RoundsCase(
            [BOTH, FILES, NO_CHANGE], [*APPLY, *LOOK, *APPLY, *LOOK], stale=1, plans=[FILES]
        ),
    ],
    ids=[
        "nothing",
        "at-once",
        "in-two-rounds",
        "stays-to-be-done",
        "never-ends",
        "a-reboot-is-owed",
        "a-reboot-was-owed",
        "reboots",
        "a-job",
        "over-a-job",
        "was-booted-for-it",
        "needs-a-reboot-alone",
        "owes-a-reboot-alone",
        "a-trial",
        "a-trial-has-its-boot",
        "a-trial-and-a-job",
        "a-trial-without-leave",
        "others-did-it",
        "others-did-some-of-it",
    ],
)
def test_a_node_is_brought_in_rounds(
    case: RoundsCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, found = Node(), list(case.found)
    at.was_booted = case.booted
    stale = [StaleError("gpu1: another boot", hint="")] * case.stale

    def apply(*_: object, **__: object) -> Applied:
        at.heard.append("apply")
        if stale:
            raise stale.pop()
        return Applied("r1", (Step("DEPMOD", StepState.DONE),), pruned=("run r0",))

    def jobs(transport: object) -> str:
        assert transport is at
        at.heard.append("jobs")
        return case.jobs

    def attempt(hands: Hands, start: Planned, trial: Trial) -> Planned:
        assert (start.plan, trial) == (TRIED, TRIAL)
        at.heard.append("try")
        return planned(found.pop(0))

    def reboot(_: object, boot_id: str, **how: object) -> None:
        assert (how.pop("wait_s"), how.pop("limit_s")) == (7, 900.0)
        at.heard.append(f"reboot {boot_id}")

    looks(monkeypatch, found)
    monkeypatch.setattr(deliver, "apply", apply)
    monkeypatch.setattr(provision, "who_works", jobs)
    monkeypatch.setattr(provision, "attempt", attempt)
    monkeypatch.setattr(provision, "reboot", reboot)
    options = ProvisionOptions(case.reboot, case.over_jobs, lock_s=7)
    done = rounds(at, tmp_path, options).bring(planned(found.pop(0)))
    assert [each for each in at.heard if not each.startswith("note: ")] == case.heard
    assert (done.left, done.busy, list(done.plans)) == (case.left, case.busy, case.plans)
    assert done.rebooted is bool({"try", "reboot b1"} & {*case.heard})
    assert done.reboot_owed is (case.left is not None and Trigger.REBOOT in case.left.triggers)
    went = len(case.plans) if "apply" in case.heard else 0
    assert done.steps == ("DEPMOD: done",) * went
    assert done.pruned == ("run r0",) * went


@pytest.mark.parametrize("how", ["look", "try", "stale", "reboot", "left"])
def test_what_was_seen_last_is_what_the_node_is(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state before stays beside it."""
    at, after = Node(), replace(WELL, host="as it is now")
    now = Planned(after, BOOT if how == "left" else NO_CHANGE, boot_id="b1")

    def apply(*_: object, **__: object) -> Applied:
        if how == "stale":
            raise StaleError("gpu1: another boot", hint="")
        return Applied("r1", ())

    monkeypatch.setattr(NodeRounds, "_look", lambda _: now)
    monkeypatch.setattr(deliver, "apply", apply)
    monkeypatch.setattr(provision, "who_works", lambda _: "")
    monkeypatch.setattr(provision, "attempt", lambda *_: now)
    monkeypatch.setattr(provision, "reboot", lambda *_, **__: "")
    plan = {"try": TRIED, "reboot": BOTH, "left": BOTH}.get(how, FILES)
    options = ProvisionOptions(reboot=how in {"try", "reboot"})
    done = rounds(at, tmp_path, options).bring(planned(plan))
    assert (done.before, done.after) == (WELL, after)


@pytest.mark.parametrize("marked", [False, True])
def test_what_is_sent_is_the_sealed_bundle_with_who_has_it_done(
    marked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the trial of a run that died is forgotten by the node: it is the default now."""
    at = Node()

    def apply(link: object, script: str, *, sink: Sink, **how: object) -> Applied:
        assert (link, script, how) == (at, "signed, 7", {"limit_s": 3600.0, "audit": "who=op"})
        sink("= run ok r7")
        sink("= run failed r8")
        sink("= run ok")
        sink("= 3 ok DEPMOD depmod -a")
        sink("| what it says")
        sink("= end ok 3")
        return Applied("r7", ())

    signed = replace(BUNDLE, signature="signed")
    monkeypatch.setattr(provision, "sealed", lambda bundle: signed if bundle is BUNDLE else None)
    monkeypatch.setattr(provision, "script", lambda b, wait_s: f"{b.signature}, {wait_s}")
    monkeypatch.setattr(deliver, "apply", apply)
    monkeypatch.setattr(
        provision, "note", lambda _, name, how: at.heard.append(f"{name} is {how or 'no more'}")
    )
    looks(monkeypatch, [NO_CHANGE])
    rounds(at, tmp_path, ProvisionOptions(lock_s=7, audit="who=op")).bring(
        planned(FILES, marked=marked)
    )
    assert at.heard == [
        "applying b1",
        "note: applying",
        "ran r7",
        "note: DEPMOD depmod -a",
        "note:  what it says",
        *["9 is no more"] * marked,
        "look",
    ]


MORE = TransportError("gpu1: away")
WAIT = "note: another run is at work here"


@pytest.mark.parametrize(
    ("found", "heard"),
    [
        ([FILES], ["look"]),
        ([NO_CHANGE], ["look"]),
        ([BOOT, FILES], ["look", WAIT, "look"]),
        ([MORE, MORE, FILES], [*["look", "closed", WAIT] * 2, "look"]),
        ([ILL, WELL], ["look", f"note: waiting for {NOW}"[:86], "look"]),
    ],
    ids=["as-agreed", "is-done", "is-at-work", "boots", "comes-up"],
)
def test_after_another_run_the_node_is_looked_at_until_no_more_is_to_be_done_than_was_agreed(
    found: list[Found], heard: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = Node()
    looks(monkeypatch, list(found))
    monkeypatch.setattr(provision, "time", clock := Clock())
    now = rounds(at, tmp_path)._look_after_others(planned(FILES))
    assert (at.heard, now) == (heard, planned(found[-1]))
    assert clock.slept == [2.0] * sum(each.startswith("note") for each in heard)


@pytest.mark.parametrize(
    ("found", "why", "closed"),
    [(OTHER, "more is to be done now", 0), (MORE, "away", 8)],
)
def test_and_is_given_up_after_eight_looks(
    found: Found, why: str, closed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = Node()
    looks(monkeypatch, [found])
    monkeypatch.setattr(provision, "time", Clock())
    with pytest.raises(ToolkitError, match=f"gpu1: .*{why}"):
        rounds(at, tmp_path)._look_after_others(planned(FILES))
    assert [at.heard.count(each) for each in ("look", "closed")] == [8, closed]


def test_a_node_that_stays_worse_is_waited_for_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = Node()
    looks(monkeypatch, [ILL])
    monkeypatch.setattr(provision, "time", clock := Clock())
    assert rounds(at, tmp_path)._look_settled(planned(WELL)).judged is ILL
    assert len(clock.slept) == 4  # of 51 s each: more than 180
    at.heard.clear()
    rounds(at, tmp_path)._look_settled(planned(ILL))
    assert at.heard == ["look"]  # what failed before is not waited for


def test_a_look_is_written_down_kept_and_planned_for_as_the_first_one_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, evidence, asked = Node(), node(), list[tuple[object, ...]]()
    shelf = object()

    def plan_node(*words: object, untried: bool) -> Planned:
        asked.append((*words, untried))
        return planned(FILES)

    monkeypatch.setattr(provision, "collect", lambda link: evidence if link is at else None)
    monkeypatch.setattr(provision, "plan_node", plan_node)
    options = ProvisionOptions(shelf=shelf, untried=True)  # type: ignore[arg-type] # a name for it
    assert rounds(at, tmp_path, options)._look() == planned(FILES)
    assert asked == [("gpu1", evidence, Want(), WELL.today, shelf, True)]
    assert at.heard == ["looking", "note: looking again"]
    (kept,) = tmp_path.glob("*/gpu1.after.evidence")
    assert kept.read_text() == evidence.dump()


@pytest.mark.parametrize("over_jobs", [False, True])
def test_a_trial_is_in_the_hands_of_the_same_run(
    over_jobs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = Node()
    options = ProvisionOptions(over_jobs=over_jobs, lock_s=7, audit="who=op")
    own = rounds(at, tmp_path, options)
    hands = own._hands(planned(WELL))
    assert (hands.name, hands.transport, hands.witness) == ("gpu1", at, at)
    assert (hands.lock_s, hands.reboot_s, hands.audit) == (7, 900.0, "who=op")
    monkeypatch.setattr(provision, "who_works", lambda _: "at work: a")
    assert hands.busy() == ("" if over_jobs else "at work: a")
    assert hands.worse(planned(ILL)) == {NOW}
    hands.say("trying")
    hands.log("= run ok r7")
    assert at.heard == ["note: trying", "ran r7"]
    monkeypatch.setattr(provision, "time", Clock())
    looks(monkeypatch, [ILL, WELL, WELL])
    assert hands.settle().judged is WELL
