"""Whose jobs a reboot would end: the processes that have a GPU or an HCA open."""

from __future__ import annotations

from toolkit.errors import ApplyError, NoEvidence, Unparsable
from toolkit.facts.modules.module_users import parse_users
from toolkit.node.collect import ask
from toolkit.ssh.transport import Transport

_SHOWN = 3  # processes that a sentence names


class InUse(ApplyError):
    """Somebody's job is at work: the node was not rebooted, what was done before stands."""


def who_works(transport: Transport) -> str:
    """The jobs at work, in one sentence; "" where there is none.

    Where it cannot be told, that is the sentence: nobody seen is not nobody there.

    :raises TransportError: whether the node was asked cannot be known.
    """
    try:
        found = [each for each in parse_users(ask(transport, "occupied")) if each.works]
    except (NoEvidence, Unparsable) as why:
        return f"it cannot be told whether a job is at work ({why})"
    if not found:
        return ""
    more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"at work: {'; '.join(map(str, found[:_SHOWN]))}{more}"


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
