"""Ctrl-C before a verb begins ends the process, without a traceback."""

from __future__ import annotations

import signal


def unheard() -> None:
    """Let Ctrl-C end us at once, as the kernel does, while modules are imported."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def heard() -> None:
    """From now on Ctrl-C is an exception, since there is something to tell or to take back."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
