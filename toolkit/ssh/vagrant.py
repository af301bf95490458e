"""The machines that Vagrant has made: which run, and the way to each.

Vagrant is asked where the operator stands, or where VAGRANT_CWD says, as they would ask it
themselves.
"""

from __future__ import annotations

import os
import subprocess

from toolkit.errors import InventoryError, TransportError, UsageError
from toolkit.hosts.host import Machines
from toolkit.progress import Progress
from toolkit.ssh.vagrant_output import (
    Line,
    complaint,
    machine_host,
    parse_said,
    ssh_configs,
    states,
)

_LIMIT_S = 120.0  # it loads all of its plug-ins, and asks every provider
_QUIET = {"VAGRANT_CHECKPOINT_DISABLE": "1", "VAGRANT_NO_COLOR": "1"}
_HINTS = {
    "NoEnvironmentError": "go to the folder of the Vagrantfile, or name it: VAGRANT_CWD=FOLDER",
    "SSHNotReady": "wait until vagrant up has ended, or look: vagrant status",
}


def read_machines(new_keys: str, progress: Progress) -> Machines:
    """Ask Vagrant for its machines, and for the way to those that run.

    :param new_keys: the file for the host keys of machines whose keys nobody could know.
    :raises UsageError: there is no Vagrant here, or it has no Vagrantfile.
    :raises TransportError: it does not end.
    """
    progress.begin("asking Vagrant", 2)
    try:
        return _read(new_keys, progress)
    finally:
        progress.finish()


def _read(new_keys: str, progress: Progress) -> Machines:
    said = states(_ask("status"))
    progress.done("vagrant status")
    running = [name for name, state in said.items() if state == "running"]
    others = {name: state.replace("_", " ") for name, state in said.items() if state != "running"}
    if not running:
        return Machines({}, others)
    texts = _ways(running)
    unready = dict.fromkeys((name for name in running if name not in texts), "not ready for SSH")
    hosts = {name: machine_host(name, texts[name], new_keys=new_keys) for name in texts}
    return Machines(hosts, others | unready)


def _ways(names: list[str]) -> dict[str, str]:
    """The ssh_config of each that is ready; one that is not makes Vagrant refuse them all."""
    try:
        return ssh_configs(_ask("ssh-config", *names))
    except _NotReady:
        if len(names) == 1:
            return {}
        return {name: text for each in names for name, text in _ways([each]).items()}


class _NotReady(InventoryError):
    """A machine runs, and has no address or port yet."""


def _ask(*words: str) -> tuple[Line, ...]:
    shown = " ".join(("vagrant", *words))
    try:
        done = subprocess.run(
            ("vagrant", *words, "--machine-readable"),
            env=os.environ | _QUIET,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except FileNotFoundError:
        raise UsageError(
            "vagrant:// needs Vagrant, and it is not here", hint="apt install vagrant"
        ) from None
    except OSError as why:
        raise UsageError(
            f"vagrant cannot be started: {why.strerror}",
            hint="is vagrant installed here, and in PATH?",
        ) from why
    except subprocess.TimeoutExpired as why:
        raise TransportError(
            f"{shown} has not ended after {_LIMIT_S:g} s", hint="run it by hand"
        ) from why
    said = parse_said(done.stdout.decode("utf-8", "replace"))
    if done.returncode != 0:
        raise _refusal(shown, said, done.stderr.decode("utf-8", "replace"))
    return said


def _refusal(shown: str, said: tuple[Line, ...], stderr: str) -> InventoryError:
    kind, sentence = complaint(said)
    last = sentence or (stderr.strip().split("\n")[-1][:200]) or "it does not say why"
    error = _NotReady if kind == "SSHNotReady" else InventoryError
    return error(f"{shown}: {last}", hint=_HINTS.get(kind, f"run it by hand: {shown}"))
