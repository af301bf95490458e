"""The verb that shows which hosts are meant, and what holds for each of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from msgspec.structs import replace

from toolkit import DEFAULT_PROFILE
from toolkit.cli.options import HOSTS, REACH, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, HostKeyError, NewKey, Outcome, UsageError
from toolkit.expect import said as expected
from toolkit.groups import SiteWants
from toolkit.hosts.addresses import VAGRANT
from toolkit.hosts.host import Host, fold
from toolkit.plural import counted
from toolkit.report.document import Json, dumps, picked
from toolkit.report.listings import Row, hosts_document
from toolkit.report.table import Ink, Painter, clean, columns, labelled, wants_colour
from toolkit.report.text import errors
from toolkit.ssh.known_hosts import fingerprint
from toolkit.ssh.ssh_config import SshConfig
from toolkit.ssh.transport_errors import kind_name
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.cli.session import Session, consent, fleet
from toolkit.verbs.host_keys import add_keys, scan

Told = tuple[Host, tuple[Row, ...]]  # with what holds for it, where that was asked


@verb(
    HOSTS,
    REACH,
    WANT,
    (
        Option("explain", False, "what holds for each host, and where that was said"),
        Option("scan_keys", False, "ask for host keys that are not known; --yes writes them down"),
        Option("json", False, "one JSON document on standard output (docs/hosts.schema.json)"),
    ),
)
def hosts(said: Said) -> ExitCode:
    """The hosts that a node set names, and how each would be reached.

    With --explain: address, port, user, jump, key, become, profile, expectations and waivers,
    each with the line, the variable or the option that says so. No host is asked.

    With --scan-keys each host is asked for its host key, and nobody logs in there. Keys that are
    not known are listed with their fingerprints, to be compared with what is known of them
    elsewhere; after a yes they are written to the file of known hosts. Without one it exits 7.
    A key that has changed or is revoked is told with exit 4, and never written.

    Examples:
      invoke hosts --hosts 'gpu[001-128]!gpu007'
      invoke hosts --inventory hosts.yml --hosts '@train&@rack1'
      invoke hosts --inventory hosts.yml --hosts gpu007 --site site.toml --explain
      invoke hosts --hosts gpu[001-128] --scan-keys
    """
    session = Session.begin("hosts", said)
    wants = session.wants()
    if said.flag("explain") and said.flag("scan_keys"):
        raise UsageError(
            "--explain asks no host, and --scan-keys does", hint="say one of them; then the other"
        )
    with fleet(said, serve=said.flag("scan_keys")) as opened:
        if said.flag("scan_keys"):
            return _scanned(session, opened)
        told: list[Told] = [(host, ()) for host in opened.hosts]
        if said.flag("explain"):
            told = _explained(session, opened, wants)
    if said.flag("json"):
        sys.stdout.write(dumps(hosts_document(told)))
    elif said.flag("explain"):
        print("\n".join(_blocks(told, Painter(wants_colour(sys.stdout)))))
    else:
        print("\n".join(_listed([host for host, _ in told])))
    return ExitCode.OK


def _listed(named: Sequence[Host]) -> list[str]:
    """A table, with a column more for what some host has, and whom nobody can reach below it."""
    more = [name for name in ("jump", "key_file", "bmc") if any(getattr(e, name) for e in named)]
    rows = [
        (
            *(host.name, host.address or host.name, host.user or "-", str(host.port or "-")),
            *(getattr(host, name) or "-" for name in more),
            ",".join(host.groups) or "-",
        )
        for host in named
    ]
    head = ("name", "address", "user", "port", *more, "groups")
    lines = [clean(line) for line in columns([head, *rows])]
    return [*lines, *(clean(f"{host.name} is {host.away}") for host in named if host.away)]


def _blocks(told: Sequence[Told], paint: Painter) -> list[str]:
    """A block for the hosts of which the same holds."""
    blocks: dict[tuple[Row, ...], list[str]] = {}
    for host, rows in told:
        alike = (replace(e, value="the name itself") if e.value == host.name else e for e in rows)
        blocks.setdefault(tuple(alike), []).append(host.name)
    lines: list[str] = []
    for rows, names in blocks.items():
        lines += ["", paint(clean(fold(names)), Ink.BOLD)]
        for row in rows:
            lines += labelled(row.what, f"{row.value}  ({row.source})", indent=2)
    return lines[1:]


def _explained(session: Session, fleet: Fleet, wants: SiteWants) -> list[Told]:
    said, demo = session.said, fleet.demo
    file = Path(fleet.access.ssh_config) if fleet.access.ssh_config else None
    config = SshConfig() if demo else SshConfig.load(file)
    told: list[Told] = []
    for host in fleet.hosts:
        named = "Vagrant" if host.name.startswith(VAGRANT) else "the demo" if demo else "its name"
        way = _way(host, fleet.access, config, named)
        told.append((host, (*way, *_wanted(host, wants, said, session.today))))
    return told


def _way(host: Host, access: Access, config: SshConfig, named: str) -> Iterator[Row]:
    """How the host is reached: what it has of its own, then what ssh_config says, then defaults.

    :param named: where it has from what nobody else said of it.
    """
    target, lines, own = config.target(host), config.where(host), dict(host.sources)

    def source(field: str, *keys: str) -> str:
        if getattr(host, field):
            return own.get(field, named)
        said = next((lines[key] for key in keys if key in lines), "default")
        return said or own.get("options", named)

    door = target.door
    alias = own.get("address", named)  # which HostName goes before, whoever has said that
    at = (lines["hostname"] or own.get("options", named)) if "hostname" in lines else alias
    yield Row("address", door.address, at)
    yield Row("port", str(door.port), source("port", "port"))
    yield Row("user", door.user, source("user", "user"))
    hops = " then ".join(f"{hop.door.user}@{hop.door.spot}" for hop in target.jumps)
    yield Row("jump", hops or door.proxy or "none", source("jump", "proxyjump", "proxycommand"))
    keys = ", ".join(target.key_files) or "the agent's alone"
    lines_of_keys = [lines.get("identityfile", "")] * bool(host.key_file)
    told = filter(None, (source("key_file", "identityfile"), *lines_of_keys))
    yield Row("key", keys, "; ".join(told))
    become = "by sudo, where not root" if access.become else "never"
    yield Row("become", become, "default" if access.become else "--no-become")
    if host.away:
        yield Row("away", host.away, "the inventory")


def _wanted(host: Host, wants: SiteWants, said: Said, today: date) -> Iterator[Row]:
    """What the node behind it should be; of a group's file and number where one says so."""
    site, profile = said.text("site"), said.text("profile")
    usual = "default" if profile == DEFAULT_PROFILE else "--profile"
    groups = [
        (f"{site}, group {number}", group)
        for number, (among, group) in enumerate(wants.groups, start=1)
        if among(host.name)
    ]
    named = next(((each.named, where) for where, each in groups if each.named), (profile, usual))
    yield Row("profile", *named)
    found: dict[str, list[str]] = {}
    for key, value in wants.of(host.name).expect:
        own = (where for where, each in groups if each.expect[key] is not None)
        found.setdefault(next(own, site or usual), []).append(f"{key} {expected(key, value)}")
    yield from (Row("expect", ", ".join(keys), where) for where, keys in found.items())
    waivers = [(site or usual, each) for each in wants.common.waivers]
    waivers += [(where, w) for where, each in groups for w in each.waivers if not w.hosts]
    waivers += [(f"{site}, for {w.hosts}", w) for among, w in wants.waivers if among(host.name)]
    for where, each in waivers:
        over = ", which is over" if each.until < today else ""
        yield Row("waived", f"{each.check} until {each.until}{over}: {each.reason}", where)


