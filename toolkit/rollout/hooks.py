"""Out of service and back: by the site's own commands, or by Slurm."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from msgspec import Struct

from toolkit.errors import ApplyError, ToolkitError, UsageError
from toolkit.hosts.host import Host
from toolkit.rollout.events import Witness
from toolkit.rollout.plan.batches import Phase
from toolkit.ssh.transport import Transport

Say = Callable[[str], None]
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
    status, text = _ended(name, command, host, limit_s)
    if status:
        tail = "\n".join(text.rstrip("\n").split("\n")[-_TAIL:])
        raise HookError(
            f"{host.name}: {name} ended with status {status}\n{tail}".rstrip(),
            hint="run the command by hand for this node, and see",
        )
    if status is None:
        raise HookError(
            f"{host.name}: {name} was not done within {limit_s:g} s",
            hint="give it longer with --hook-timeout, or see what it waits for",
        )
    return text


def _ended(name: str, command: str, host: Host, limit_s: float) -> tuple[int | None, str]:
    """Its status, None where the time was up, and what it printed."""
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
        return status, said.read().decode("utf-8", "replace")


class NotTaken(ToolkitError):
    """The node was not taken out of service: it serves as it did, or others have it out."""


class Drainer(Protocol):
    """A scheduler that takes nodes out of service, and knows who did.

    What it answers is for the log; everything may be asked twice, and is done once.
    """

    def has_out(self, host: Host) -> bool:
        """Whether the node is out of service by our doing, in this run or an earlier one."""

    def take_out(self, host: Host, say: Say) -> str:
        """No further job, and those that run have ended.

        :raises NotTaken: the node is not ours to take, or its jobs do not end; it was not
            touched.
        :raises ToolkitError: the scheduler does not answer; the node may be out of service.
        """

    def give_back(self, host: Host, say: Say) -> str:
        """Back to service; why it was not, where others hold it; "" where it is.

        :raises ToolkitError: the scheduler refuses.
        """

    def stay_out(self, host: Host, why: str) -> str:
        """Have its reason say what failed. Returns how it stands.

        :raises ToolkitError: the scheduler refuses.
        """


class Hooks(Struct, frozen=True):
    """Commands of the site's; "" for none. Or a scheduler in their place."""

    drain: str = ""
    undrain: str = ""
    limit_s: float = 600.0
    scheduler: Drainer | None = None

    @property
    def takes_out(self) -> bool:
        return bool(self.drain) or self.scheduler is not None

    @property
    def gives_back(self) -> bool:
        return bool(self.undrain) or self.scheduler is not None

    def has_out(self, host: Host) -> bool:
        """Whether it is known to be out of service by our doing; commands of a site tell nothing.

        :raises ToolkitError: the scheduler does not answer.
        """
        return self.scheduler is not None and self.scheduler.has_out(host)

    def take_out(self, host: Host, say: Say) -> str:
        """Returns what was printed.

        :raises ToolkitError: it could not be done; the node is not to be touched.
        """
        if self.scheduler is not None:
            return self.scheduler.take_out(host, say)
        return run_hook("drain", self.drain, host, self.limit_s)

    def give_back(self, host: Host, say: Say) -> tuple[str, str]:
        """Returns what was printed, and why the node stays out of service; "" where it does not.

        :raises ToolkitError: it could not be done.
        """
        if self.scheduler is not None:
            out = self.scheduler.give_back(host, say)
            return out, out
        return run_hook("undrain", self.undrain, host, self.limit_s), ""

    def stay_out(self, host: Host, why: str) -> str:
        """What a node that is not as wanted is left with; "" where nobody is told.

        :raises ToolkitError: the scheduler could not be told.
        """
        return "" if self.scheduler is None else self.scheduler.stay_out(host, why)


class OutOfService(Struct, frozen=True):
    """One host's way out of service and back, each step written down before it is taken."""

    host: Host
    transport: Transport  # closed first: what we hold there may be what is waited for
    hooks: Hooks
    witness: Witness
    say: Say

    def take(self) -> str:
        """Returns what was printed.

        :raises ToolkitError: it could not be done; the node is not to be touched.
        """
        self.transport.close()
        self.witness.about_to(Phase.DRAINING)
        self.say("drain")
        try:
            told = self.hooks.take_out(self.host, self.say)
        except NotTaken:
            self.witness.about_to(Phase.UNTAKEN)
            raise
        self.witness.about_to(Phase.DRAINED)
        return told

    def give_back(self) -> tuple[str, str]:
        """See ``Hooks.give_back``."""
        self.transport.close()
        self.witness.about_to(Phase.UNDRAINING)
        self.say("undrain")
        return self.hooks.give_back(self.host, self.say)

    def stay(self, why: str) -> str:
        """Have the scheduler say why; what it answers is for the report, and raises nothing."""
        try:
            self.transport.close()
            return self.hooks.stay_out(self.host, why)
        except ToolkitError as trouble:  # what went wrong before is what is to be told
            self.say(f"its drain could not be given a reason: {trouble}")
            return ""
