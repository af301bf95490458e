"""How much memory may be locked, as shells, prlimit, /proc, PAM's files and systemd print it.

Sources, as read: bash builtins/ulimit.def, print_it; zsh Src/Builtins/rlimits.c and older forms,
busybox shell/shell_common.c, dash src/miscbltin.c, tcsh sh.func.c (limit), fish ulimit.rs;
util-linux sys-utils/prlimit.c; Linux fs/proc/base.c, proc_pid_limits; limits.conf(5); systemd's
properties LimitMEMLOCK and DefaultLimitMEMLOCK. Shells count in KiB, the others in bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.errors import Unparsable

_KIB = 1024
_VALUE = r"(\d+|unlimited|infinity)"
# "max locked memory (kbytes, -l) 64", "-l: locked-in-memory size (kb) 6", "locked memory(kbytes) 9"
_OF_SHELL = re.compile(rf"^(.*)\(([^()\n]*)\) *{_VALUE}[ \t]*$", re.MULTILINE | re.IGNORECASE)
_LOCKED = re.compile(r"\block\w*(?:-in-| into |[- ])(?:memory|address space)\b", re.IGNORECASE)
_IN_KIB = re.compile(r"\bk(?:i?b|bytes)\b", re.IGNORECASE)
_OF_CSH = re.compile(rf"^memorylocked\s+{_VALUE} ?(?:kB|kbytes)?[ \t]*$", re.MULTILINE)
_BARE = re.compile(rf"^\s*{_VALUE}[ \t]*$", re.MULTILINE)
_OF_PROCESS = re.compile(
    rf"^(?:MEMLOCK .*address space|Max locked memory)\s+{_VALUE}\s+{_VALUE}\s+bytes\s*$",
    re.MULTILINE,
)
_OF_PAM = re.compile(
    rf"^(?:[^\s:#]+:)?\s*([^\s#:]+)\s+(soft|hard|-)\s+memlock\s+(-1|{_VALUE})[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
_OF_SYSTEMD = re.compile(
    rf"^(?:\S+:)?\s*((?:Default)?LimitMEMLOCK)(?:Soft)?\s*=\s*{_VALUE}(?::\S*)?\s*$", re.MULTILINE
)
_ASKED = re.compile(r"\bulimit -\w*l")


@dataclass(frozen=True, slots=True)
class Limit:
    """What one thing may lock."""

    whose: str  # "a shell", "a process", "logins", "services"
    size: int  # bytes; -1 for any number


def parse_limits(text: str, typed: str = "") -> tuple[Limit, ...]:
    """Every limit of locked memory that a text tells; the soft one, which is in force.

    Of PAM's files what holds for all ("*"), or else for those that are named.

    :param typed: the commands that were typed: ``ulimit -l`` prints a number and no word.
    :raises Unparsable: where there is none.
    """
    found = [
        Limit("a shell", _size(value, _KIB))
        for name, unit, value in _OF_SHELL.findall(text)
        if _LOCKED.search(name) and _IN_KIB.search(unit)
    ]
    found += [Limit("a shell", _size(each, _KIB)) for each in _OF_CSH.findall(text)]
    if _ASKED.search(typed):
        found += [Limit("a shell", _size(each, _KIB)) for each in _BARE.findall(text)]
    found += [Limit("a process", _size(soft, 1)) for soft, _ in _OF_PROCESS.findall(text)]
    for who, kind, value, _ in _OF_PAM.findall(text):
        whose = "logins" if who == "*" else f"logins of {who}"
        found.append(Limit(whose if kind != "hard" else f"{whose} at most", _size(value, _KIB)))
    for name, value in _OF_SYSTEMD.findall(text):
        found.append(Limit("services" if name[0] == "D" else "a service", _size(value, 1)))
    if not found:
        raise Unparsable("limits", text.strip().split("\n")[0])
    return tuple(dict.fromkeys(found))


def _size(value: str, unit: int) -> int:
    return int(value) * unit if value.isdecimal() else -1
