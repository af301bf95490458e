"""All that is known of one node at one moment: from it, its BMC, and an earlier run."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import NoReturn, TypeVar

from toolkit.errors import ApplyError, NoEvidence, Outcome, Unparsable
from toolkit.evidence import Evidence, Frame, State
from toolkit.groups import Wants
from toolkit.hosts.host import Host
from toolkit.node.collect import ask, collect
from toolkit.plural import first_of
from toolkit.rollout.runs import RunFolder, evidence_name
from toolkit.ssh.pool import abandoned
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.each import on_each

_RUNS = 40  # so many of the newest runs are looked into
_COUNTED = re.compile(r"counters/\w+:[1-9]")
_TO_DIAL_S = 0.002
_SHOWN = 3  # processes that a sentence names
T = TypeVar("T")
Looking = Callable[[str, Evidence], T]


def read_node(fleet: Fleet, host: Host, transport: Transport) -> Evidence:
    """Ask the node, and then its BMC where one was given.

    :raises TransportError: the node could not be asked; a BMC that could not is in the evidence.
    """
    evidence = _collected(fleet.access, host, transport)
    if fleet.bmcs is None:
        return evidence
    fleet.access.progress.note(host.name, "reading its BMC")
    return evidence.plus(fleet.bmcs.frames(host))


def _collected(access: Access, host: Host, transport: Transport) -> Evidence:
    """What the node says, and what runs the job on it, where that is to be looked into.

    :raises TransportError: either could not be asked.
    """
    if access.inside is None:
        return collect(transport, register=access.register)
    from toolkit.verbs.inside import collect_inside  # noqa: PLC0415 only they pay for it

    access.progress.note(host.name, f"looking into {access.inside}")
    return collect_inside(transport, access.inside, access.register)


def earlier_ports(runs: Path, host: str, now: Evidence, *, but: Path) -> tuple[Frame, ...]:
    """A frame with the port counters of the newest earlier run since the same boot; or nothing.

    Nothing is looked for where no counter has counted: no rate would differ from none.

    :param runs: where runs are kept.
    :param but: the run that is under way.
    """
    frame = now.frames.get("infiniband")
    if frame is None or not _COUNTED.search(frame.text):
        return ()
    name = evidence_name(host)
    try:
        folders = sorted((each for each in runs.iterdir() if each != but), reverse=True)[:_RUNS]
        file = next((each / name for each in folders if (each / name).is_file()), None)
        if file is None:
            return ()
        before = Evidence.parse(file.read_text(encoding="utf-8", errors="surrogateescape"))
        from toolkit.facts.node.node import Node  # noqa: PLC0415 while they are asked, see read_each

        if before.text("boot-id") != now.text("boot-id"):
            return ()  # counted from nothing again
        aer = Node(before).aer
        lines = [line for line in before.text("infiniband").split("\n") if "counters/" in line]
    except (OSError, NoEvidence, Unparsable):
        return ()  # no reading to compare with: the mean since boot stands alone
    if aer is None or not lines:
        return ()
    text = "".join(f"{line}\n" for line in (f"uptime:{aer.uptime}", *lines))
    from toolkit.facts.node.health import EARLIER  # noqa: PLC0415 likewise

    return (Frame(EARLIER, State.OK, f"run {file.parent.name}: {frame.source}", text),)


class InUse(ApplyError):
    """Somebody's job is at work: the node was not rebooted, what was done before stands."""


def who_works(transport: Transport) -> str:
    """The jobs at work, in one sentence; "" where there is none.

    Where it cannot be told, that is the sentence: nobody seen is not nobody there.

    :raises TransportError: whether the node was asked cannot be known.
    """
    from toolkit.facts.modules.module_users import parse_users  # noqa: PLC0415 likewise

    try:
        found = [each for each in parse_users(ask(transport, "occupied")) if each.works]
    except (NoEvidence, Unparsable) as why:
        return f"it cannot be told whether a job is at work ({why})"
    if not found:
        return ""
    return f"at work: {first_of([str(each) for each in found], _SHOWN, '; ')}"


def refuse_jobs(transport: Transport) -> None:
    """Before a reboot that is not part of a plan.

    :raises InUse: a job is at work, or nobody can tell.
    """
    busy = who_works(transport)
    if busy:
        raise InUse(
            f"{transport.name}: not rebooted: {busy}",
            hint="what was done before stands; once the job has ended: provision --reboot",
        )


def read_each(
    fleet: Fleet,
    folder: RunFolder,
    work: Callable[[str, Evidence], T],
    *,
    title: str = "reading",
    earlier: bool = False,
    more: Callable[[Transport, Evidence], Evidence] | None = None,
) -> list[Outcome[T]]:
    """Ask every node once, and keep its evidence in the run's folder; ``work`` has it next.

    :param work: is called from many threads, with the host's name.
    :param earlier: beside it what the ports counted in an earlier run.
    :param more: asks what turns on what the node has said.
    """
    return read_meanwhile(fleet, folder, lambda: work, title=title, earlier=earlier, more=more)


def read_ahead(wants: Wants) -> None:
    """What judging any node will import, and read of tables, while nodes are asked."""
    from toolkit.compat.gpus import machine_types  # noqa: PLC0415 see above
    from toolkit.facts.modules.elf import import_reader  # noqa: PLC0415 likewise

    import_reader()
    machine_types()
    wants.of("").compat.read_ahead()


def _import_transport(fleet: Fleet) -> None:
    """Behind the threads that dial: who imports keeps the interpreter for 5 ms at a time."""
    time.sleep(_TO_DIAL_S)
    if fleet.access.transport == "paramiko":
        import paramiko  # noqa: F401, PLC0415 they wait for it with a connection


def _interrupted(name: str, _: Evidence) -> NoReturn:
    raise abandoned(name)


def _making(fleet: Fleet, make: Callable[[], Looking[T]], made: Future[Looking[T]]) -> Looking[T]:
    """What ``make`` returns; where it fails, those who wait for it are told before anybody."""
    try:
        _import_transport(fleet)
        return make()
    except KeyboardInterrupt:
        made.set_result(_interrupted)  # that itself ends a thread with a traceback
        raise
    except BaseException as why:
        made.set_exception(why)  # or each thread waits, with its connection, for ever
        raise


def read_meanwhile(
    fleet: Fleet,
    folder: RunFolder,
    make: Callable[[], Looking[T]],
    *,
    title: str = "reading",
    earlier: bool = False,
    more: Callable[[Transport, Evidence], Evidence] | None = None,
    then: Callable[[], None] = lambda: None,
    processes: int = 1,
) -> list[Outcome[T]]:
    """The same by work that is made, and imported, while the first nodes are asked.

    :param make: is called once, in this thread.
    :param then: is called after it, where all that is left is to wait.
    :param processes: that share the hosts, see ``run_apart``.
    """
    made: Future[Looking[T]] = Future()

    def one(host: Host, transport: Transport) -> T:
        evidence = read_node(fleet, host, transport)
        if more is not None:
            evidence = more(transport, evidence)
        folder.keep_evidence(host.name, evidence)
        work = made.result()  # only then is all imported that looks into evidence
        runs, name = folder.path.parent, host.name
        ports = earlier_ports(runs, name, evidence, but=folder.path) if earlier else ()
        return work(name, evidence.plus(ports))

    def meanwhile() -> None:
        made.set_result(_making(fleet, make, made))
        then()

    return on_each(fleet, title, one, meanwhile=meanwhile, processes=processes)
