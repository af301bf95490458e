"""Send the engine to a node, to apply, take back or reboot; say what stands and what does not.

Takes plain text: what the script does was decided elsewhere.
"""

from __future__ import annotations

import shlex
from enum import StrEnum

from msgspec import Struct

from toolkit.errors import ApplyError, LockedError, StaleError, TransportError, UsageError
from toolkit.evidence import Evidence, Frame, State
from toolkit.node.audit import before_script
from toolkit.node.scripts import FOLDER
from toolkit.ssh.transport import Sink, Transport, quiet

_PARTS = (
    *("lock.sh", "undo.sh", "kept.sh", "prune.sh"),
    *("initramfs.sh", "menu.sh", "installs.sh", "again.sh", "signers.sh", "apply.sh"),
)
_CALLED_AS_A_FILE = "# --- called as a file"  # in apply.sh: what follows is for bundles on disk
_STALE = 65  # what apply.sh says of an expectation that does not hold
_AT_BOOT = ("UPDATE_BOOTLOADER ", "REBUILD_INITRAMFS ")  # triggers that the next boot shows
_TAIL = 12  # lines of a command's output that its error shows
_WIDTH = 80  # characters that progress shows


def engine() -> str:
    """The engine on the node as one script: what a bundle carries as its apply.sh.

    Its functions are within braces, else a cut in a name at column 0 runs what has that name.
    """
    whole = "\n".join((FOLDER / part).read_text("utf-8") for part in _PARTS)
    functions, mark, calls = whole.partition(_CALLED_AS_A_FILE)
    return f"#!/bin/sh\n{{\n{functions}}}\n\n{mark}{calls}"


def wrapper() -> str:
    """What sudo lets an account run that is not root: the probe, and signed bundles."""
    return "#!/bin/sh\n" + "\n".join(
        (FOLDER / x).read_text("utf-8") for x in ("signers.sh", "gdr_node.sh")
    )


def sudoers() -> str:
    """The rules for that: two accounts, of which one may only have the node read."""
    return (FOLDER / "gdr_node.sudoers").read_text("utf-8")


class StepState(StrEnum):
    DONE = "done"
    FAILED = "failed"
    NOT_BEGUN = "not begun"


class Step(Struct, frozen=True):
    """One step, as the node told of it."""

    call: str  # "place /etc/modules-load.d/gdr-toolkit.conf"
    state: StepState
    status: int = 0  # of the command, where it failed
    output: str = ""  # newline-ended lines: the system's own words
    ran: bool = False  # a command of the node's was started

    def __str__(self) -> str:
        return f"{self.call}: {self.state}"


class Applied(Struct, frozen=True):
    """A run of the engine that went through."""

    run: str  # its name in the node's journal, or several; "" where there was nothing to do
    steps: tuple[Step, ...]
    needs_reboot: bool = False  # what the boot loader or the initramfs say has changed
    pruned: tuple[str, ...] = ()  # what older runs keep no longer, a line each


def apply(
    transport: Transport,
    script: str,
    *,
    limit_s: float = 3600,
    sink: Sink = quiet,
    audit: str = "",
) -> Applied:
    """Carry out a bundle.

    :param script: of ``change.bundle.script``.
    :param audit: of ``reach.audit.of_run``, for the node's own journal.
    :param limit_s: enough for a DKMS build; the node goes on when we give up.
    :raises StaleError: the node is not as it was when the plan was made; nothing was touched.
    :raises LockedError: another run holds the node; nothing was touched.
    :raises ApplyError: a step failed, or the script did not run to its end.
    :raises TransportError: whether it ran to its end cannot be known.
    """
    result = transport.run(before_script(audit) + script, limit_s=limit_s, sink=sink)
    return _read(transport.name, Evidence.parse(result.stdout), result.stderr)


def rollback(
    transport: Transport,
    run: str = "last",
    *,
    wait_s: int = 60,
    limit_s: float = 3600,
    sink: Sink = quiet,
    audit: str = "",
) -> Applied:
    """Take back one run, the last one, or all of them.

    :param run: "last", "all", or a run's name in the journal.
    :raises UsageError: for what is no run of the node's, or cannot be one.
    :raises LockedError: another run holds the node; nothing was touched.
    :raises ApplyError: something could not be taken back; the rest was.
    :raises TransportError: whether it ran to its end cannot be known.
    """
    script = before_script(audit) + rollback_script(run, wait_s)
    result = transport.run(script, limit_s=limit_s, sink=sink)
    applied = _read(transport.name, Evidence.parse(result.stdout), result.stderr, back=True)
    if not applied.run and run not in {"last", "all"}:
        raise UsageError(
            f"{transport.name}: the journal has no run {run} that stands",
            hint="last, all, or one of /var/lib/gdr-toolkit/journal",
        )
    return applied


