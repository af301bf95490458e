"""The hosts of one pytest run, opened once; and ``gdr``, a node as a site's own tests ask of it.

def test_the_modules_are_there(gdr):
    assert gdr["peermem.loaded"].passed
    assert gdr.node.driver is not None
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import date
from urllib.parse import parse_qs, unquote

import pytest
import testinfra
from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.all import named
from toolkit.checks.check import Status, Verdict
from toolkit.checks.judged import Judged, judge_node
from toolkit.cli.verb import site_here
from toolkit.errors import ToolkitError, TransportError, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.groups import resolved
from toolkit.hosts.addresses import VAGRANT
from toolkit.hosts.host import Host
from toolkit.report.text import verdict_text
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.suites.run import ACCESS, LEDGER, WANT, Ledger
from toolkit.verbs.access import Access, Fleet, inventory_in, wanted
from toolkit.verbs.connect import open_fleet
from toolkit.verbs.doctor import gather
from toolkit.verbs.passport import sealed
from toolkit.want import DEFAULT_PROFILE

# Hosts as testinfra names them: ``ssh://root@gpu01:22?ssh_config=FILE``, ``podman://NAME``.
# pytest-testinfra: backend/__init__.py parse_hostspec, backend/base.py, plugin.py. What we reach by
# a transport of our own is reached by that, the rest by testinfra's backend, which runs our probe.
_OURS = {"ssh": "openssh", "safe-ssh": "openssh", "paramiko": "paramiko", "local": "local"}
_THEIRS = ("docker", "podman", "kubectl", "openshift", "chroot", "lxc")
_URI = re.compile(r"(?P<scheme>[\w-]+)://(?P<name>[^?]*)(?:\?(?P<query>.*))?")
_PASSWORD = re.compile(r"(?:^|,|//)[^@,/:\[\]]*:(?!//)([^@]*)@")
_BETWEEN = re.compile(r",(?![^\[]*\])")  # a comma within brackets parts numbers, not hosts
_SAID = {"ssh_config": "ssh_config", "ssh_identity_file": "key", "ansible_inventory": "inventory"}
_REFUSED = {
    "ssh_extra_args": "--ssh-config FILE has what ssh is to be told",
    "force_ansible": "leave it out: hosts of an inventory are reached by our own transports",
    "nagios": "leave it out: doctor --textfile, or its exit code, tells a monitor",
}
OPTIONS = ("connection", "sudo_user", *_SAID, *_REFUSED)


_UNPACKED = (
    "for tool in base64 gzip; do command -v $tool >/dev/null ||"
    ' { echo "no $tool" >&2; exit 127; }; '
    "done; echo %s | base64 -d | gzip -dc | sh -s"
)


class HostUri(Struct, frozen=True):
    """One host, or a group of an inventory."""

    scheme: str
    name: str  # "root@gpu01:22", "/srv/root"
    asked: Mapping[str, str]


def access_of(text: str, options: Mapping[str, object], base: Access) -> Access:
    """What ``--hosts`` and testinfra's other options say, by our own words.

    :param options: testinfra's, by their names without dashes.
    :param base: what our own options say.
    :raises UsageError: one of them cannot be honoured.
    """
    # Before anything of it is told again: a colon behind a user, and no port.
    for found in _PASSWORD.finditer(text):
        if not re.match(r"[0-9]{1,5}(?:,|$)", found[1]):
            raise UsageError(
                "--hosts: a password there is not read", hint="verify has --ask-pass and --pass-fd"
            )
    for name, hint in _REFUSED.items():
        if options.get(name):
            raise UsageError(f"--{name.replace('_', '-')} is not honoured here", hint=hint)
    _refuse_user(str(options.get("sudo_user") or ""))
    given = {ours: str(options[name]) for name, ours in _SAID.items() if options.get(name)}
    base = replace(base, **given)
    kind = str(options.get("connection") or "")
    if kind and "://" not in text:
        text = ",".join(f"{kind}://{each}" for each in _BETWEEN.split(text))
    terms = _BETWEEN.split(text)
    if all("://" not in each or each.startswith(VAGRANT) for each in terms):
        return replace(base, hosts=text)
    read = [_term(each) for each in terms]
    if len({each.scheme in _THEIRS or each.scheme for each in read}) > 1:
        kinds = ", ".join(sorted({each.scheme for each in read}))
        raise UsageError(f"--hosts names several ways: {kinds}", hint="one run for each of them")
    if read[0].scheme not in _THEIRS:
        return _ours(read, base)
    if given:
        raise UsageError(
            f"--{next(iter(given)).replace('_', '-')} is for SSH", hint="leave it out: a container"
        )
    return replace(base, hosts=text)


def _term(text: str) -> HostUri:
    """:raises UsageError: no URI of testinfra's, or one with what is not honoured."""
    known, found = (*_OURS, "ansible", *_THEIRS), _URI.fullmatch(text)
    if found is None or found["scheme"] not in known:
        raise UsageError(f"{text!r}: no way to reach a host", hint=f"ways: {', '.join(known)}")
    scheme, name = found["scheme"], found["name"]
    asked = {key: told[0] for key, told in parse_qs(found["query"] or "").items()}
    if scheme not in _THEIRS and (odd := sorted(asked.keys() - {*_SAID, "sudo", "sudo_user"})):
        raise UsageError(f"{text!r}: {odd[0]} is not honoured", hint="--ssh-config FILE may say it")
    _refuse_user(asked.get("sudo_user", ""))
    return HostUri(scheme, unquote(name), asked)


