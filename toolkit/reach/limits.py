"""How many files this process may have open, and how many hosts at once that is enough for."""

from __future__ import annotations

import resource

from toolkit.errors import UsageError

_OWN = 64  # the process's own: modules, journal, logs, terminal
_A_HOST = {"paramiko": 2, "openssh": 5, "local": 5}  # a socket; a client's pipes


def make_room(hosts: int, transport: str) -> None:
    """See that so many hosts at once find descriptors: the soft limit is raised where it is low.

    A thousand connections under the usual soft limit of 1,024 would fail one by one, each as a
    host out of reach that is none.

    :raises UsageError: the hard limit does not allow it.
    """
    needed = _OWN + hosts * _A_HOST.get(transport, max(_A_HOST.values()))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        fits = max(1, (hard - _OWN) // _A_HOST.get(transport, max(_A_HOST.values())))
        raise UsageError(
            f"{hosts} hosts at once need {needed} open files, and this process may have {hard}",
            hint=f"--fanout {fits}, or a higher hard limit: ulimit -Hn",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
