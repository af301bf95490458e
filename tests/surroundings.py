"""What the tests are given, whoever runs them: signals, umask and settings as on a plain machine.

Tests of one of these set it themselves.
"""

from __future__ import annotations

import os
import signal

# They change what programs print; what a test wants of them it says.
_SETTINGS = (
    *("LANGUAGE", "TZ", "COLUMNS", "LINES", "TERM"),
    *("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PY_COLORS", "TTY_COMPATIBLE"),
)
_OF_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}  # which it ignores, and gives to children as usual


def settle() -> None:
    """Make it so for this process and its children."""
    _signals()
    os.umask(0o022)
    for name in [*os.environ]:
        if name in _SETTINGS or name.startswith("LC_"):
            del os.environ[name]
    os.environ["LANG"] = "C.UTF-8"


def _signals() -> None:
    """None is ignored or held back: children would inherit it, and no shell can trap it then.

    A shell that starts the tests in the background hands down an ignored SIGINT, nohup a SIGHUP.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for each in signal.valid_signals() - _OF_PYTHON:
        if signal.getsignal(each) is signal.SIG_IGN:
            signal.signal(each, _pass if each == signal.SIGHUP else signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # fixtures end what they started
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def _pass(*_: object) -> None:
    """We go on, as nohup wants it; a handler of ours is no child's."""