def rollback_script(run: str, wait_s: int) -> str:
    """What is sent for a rollback. Cut off at any byte, it runs nothing.

    :raises UsageError: for what cannot be the name of a run.
    """
    if not run.replace("-", "").isalnum():
        raise UsageError(f"no run is named {run!r}", hint="last, all, or one of the journal's")
    return _call(f"rollback {run} {wait_s}")


def restart(
    transport: Transport, boot_id: str, *, wait_s: int = 60, by_itself: bool = True
) -> None:
    """Have the node reboot, under its lock; the boot gives the lock back.

    :param boot_id: the one it had when it was looked at; another one is reason not to.
    :param by_itself: False where its BMC will reset it: then the lock is kept for that, and
        nothing else is done; see ``release``.
    :raises StaleError: the node was booted again since; it was not rebooted.
    :raises LockedError: another run holds the node; it was not rebooted.
    :raises ApplyError: the node cannot keep its own state.
    :raises TransportError: it refused, or whether it heard cannot be known.
    """
    script = restart_script(boot_id, wait_s, by_itself=by_itself)
    result = transport.run(script, limit_s=wait_s + 30)
    evidence = Evidence.parse(result.stdout)
    try:
        _refused(transport.name, evidence)
    except (LockedError, StaleError) as why:
        raise type(why)(str(why), hint="it was not rebooted; run again when that is over") from why
    frame = evidence.frames.get("restart")
    if frame is None or frame.state is not State.OK:
        raise TransportError(
            f"{transport.name}: refuses to reboot: {result.stderr.strip() or result.exit}",
            hint="nothing was lost; reboot it by hand, then run again",
        )


def restart_script(boot_id: str, wait_s: int, *, by_itself: bool = True) -> str:
    """What is sent for a reboot. Cut off at any byte, it reboots nothing."""
    call = _call(f"restart {shlex.quote(boot_id)} {wait_s}")
    return call if by_itself else call.replace("stage=''\n", "stage=''\ngoing_down() { :; }\n")


def release(transport: Transport) -> None:
    """Give back the lock that ``restart`` kept for a reset which is not to come.

    :raises TransportError: the node cannot be reached; it forgets such a lock by itself.
    """
    transport.run(RELEASE, limit_s=30)


RELEASE = """#!/bin/sh
lock=${GDR_ROOT%/}/var/lib/gdr-toolkit/lock
case $(readlink "$lock") in 1,*,'rebooting for '*) rm -f "$lock" ;; esac
"""


def _call(words: str) -> str:
    body = engine().partition(_CALLED_AS_A_FILE)[0]
    return f"{body}stage=''\ngdr_apply {words} end\n"


def _read(host: str, evidence: Evidence, stderr: str, *, back: bool = False) -> Applied:
    _refused(host, evidence)
    # The steps in their order; a command's output stands in a frame of its own.
    frames = evidence.frames
    steps = tuple(
        _step(frame, frames.get(f"{key}.output"))
        for key, frame in frames.items()
        if key[:1].isdigit() and not key.endswith(".output")
    )
    failed = [step for step in steps if step.state is StepState.FAILED]
    if failed or not evidence.complete:
        raise _stopped_back(host, failed, stderr) if back else _stopped(host, steps, stderr)
    if any(step.state is StepState.NOT_BEGUN for step in steps):
        raise ApplyError(f"{host}: stopped by a signal; {_standing(steps)}", hint=_next(host))
    runs = [frame for key, frame in evidence.frames.items() if key.startswith("run")]
    told = [step.call for step in steps] + [line for f in runs for line in f.text.split("\n")]
    reboot = any(line.startswith(_AT_BOOT) for line in told)
    pruned = evidence.frames.get("pruned")
    lines = tuple(pruned.text.split("\n")[:-1]) if pruned else ()
    return Applied(" ".join(frame.source for frame in runs), steps, reboot, lines)


def _refused(host: str, evidence: Evidence) -> None:
    """Raise what kept the run from touching anything."""
    lock = evidence.frames.get("lock")
    if lock is not None:
        raise LockedError(
            f"{host}: {lock.text.strip() or 'another run holds the node'}",
            hint="nothing was touched; wait for it, or find out what became of it",
        )
    unsigned = evidence.frames.get("signature")
    if unsigned is not None:
        raise ApplyError(
            f"{host}: {unsigned.text.strip()}",
            hint="nothing was touched; sign_key in the site's file: docs/least-privilege.md",
        )
    for key in ("state", "unpack", "steps"):
        trouble = evidence.frames.get(key)
        if trouble is not None:
            raise ApplyError(
                f"{host}: {trouble.source}: {trouble.text.strip() or 'cannot be written'}",
                hint="nothing was touched",
            )
    for frame in evidence.frames.values():
        if frame.state is State.FAILED and frame.exit == _STALE and ".expect" in frame.key:
            raise StaleError(
                f"{host}: {frame.text.strip()}",
                hint=f"nothing was touched; plan again: ./invokew plan --hosts {host}",
            )


