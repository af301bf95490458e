"""Audit trail: who runs us, from where; and one line for the system's own log.

The user is the kernel's word, not the environment's. What sudo and sshd left in the
environment is told beside it, for it is the best that there is, and no more than a word.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

_LIMIT_S = 5.0
_LOG = Path("/dev/log")  # the socket of syslog, or of systemd-journald
_SPARE = re.compile(r"[^A-Za-z0-9._:@%+-]")  # of what may stand in a line of a log


def operator() -> str:
    """ "root (sudo alice, ssh 192.0.2.7)": the real user, and how he came."""
    number = os.getuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # as in many containers
        name = str(number)
    sudo, ssh = _word("SUDO_USER"), _word("SSH_CONNECTION")
    came = [f"sudo {sudo}"] * bool(sudo) + [f"ssh {ssh}"] * bool(ssh)
    return f"{name} ({', '.join(came)})" if came else name


def whoami() -> str:
    """ "operator@machine", for journals and for those who find a host claimed."""
    name, space, came = operator().partition(" ")
    return f"{name}@{socket.gethostname()}{space}{came}"


def of_run(run: str, reason: str = "") -> str:
    """What a node's own journal has of a run of ours: words without blanks, each with its name.

    :param run: its name here.
    """
    name, _, came = operator().partition(" ")
    words = {"who": name, "from": socket.gethostname(), "run": run, "reason": reason}
    told = dict(each.split(" ") for each in came.strip("()").split(", ") if each)
    found = {**words, **told}
    return " ".join(
        f"{key}={_SPARE.sub('_', value)[:120]}" for key, value in found.items() if value
    )


def before_script(line: str) -> str:
    """Who has it done, before a script for a node: it is quoted, and does nothing by itself."""
    return f"gdr_audit={shlex.quote(line)}\n" if line else ""


def tell_system(line: str) -> None:
    """Best effort: one line for syslog or the journal of this machine, by logger."""
    logger = shutil.which("logger")
    if logger is None or not _LOG.exists():
        return
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            [logger, "-t", "gdr-toolkit", "--", " ".join(line.split())[:1000]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )


def _word(variable: str) -> str:
    """The first word of a variable, with nothing in it that could end a line."""
    first = os.environ.get(variable, "").split(" ")[0]
    return _SPARE.sub("_", first)[:64]