def _scanned(session: Session, fleet: Fleet) -> ExitCode:
    """The keys that were not known, one list; written down after a yes."""
    said = session.said
    outcomes = scan(fleet)
    new = [each.value for each in outcomes if each.value]
    if not said.flag("json"):
        print("\n".join(_keys(outcomes, session.paint)))
    seen = not said.flag("json") and sys.stdin.isatty() and sys.stderr.isatty()
    asked = said.flag("yes") or seen  # of a document nobody has read a line by then
    added = bool(new) and asked and not said.dry
    if added:
        count = counted(len(set(new)), "key")
        consent(f"write {count} to {', '.join(dict.fromkeys(e.file for e in new))}?", said)
        add_keys(new)
        session.remark(f"written: {count}")
    if said.flag("json"):
        hosts = [(host, ()) for host in fleet.hosts]
        told = {each.host: _key(each, added=added) for each in outcomes}
        sys.stdout.write(dumps(hosts_document(hosts, told)))

    def code(outcome: Outcome[NewKey | None]) -> ExitCode:
        if outcome.error is not None:
            return outcome.error.exit_code
        open_ = outcome.value and not (added and outcome.value.host == outcome.host)
        return ExitCode.PENDING if open_ else ExitCode.OK

    return session.ended(outcomes, code)


def _keys(outcomes: Sequence[Outcome[NewKey | None]], paint: Painter) -> list[str]:
    """Each key with the hosts that have it, then those that could not be asked, and the rest."""
    found: dict[NewKey, list[str]] = {}
    having: dict[tuple[str, str], list[str]] = {}
    for each in outcomes:
        if each.value:
            found.setdefault(each.value, []).append(each.host)
    for key in found:
        having.setdefault((kind_name(key.kind), fingerprint(key.blob)), []).append(key.host)
    rows = [(*names, clean(fold(hosts))) for names, hosts in having.items()]
    head, *lines = columns([("kind", "fingerprint", "new key of"), *rows])
    lines = [paint(head, Ink.GREY), *lines, ""] if rows else []
    for key, hosts in found.items():
        if behind := [each for each in hosts if each != key.host]:
            lines += [f"{clean(fold(behind))}: behind {clean(key.host)}, whose key comes first", ""]
    lines += errors(((each.host, each.error) for each in outcomes), paint)
    known = [each.host for each in outcomes if not each.value and not each.error]
    return [*lines, f"known: {clean(fold(known))}"] if known else lines[:-1]


def _key(outcome: Outcome[NewKey | None], *, added: bool) -> dict[str, Json]:
    key, error = outcome.value, outcome.error
    if key is None:
        state = "known" if error is None else "refused" if isinstance(error, HostKeyError) else ""
        return {"state": state or "out of reach", "message": str(error or "")}
    behind = key.host != outcome.host
    return {
        "state": "behind" if behind else "added" if added else "new",
        "message": f"behind {key.host}, whose key comes first" if behind else "",
        **picked(key, "host name kind file"),
        "fingerprint": fingerprint(key.blob),
    }