def _refuse_user(user: str) -> None:
    if user not in ("", "root"):
        raise UsageError(f"sudo_user {user}: the suites need root", hint="leave it out")


def _ours(read: list[HostUri], base: Access) -> Access:
    scheme, names = read[0].scheme, [each.name for each in read]
    for name in (*_SAID, "sudo"):
        if len({each.asked.get(name) for each in read}) > 1:
            raise UsageError(
                f"{name} is not the same for all hosts", hint="one run for each of them"
            )
    asked = read[0].asked
    base = replace(base, become=base.become and asked.get("sudo", "true").lower() != "false")
    base = replace(base, **{ours: asked[name] for name, ours in _SAID.items() if name in asked})
    if scheme == "local":
        return replace(base, hosts="localhost", transport="local")
    if scheme == "ansible":
        if not base.inventory:
            raise UsageError("ansible:// without an inventory", hint="add --ansible-inventory FILE")
        groups = inventory_in(base.inventory).groups  # testinfra's names do not tell them apart
        names = [f"@{name}" if name == "all" or name in groups else name for name in names]
        return replace(base, hosts=",".join(names))
    return replace(base, hosts=",".join(names), transport=_OURS[scheme])


def containers(access: Access) -> Fleet | None:
    """The hosts that testinfra's own backends reach; None where ours do."""
    terms = _BETWEEN.split(access.hosts)
    if not all(each.partition("://")[0] in _THEIRS for each in terms):
        return None
    backends = {each: _backend(each) for each in terms}
    hosts = tuple(Host(each) for each in terms)
    return Fleet(hosts, lambda host: ByTestinfra(host.name, backends[host.name]), access)


def _backend(term: str) -> testinfra.host.Host:
    uri = _term(term)
    if uri.scheme == "chroot":  # of whose folder a URI of testinfra's has no place
        return testinfra.get_host(uri.name, connection="chroot")
    return testinfra.get_host(term)


class ByTestinfra(Struct, frozen=True):
    """A transport over a backend of testinfra's: it runs a command line, and feeds nothing."""

    name: str
    host: testinfra.host.Host

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:  # noqa: ARG002 a Transport's signature
        """Run a script, packed so that it fits a command line; ``limit_s`` is the backend's.

        :raises TransportError: the container is not there, or cannot unpack it.
        """
        packed = base64.b64encode(gzip.compress(script.encode())).decode()
        try:
            ended = self.host.run(_UNPACKED, packed)
        except (OSError, RuntimeError, ValueError) as why:
            raise TransportError(f"{self.name}: {why}", hint="see that it runs, by hand") from why
        for line in ended.stdout.split("\n"):
            sink(line)
        if ended.rc in (125, 126, 127) and not ended.stdout:
            said = ended.stderr.strip().split("\n")[-1] or f"status {ended.rc}"
            hint = "it needs sh, base64 and gzip" if said.startswith("no ") else "try it by hand"
            raise TransportError(f"{self.name}: {said}", hint=hint)
        return Result(ended.rc, ended.stdout, ended.stderr)

    def close(self) -> None:
        """Nothing is held open."""


STACK = pytest.StashKey[ExitStack]()
FLEET = pytest.StashKey[Fleet]()
TROUBLE = pytest.StashKey[ToolkitError]()  # why there is no fleet
GATHERED = pytest.StashKey[Mapping[str, Evidence | ToolkitError]]()