def _step(frame: Frame, output: Frame | None) -> Step:
    text = (output.text if output else "") + frame.text
    match frame.state:
        case State.OK:
            return Step(frame.source, StepState.DONE, output=text, ran=output is not None)
        case State.ABSENT:
            return Step(frame.source.removeprefix("not begun: "), StepState.NOT_BEGUN)
    return Step(frame.source, StepState.FAILED, frame.exit, text, output is not None)


def _stopped(host: str, steps: tuple[Step, ...], stderr: str) -> ApplyError:
    """What failed, in the node's own words; what stands, and what was not begun."""
    failed = next((step for step in steps if step.state is StepState.FAILED), None)
    if failed is None:
        return ApplyError(
            f"{host}: the script broke off; {_standing(steps)}\n{_tail(stderr)}".rstrip(),
            hint="the next run clears up what this one left half done; apply again",
        )
    return ApplyError(
        f"{host}: {failed.call} ended with status {failed.status}; {_standing(steps)}\n"
        f"{_tail(failed.output)}".rstrip(),
        hint=_next(host),
    )


def _stopped_back(host: str, failed: list[Step], stderr: str) -> ApplyError:
    """What could not be taken back; a rollback goes on past each trouble."""
    lines = [f"{step.call}: {_tail(step.output) or f'status {step.status}'}" for step in failed]
    what = "\n".join(lines) or f"the script broke off\n{_tail(stderr)}"
    return ApplyError(
        f"{host}: not all was taken back: {what}".rstrip(),
        hint=f"mend it by hand or roll back again: ./invokew rollback --hosts {host}",
    )


def _standing(steps: tuple[Step, ...]) -> str:
    """ "3 steps before it stand, 2 were not begun"; what only looks or notes is not counted."""
    if not steps:
        return "nothing is known to stand"
    looks = ("expect ", "keep ", "temps ", "undo ")
    acts = [step for step in steps if not step.call.startswith(looks)]
    done = sum(step.state is StepState.DONE for step in acts)
    waiting = sum(step.state is StepState.NOT_BEGUN for step in acts)
    stand = f"{done} step{'s' * (done > 1)} before it stand{'s' * (done == 1)}"
    later = f", {waiting} {'was' if waiting == 1 else 'were'} not begun" if waiting else ""
    if not done:
        stand = "no step before it" if any(step.ran for step in acts) else "nothing was touched"
    return stand + later


def _next(host: str) -> str:
    return f"mend the cause and apply again, or go back: ./invokew rollback --hosts {host}"


def _tail(text: str) -> str:
    return "\n".join(text.rstrip("\n").split("\n")[-_TAIL:])


def heard(line: str) -> str:
    """The words of one line: a step's call, or a line of its command; "" for all else.

    :param line: of the grammar that nodes speak, without its newline.
    """
    if line.startswith("|"):
        return line[1 : _WIDTH + 1]
    words = line.split(" ", 3)
    if words[0] == "=" and len(words) == 4 and words[1][:1].isdigit():
        return words[3][:_WIDTH]
    return ""


def image_runner(runner: str) -> str:
    """The file. Cut off at any byte, it runs nothing.

    :param runner: of ``change.bundle.runner``, plain text.
    """
    parts = [
        "#!/bin/sh\n{",
        _printing("gdr_view", (FOLDER / "media.sh").read_text("utf-8")),
        _printing("gdr_runner", runner),
        (FOLDER / "image_run.sh").read_text("utf-8"),
        "}",
        'in_image "$@"\n',
    ]
    return "\n".join(parts)


def _printing(name: str, text: str) -> str:
    end = f"{name.upper()}_ENDS"
    return f"{name}() {{\ncat <<'{end}'\n{text}{end}\n}}"


def must_have_begun(host: str, evidence: Evidence) -> None:
    """Raise where the lock was not to be had.

    :raises LockedError: another run holds the node; nothing was touched.
    :raises ApplyError: the node has no place for a lock; nothing was touched.
    """
    frames = evidence.frames
    if "lock" in frames:
        raise LockedError(
            f"{host}: {frames['lock'].text.strip() or 'another run holds the node'}",
            hint="nothing was touched; wait for it, or find out what became of it",
        )
    if "state" in frames:
        raise ApplyError(
            f"{host}: {frames['state'].source}: cannot be written, so nobody can hold the node",
            hint="nothing was touched; see that the disk is neither full nor read-only",
        )
