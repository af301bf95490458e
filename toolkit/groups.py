"""What each host should be: the wanted state of all, and what groups of hosts have of their own.

    common     profile < the site's file
    a group's  its profile in place of --profile < the site's file < its path, expect, waivers

A host may be in several groups that do not contradict one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.errors import UsageError
from toolkit.expect import said
from toolkit.hosts.host import NOTHING, Inventory, fold, members, select
from toolkit.want import Group, Waiver, Want


def numbered(number: int) -> str:
    """What a node is called where names are hidden, by its place among the nodes."""
    return f"node{number:03d}"


class Wants(Protocol):
    """What each host should be. A Want is one, and means the same for all of them."""

    def of(self, host: str) -> Want:
        """By its name, as the operator wrote it or as its evidence is named."""


class SiteWants(Struct, frozen=True):
    """The wanted state of a site whose hosts are not all alike."""

    common: Want  # what holds of all, and of whatever has no name: an image, a fleet
    groups: tuple[tuple[Callable[[str], bool], Group], ...] = ()
    waivers: tuple[tuple[Callable[[str], bool], Waiver], ...] = ()  # those that name hosts
    _known: dict[tuple[bool, ...], Want] = field(default_factory=dict)

    def of(self, host: str) -> Want:
        """Hosts that are in the same groups have one Want, which is made once."""
        found = tuple(among(host) for among, _ in (*self.groups, *self.waivers))
        if found not in self._known:
            self._known.setdefault(found, self._made(found))
        return self._known[found]

    def telling_nobody(self, word: str) -> SiteWants:
        """The same with ``word`` for the site's reasons to live with failures."""

        def hidden(waiver: Waiver) -> Waiver:
            return replace(waiver, reason=word)

        common = replace(self.common, waivers=tuple(map(hidden, self.common.waivers)))
        groups = tuple(
            (among, replace(each, waivers=tuple(map(hidden, each.waivers))))
            for among, each in self.groups
        )
        return SiteWants(common, groups, tuple((a, hidden(each)) for a, each in self.waivers))

    def _made(self, found: tuple[bool, ...]) -> Want:
        want, waivers = self.common, list(self.common.waivers)
        for (_, group), ours in zip(self.groups, found, strict=False):
            if ours:
                want = replace(want, **dict(group.profile))
        for (_, group), ours in zip(self.groups, found, strict=False):
            if ours:
                want = replace(want, expect=want.expect.under(group.expect))
                waivers += (each for each in group.waivers if not each.hosts)
        named = zip(self.waivers, found[len(self.groups) :], strict=True)
        waivers += [replace(each, hosts="") for (_, each), ours in named if ours]
        waivers.sort(key=lambda each: each.until, reverse=True)  # of two the one that still counts
        return replace(want, waivers=tuple(waivers))


class Renamed(Struct, frozen=True):
    """The same where evidence goes by other names than its hosts have."""

    wants: Wants
    hosts: dict[str, str]  # by the names of the evidence

    def number(self, hosts: Iterable[str]) -> None:
        """The evidence is called node001 and so on, where names are hidden."""
        self.hosts.update((numbered(n), name) for n, name in enumerate(hosts, start=1))

    def of(self, host: str) -> Want:
        return self.wants.of(self.hosts.get(host, host))


def for_all(want: Want) -> Want:
    """What holds of every host, without what the file says of some."""
    waivers = tuple(each for each in want.waivers if not each.hosts)
    return replace(want, waivers=waivers, group=())


def resolved(want: Want, inventory: Callable[[], Inventory], file: str) -> SiteWants:
    """Look up the hosts that the groups and waivers of the site's file name.

    :param inventory: is asked only where a host set is looked up.
    :param file: the site's, for messages.
    :raises UsageError: a set that cannot be read, or groups that contradict one another.
    """
    for_some = [each for each in want.waivers if each.hosts]
    known = inventory() if want.group or for_some else NOTHING
    groups = tuple(
        (_members(each.hosts, known, f"{file}: group {number}"), each)
        for number, each in enumerate(want.group, start=1)
    )
    waivers = [(_members(w.hosts, known, f"{file}: waiver of {w.check}"), w) for w in for_some]
    for number, (among, group) in enumerate(groups, start=1):
        for each in (each for each in group.waivers if each.hosts):
            where = f"{file}: group {number}: waiver of {each.check}"
            waivers.append((_both(among, _members(each.hosts, known, where)), each))
    _agree(want.group, known, file)
    return SiteWants(for_all(want), groups, tuple(waivers))


def _both(one: Callable[[str], bool], other: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda host: one(host) and other(host)


def _members(hosts: str, inventory: Inventory, where: str) -> Callable[[str], bool]:
    try:
        return members(hosts, inventory)
    except UsageError as why:
        raise UsageError(f"{where}: hosts = {hosts!r}: {why}", hint=why.hint) from why


def _agree(groups: tuple[Group, ...], inventory: Inventory, file: str) -> None:
    """:raises UsageError: two groups say different things of one host."""
    named = [{host.name for host in select(each.hosts, inventory)} for each in groups]
    for one, other in combinations(range(len(groups)), 2):
        both = named[one] & named[other]
        if both and (gap := next(_gaps(groups[one], groups[other]), "")):
            raise UsageError(
                f"{file}: group {one + 1} and group {other + 1} contradict one another on "
                f"{fold(both)[:200]}: {gap}",
                hint=f'take them out of one of the two: hosts = "{groups[one].hosts}!{fold(both)}"'[
                    :400
                ],
            )


def _gaps(one: Group, other: Group) -> Iterator[str]:
    theirs = dict(other.profile)
    for name, value in one.profile:
        if name in theirs and theirs[name] != value:
            yield f"profile, {name} {value} and {theirs[name]}"
    for key, expected in one.expect:
        against = other.expect[key]
        if against is not None and against != expected:
            yield f"expect, {key} {said(key, expected)} and {said(key, against)}"