def open_hosts(config: pytest.Config) -> None:
    """Take what ``verify`` has prepared, else read the options; open the fleet once."""
    if FLEET in config.stash or TROUBLE in config.stash:
        return
    stack = config.stash.setdefault(STACK, ExitStack())
    try:
        if ACCESS not in config.stash:
            config.stash[ACCESS] = _access(config)
            site = _option(config, "--gdr-site") or site_here()
            profile = _option(config, "--gdr-profile") or DEFAULT_PROFILE
            want = wanted(profile, site)
            listed = config.stash[ACCESS].inventory
            config.stash[WANT] = resolved(want, lambda: inventory_in(listed), site)
        config.stash.setdefault(LEDGER, Ledger())
        access = config.stash[ACCESS]
        config.stash[FLEET] = containers(access) or stack.enter_context(open_fleet(access))
    except ToolkitError as why:
        # With --pyargs the suites' conftest is loaded during collection, where what is raised
        # would be a traceback; it is said once all is collected.
        config.stash[TROUBLE] = why


def close_hosts(config: pytest.Config) -> None:
    """Let go of what was opened."""
    if STACK in config.stash:
        config.stash[STACK].close()


def refuse_trouble(config: pytest.Config) -> None:
    """:raises pytest.UsageError: no host could be named, or what was asked makes no sense."""
    if TROUBLE in config.stash:
        why = config.stash[TROUBLE]
        raise pytest.UsageError(f"{why}\n next: {why.hint}")


def host_names(config: pytest.Config) -> list[str]:
    """Names of the hosts that were named; none where that failed."""
    fleet = config.stash.get(FLEET, None)
    return [host.name for host in fleet.hosts] if fleet else []


def case_id(name: str) -> str:
    """What stays the name of a host's cases: toolkit://gpu07."""
    return name if "://" in name else f"toolkit://{name}"


def gathered_of(config: pytest.Config) -> Mapping[str, Evidence | ToolkitError]:
    """The evidence of every host, asked for at once, before the first case."""
    if GATHERED not in config.stash:
        config.stash[GATHERED] = gather(config.stash[FLEET])
    return config.stash[GATHERED]


def _option(config: pytest.Config, name: str) -> str:
    """An option of options.py; "" where that plugin was not loaded."""
    return str(config.getoption(name, default="") or "")


def _access(config: pytest.Config) -> Access:
    inventory = _option(config, "--gdr-inventory")
    if not config.getoption("hosts") and not inventory:
        raise UsageError("no hosts named", hint="pytest --pyargs toolkit.suites --hosts gpu[1-4]")
    base = Access(
        inventory=inventory,
        transport=_option(config, "--gdr-transport") or "paramiko",
        become=not _option(config, "--gdr-no-become"),
        yes=True,
    )
    options = {name: config.getoption(name, default=None) for name in OPTIONS}
    return access_of(config.getoption("hosts") or "", options, base)


class CheckAnswer(Struct, frozen=True):
    """What a check says of a host; a failed assertion shows it whole."""

    host: str
    verdict: Verdict

    @property
    def status(self) -> str:
        """One of pass, fail, unknown, n/a."""
        return self.verdict.status.value

    @property
    def passed(self) -> bool:
        return self.verdict.status is Status.PASS

    @property
    def failed(self) -> bool:
        return self.verdict.status is Status.FAIL

    @property
    def found(self) -> str:
        return self.verdict.finding.found

    def __repr__(self) -> str:
        lines = verdict_text(self.host, self.verdict).split("\n")
        return f"<{'; '.join(' '.join(line.split()) for line in lines)}>"


class GdrHost(Struct, frozen=True):
    """A host, judged."""

    name: str
    node: Node  # its facts
    judged: Judged

    def __repr__(self) -> str:
        return f"<{self.name}: {self.judged.state}>"

    def __getitem__(self, check: str) -> CheckAnswer:
        """The answer of a check by its id, such as "peermem.loaded".

        :raises KeyError: there is no such check; it names those that come near.
        """
        try:
            asked = named(check, [each.check for each in self.judged.verdicts]).id
        except UsageError as why:
            raise KeyError(f"{why}; {why.hint}") from None
        found = next(each for each in self.judged.verdicts if each.check.id == asked)
        return CheckAnswer(self.name, found)


def judged_host(config: pytest.Config, name: str) -> GdrHost:
    """The host of that name; the test fails in a sentence where it cannot be asked."""
    refuse_trouble(config)
    found = gathered_of(config)[name]
    if isinstance(found, ToolkitError):
        pytest.fail(f"{found}\n next: {found.hint}", pytrace=False)
    want = config.stash[WANT].of(name)
    evidence = sealed(found, want)
    return GdrHost(name, Node(evidence), judge_node(name, evidence, want, date.today()))
