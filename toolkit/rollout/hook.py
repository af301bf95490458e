"""A command of the site's for one host: take it out of service, give it back."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from contextlib import suppress

from toolkit.errors import ApplyError, UsageError
from toolkit.hosts.host import Host

_TAIL = 6  # lines of its output that an error shows
_PLACE = "{host}"


class HookError(ApplyError):
    """The command failed, or was not done in time."""


def check_hook(option: str, command: str) -> None:
    """Refuse a command that cannot be run for each host.

    :raises UsageError: it names no host, or its quotes are not closed.
    """
    if not command:
        return
    try:
        shlex.split(command)
    except ValueError as why:
        raise UsageError(f"{option} {command!r}: {why}", hint="close its quotes") from why
    if _PLACE not in command and "GDR_HOST" not in command and len(shlex.split(command)) > 1:
        raise UsageError(
            f"{option} {command!r} names no host",
            hint="write {host} where the host's name goes, or read $GDR_HOST in a script",
        )


def run_hook(name: str, command: str, host: Host, limit_s: float) -> str:
    """Run ``command`` by sh on the controller and return what it printed.

    ``{host}`` is replaced by the host's name, quoted; the environment has GDR_HOST and
    GDR_ADDRESS. It gets a session of its own: Ctrl-C is not for it, and what it has
    started ends with it at the limit.

    :param name: "drain", for errors.
    :raises HookError: its status is not 0, or the time is up.
    """
    settings = os.environ | {"GDR_HOST": host.name, "GDR_ADDRESS": host.address or host.name}
    words = command.replace(_PLACE, shlex.quote(host.name))
    with tempfile.TemporaryFile() as said:
        try:
            child = subprocess.Popen(
                ["/bin/sh", "-c", words],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env=settings,
                start_new_session=True,
            )
        except OSError as why:
            raise HookError(
                f"{host.name}: {name}: {why.strerror}",
                hint="is the command there, and may it be run?",
            ) from why
        try:
            status = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        said.seek(0)
        text = said.read().decode("utf-8", "replace")
    if status:
        raise HookError(
            f"{host.name}: {name} ended with status {status}\n{_tail(text)}".rstrip(),
            hint="run the command by hand for this node, and see",
        )
    if status is None:
        raise HookError(
            f"{host.name}: {name} was not done within {limit_s:g} s",
            hint="give it longer with --hook-timeout, or see what it waits for",
        )
    return text


def _tail(text: str) -> str:
    return "\n".join(text.rstrip("\n").split("\n")[-_TAIL:])
