"""Boot a changed command line once; only what works there may become the default."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from toolkit.checks.check import Status
from toolkit.errors import ApplyError, ToolkitError, TransportError
from toolkit.facts.boot.next_boot import TrialOutcome
from toolkit.node import deliver
from toolkit.node.reboot import note, reboot
from toolkit.plan.bundle import script
from toolkit.plan.decide_boot import FORGET
from toolkit.plan.trial import Trial
from toolkit.rollout.events import Witness
from toolkit.rollout.plan.batches import Phase
from toolkit.ssh.transport import Sink, Transport
from toolkit.verbs.plan import Planned, sealed

APPLY_S = 600.0  # update-grub; os-prober may look at many disks


class Hands(Struct, frozen=True):
    """How one node is reached and looked at."""

    name: str
    transport: Transport
    witness: Witness
    lock_s: int  # how long to wait for another run
    reboot_s: float
    say: Callable[[str], None]
    log: Sink
    look: Callable[[], Planned]
    settle: Callable[[], Planned]  # looks until the node is no worse than before, or time is up
    busy: Callable[[], str]  # whose jobs a reboot would end; "" for nobody's
    worse: Callable[[Planned], set[str]]  # what is worse than it was before
    audit: str = ""  # who has it done, and why


def attempt(hands: Hands, start: Planned, trial: Trial) -> Planned:
    """Boot the trial once, and look.

    :param start: the node before it, with the trial's bundle.
    :returns: the node in that boot, its entry gone from the menu: what to keep is in the plan.
    :raises ApplyError: it was given up, and the node has its old command line again.
    :raises StaleError: the node is not as it was when the plan was made; nothing was touched.
    :raises TransportError: it did not come back; its next reset boots the old entry.
    """
    run = _enter(hands, start, trial)
    note(hands.transport, trial.id, TrialOutcome.OPEN, start.boot_id)
    _reboot(hands, start.boot_id)
    deliver.rollback(hands.transport, run, wait_s=hands.lock_s, sink=hands.log, audit=hands.audit)
    now = hands.settle()
    if trial.mark not in now.lines.running:
        why = "it came back on its old entry"
        raise _given_up(hands, trial, why, TrialOutcome.GIVEN_UP)
    why = _unfit(hands, start, now)
    if why:
        _leave(hands, start, now, trial, why)
    note(hands.transport, trial.id, "")
    return now


def _enter(hands: Hands, start: Planned, trial: Trial) -> str:
    """Put the trial into the menu, for one boot. Returns the run, by which it is taken away."""
    if start.trial is None:
        raise ToolkitError(
            f"{hands.name}: a trial without its bundle",
            hint="attach the run's folder to a bug report",
        )
    hands.say(f"trying {trial.told}")
    runs: list[str] = []

    def log(line: str) -> None:
        words = line.split(" ", 3)
        if words[:3] == ["=", "run", "ok"] and len(words) == 4:
            runs.append(words[3])
        hands.log(line)

    hands.witness.about_to(Phase.APPLYING, start.boot_id)
    try:
        sent = script(sealed(start.trial), wait_s=hands.lock_s)
        deliver.apply(hands.transport, sent, limit_s=APPLY_S, sink=log, audit=hands.audit)
        now = hands.look()
        if why := _misread(now, trial):
            raise ApplyError(
                f"{hands.name}: {why}; nothing was booted, and the menu is as it was",
                hint="update-grub would change more than is asked for: see to that first",
            )
    except ApplyError:
        for each in runs:
            deliver.rollback(
                hands.transport, each, wait_s=hands.lock_s, sink=hands.log, audit=hands.audit
            )
        raise
    return runs[-1]


def _misread(now: Planned, trial: Trial) -> str:
    """Why the menu that was made is not the one that was meant; "" where it is."""
    lines = now.lines
    if lines.usual != trial.before:
        return f"its default entry would have changed to: {' '.join(lines.usual)}"
    if not {*trial.words, trial.mark} <= set(lines.once):
        return "the loader was told of the trial, and would not boot it next"
    return ""


def _reboot(hands: Hands, boot_id: str) -> None:
    hands.witness.about_to(Phase.REBOOTING, boot_id)
    try:
        reboot(
            hands.transport,
            boot_id,
            wait_s=hands.lock_s,
            limit_s=hands.reboot_s,
            note=hands.say,
        )
    except TransportError as why:
        raise TransportError(
            f"{why}; that was a trial, and its next reset boots the old entry",
            hint="reset it by its BMC, then look: doctor; nothing else was touched",
        ) from why


def _unfit(hands: Hands, start: Planned, now: Planned) -> str:
    """Why what was tried is not worth keeping; "" where it is."""
    if worse := hands.worse(now):
        return f"with it these were worse: {', '.join(sorted(worse))}"
    before = {each.artefact for each in start.plan.blocked}
    blocked = [each for each in now.plan.blocked if each.artefact not in before]
    return next((each.reason for each in blocked if each.artefact.startswith("boot.")), "")


def _leave(hands: Hands, start: Planned, now: Planned, trial: Trial, why: str) -> None:
    """Back to the old entry, which is the default still.

    :raises ApplyError: always: the trial was given up.
    """
    error = _given_up(hands, trial, why, _outcome(hands, now, trial))
    if jobs := hands.busy():
        raise ApplyError(
            f"{hands.name}: tried {trial.told}: {why}; it runs with that still: {jobs}",
            hint=f"once the job has ended, reboot it: its default is {trial.old}",
        )
    hands.say(f"going back to {trial.old}")
    _reboot(hands, now.boot_id)
    after = hands.settle()
    if after.lines.running != start.lines.running:
        raise ApplyError(
            f"{hands.name}: {why}; its command line is now: {' '.join(after.lines.running)}",
            hint="it is not the one from before the trial: look at its boot menu",
        )
    raise error


def _outcome(hands: Hands, now: Planned, trial: Trial) -> TrialOutcome:
    """Whether the trial was seen to be worse, or could not be read and may be tried once more.

    Evidence that breaks off may be the link's doing or the argument's: twice is the argument's.
    """
    failing = {verdict.check.id for verdict in now.judged.having(Status.FAIL)}
    seen = now.judged.complete or failing & hands.worse(now)
    return TrialOutcome.GIVEN_UP if seen or trial.last else TrialOutcome.UNREAD


def _given_up(hands: Hands, trial: Trial, why: str, outcome: TrialOutcome) -> ApplyError:
    """Have the node remember it, so that no later run tries or keeps it unasked."""
    note(hands.transport, trial.id, outcome, why)
    again = "its evidence broke off: run again once the link holds; it is tried once more"
    hint = again if outcome is TrialOutcome.UNREAD else FORGET
    back = f"it is on {trial.old}, and nothing else was touched"
    return ApplyError(f"{hands.name}: tried {trial.told}: {why}; {back}", hint=hint)
