"""The machines that Vagrant has made: which run, and the way to each.

Vagrant is asked where the operator stands, or where VAGRANT_CWD says, as they would ask it
themselves.

What Vagrant says of its machines, with ``--machine-readable``. Pure.

One line a fact, ``TIME,MACHINE,TYPE,DATA...``: commas within data are written
``%!(VAGRANT_COMMA)``, the ends of lines as two characters. Among these lines plug-ins print
whatever they like. Source: Vagrant 2.3 and 2.4, lib/vagrant/ui.rb,
plugins/commands/{status,ssh_config}/command.rb, templates/commands/ssh_config/config.erb:

    1795334089,node1,state,running
    1795334089,node1,ssh-config,Host node1\\n  HostName 192.168.121.15\\n  User vagrant\\n ...
    1795334091,,error-exit,Vagrant::Errors::NoEnvironmentError,A Vagrant environment or ...
"""

from __future__ import annotations

import os
import re
import subprocess

from msgspec import Struct

from toolkit.errors import InventoryError, TransportError, Unparsable, UsageError
from toolkit.hosts.addresses import VAGRANT
from toolkit.hosts.host import Host, Machines
from toolkit.progress import Progress
from toolkit.ssh.ssh_config_file import parse_setting

_LIMIT_S = 120.0  # it loads all of its plug-ins, and asks every provider
_QUIET = {"VAGRANT_CHECKPOINT_DISABLE": "1", "VAGRANT_NO_COLOR": "1"}
_HINTS = {
    "NoEnvironmentError": "go to the folder of the Vagrantfile, or name it: VAGRANT_CWD=FOLDER",
    "SSHNotReady": "wait until vagrant up has ended, or look: vagrant status",
}
_LINE = re.compile(r"\d+,([^,]*),([a-z-]+),(.*)")
# What counts for transports beside a Host's own fields; LogLevel, forwarding and the like do not.
_OPTIONS = {
    *("identityfile", "identitiesonly", "proxycommand", "hostkeyalias"),
    *("hostkeyalgorithms", "pubkeyacceptedkeytypes", "pubkeyacceptedalgorithms"),
}


class VagrantLine(Struct, frozen=True):
    """One fact."""

    machine: str  # "" for what concerns no single one
    kind: str  # "state"
    data: tuple[str, ...]


def parse_said(text: str) -> tuple[VagrantLine, ...]:
    """The facts among all that was printed; text in other shapes is passed over."""
    found = (_LINE.fullmatch(line.rstrip("\r")) for line in text.split("\n"))
    return tuple(
        VagrantLine(each[1], each[2], tuple(_plain(word) for word in each[3].split(",")))
        for each in found
        if each is not None
    )


def states(said: tuple[VagrantLine, ...]) -> dict[str, str]:
    """The state of each machine, as its provider calls it, in the Vagrantfile's order.

    A machine that runs is "running" with every provider that Vagrant ships.
    """
    return {each.machine: each.data[0] for each in said if each.kind == "state"}


def ssh_configs(said: tuple[VagrantLine, ...]) -> dict[str, str]:
    """The ssh_config text of each machine that was asked for."""
    return {each.machine: each.data[0] for each in said if each.kind == "ssh-config"}


def complaint(said: tuple[VagrantLine, ...]) -> tuple[str, str]:
    """The class of the error that Vagrant ended with, and its first sentence; "" for none.

    ("NoEnvironmentError", "A Vagrant environment or target machine is required to ...")
    """
    for each in said:
        if each.kind == "error-exit" and len(each.data) > 1:
            sentence = re.split(r"(?<=[.!?])\s", " ".join(each.data[1].split()), maxsplit=1)[0]
            return each.data[0].rpartition("::")[2], sentence
    return "", ""


def _setting(line: str) -> tuple[str, tuple[str, ...]]:
    try:
        return parse_setting(line)
    except ValueError as why:
        raise Unparsable("vagrant ssh-config", f"{line.strip()}: {why}", 1) from why


def machine_host(name: str, text: str, *, new_keys: str) -> Host:
    """The host that a machine is.

    :param text: what ``vagrant ssh-config`` says of it.
    :param new_keys: the file for its host key, where its configuration trusts whatever
        answers; as Vagrant does unless ``config.ssh.verify_host_key`` says otherwise.
    :raises Unparsable: it names no address.
    :raises UsageError: it includes a file, whose contents would be missed.
    """
    settings = [(line.strip(), *_setting(line)) for line in text.split("\n")]
    first = {key: words[0] for _, key, words in reversed(settings) if words}
    if "include" in first:
        raise UsageError(
            f"{VAGRANT}{name}: config.ssh.config names {first['include']}, which is not read here",
            hint="vagrant ssh-config > FILE, then --hosts NAME --ssh-config FILE",
        )
    if not first.get("hostname"):
        raise Unparsable("vagrant ssh-config", text.partition("\n")[0], 1)
    options = [(key, line.split(maxsplit=1)[1]) for line, key, _ in settings if key in _OPTIONS]
    # Vagrant names every way in: a "Host *" of ~/.ssh/config is not about its machines. To ssh
    # the first of the two that it sees counts.
    options += [("proxycommand", "none"), ("proxyjump", "none")]
    return Host(
        name=VAGRANT + name,
        address=first["hostname"],
        user=first.get("user", ""),
        port=int(first.get("port", "0")),
        options=tuple(options),
        new_keys=new_keys if first.get("stricthostkeychecking") == "no" else "",
    )


def _plain(word: str) -> str:
    return word.replace("%!(VAGRANT_COMMA)", ",").replace("\\n", "\n").replace("\\r", "\r")


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


def _ask(*words: str) -> tuple[VagrantLine, ...]:
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


def _refusal(shown: str, said: tuple[VagrantLine, ...], stderr: str) -> InventoryError:
    kind, sentence = complaint(said)
    last = sentence or (stderr.strip().split("\n")[-1][:200]) or "it does not say why"
    error = _NotReady if kind == "SSHNotReady" else InventoryError
    return error(f"{shown}: {last}", hint=_HINTS.get(kind, f"run it by hand: {shown}"))
