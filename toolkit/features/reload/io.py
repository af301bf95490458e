"""Have a node take modules out and put them back, where it is still as it was judged."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

from toolkit.errors import StaleError, TransportError
from toolkit.evidence import Evidence, State
from toolkit.node.audit import before_script
from toolkit.node.collect import patience
from toolkit.node.deliver import must_have_begun
from toolkit.node.scripts import assembled
from toolkit.ssh.transport import Sink, Transport, quiet

_PARTS = ("frames.sh", "routes.sh", "holding.sh", "lock.sh", "reload.sh")
_NOT_JUDGED = ("uid", "begin", "end")
_TAIL = 6  # lines of a command's words that are shown


class ReloadAct(StrEnum):
    """What a step did."""

    UNLOAD = "unload"
    BACK = "back"  # put back, since a later one could not be unloaded
    LOAD = "load"


class ReloadStep(Struct, frozen=True):
    """One module taken out or put back, as the node told of it."""

    act: ReloadAct
    module: str
    ok: bool
    words: str = ""  # the kernel's or modprobe's own, where it failed

    def __str__(self) -> str:
        how = "done" if self.ok else f"failed: {self.words}"
        return f"{self.act} {self.module}: {how}"


class Done(Struct, frozen=True):
    """A run that was carried out, well or badly."""

    steps: tuple[ReloadStep, ...]
    loaded: frozenset[str]  # modules that the node has now
    rebooting: bool = False  # our address stayed away, so the node is on its way to its boot


def guard_sum(
    look: Evidence, modules: Sequence[str] = (), left_out: Collection[str] = _NOT_JUDGED
) -> str:
    """What a look's judgement rests on, as reload.sh and domains.sh sum it up again.

    :param modules: the lines of these alone count, of the frame that lists all.
    :param left_out: keys of frames that no judgement rests on.
    """
    lines: list[str] = []
    for frame in look.frames.values():
        if frame.key in left_out:
            continue
        lines.append(f"= {frame.key}")
        body = frame.text.split("\n")[:-1]
        if frame.key == "modules":
            body = [line for line in body if line.split(" ", 1)[0] in modules]
        lines += [f"|{line}" for line in body]
    text = "".join(f"{line}\n" for line in lines)
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def script(
    look: Evidence,
    unload: Sequence[str],
    load: Sequence[str],
    ours: Sequence[str] = (),
    *,
    wait_s: int = 60,
    audit: str = "",
) -> str:
    """The whole script. Cut off at any byte, it runs nothing.

    :param audit: of ``reach.audit.of_run``, for the node's own log.
    """
    words = [guard_sum(look, [*unload, *load]), str(wait_s), *map(" ".join, (unload, load, ours))]
    return assembled(_PARTS, f"gdr_reload {shlex.join(words)} end", before=before_script(audit))


def carry_out(
    transport: Transport, text: str, *, limit_s: float = 1800, sink: Sink = quiet
) -> tuple[Done, Evidence]:
    """Run it; the node's own look, under its lock, comes with it.

    :param text: of ``script``.
    :raises Changed: something depends on the modules that did not before; nothing was touched.
    :raises LockedError: another run holds the node; nothing was touched.
    :raises ApplyError: the node has no place for a lock; nothing was touched.
    :raises TransportError: whether it ran to its end cannot be known.
    """
    result = transport.run(text, limit_s=limit_s * patience(), sink=sink)
    evidence = Evidence.parse(result.stdout)
    frames = evidence.frames
    must_have_begun(transport.name, evidence)
    if "expect" in frames:
        raise ChangedUnderHand(transport.name, evidence)
    if not evidence.complete or "modules-after" not in frames:
        raise TransportError(
            f"{transport.name}: the script broke off, with status {result.exit}",
            hint="the node goes on with what it began: look again, reload --check",
        )
    after = frames["modules-after"].text.split("\n")
    loaded = frozenset(line.split(" ", 1)[0] for line in after if line)
    return Done(_steps(evidence), loaded, "restart" in frames), evidence


class ChangedUnderHand(StaleError):
    """The node is not as it was judged: nothing was touched. It comes with the new look."""

    def __init__(self, host: str, look: Evidence) -> None:
        super().__init__(
            f"{host}: who depends on the modules has changed since it was looked at",
            hint=f"nothing was touched; look again: reload --check --hosts {host}",
        )
        self.look = look


def _steps(evidence: Evidence) -> tuple[ReloadStep, ...]:
    found = []
    for key, frame in evidence.frames.items():
        number, _, act = key.partition(".")
        if number.isdigit() and act in set(ReloadAct):
            words = frame.text.strip().split("\n")[-_TAIL:]
            if frame.state is State.TIMEOUT:
                words = ["no answer in time, abandoned"]
            module = frame.source.rpartition(" ")[2]
            ok = frame.state is State.OK
            found.append(ReloadStep(ReloadAct(act), module, ok, "" if ok else "; ".join(words)))
    return tuple(found)
