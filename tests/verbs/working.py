"""Work for processes beside the one of the test: what they are given, and how they may end."""

from __future__ import annotations

import os
import signal

from toolkit.evidence import Evidence
from toolkit.verbs.workers import Work
from toolkit.want import Want


def telling() -> Work[str]:
    """Tells the node's name and host name; the node that is called "deadly" ends its process."""

    def work(name: str, evidence: Evidence, want: Want) -> str:
        del want
        if name == "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{name} is {evidence.text('hostname').strip()}"

    return work


def unable() -> Work[str]:
    """Cannot even begin."""
    raise ImportError("no such module")
