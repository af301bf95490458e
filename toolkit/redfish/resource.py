"""Where on a BMC the things are that we read: found by links, and by what links leave out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from toolkit.errors import BmcError, BmcRefused
from toolkit.untrusted import read_json

_PENDING = ("SD", "Settings", "Pending")  # below Bios, where nothing points to it
_MANY = 32  # systems that are looked at
_ABSENT = frozenset({400, 404, 405, 410, 501})

Json = Mapping[str, object]


class Resource(Struct, frozen=True):
    """One resource, as served and as parsed."""

    path: str  # "/redfish/v1/Systems/1/Bios"
    text: str  # JSON, ended by a newline
    body: Json
    etag: str = ""  # as the header had it, else as the body has it


Get = Callable[[str], Resource]  # raises BmcError


class FoundMachine(Struct, frozen=True):
    """The machine behind a BMC."""

    system: Resource
    bios: Resource
    pending: Resource | None  # None where none is offered


def link(body: Json, *names: str) -> str:
    """The path that a link leads to: ``link(system, "Bios")``; "" where there is none."""
    found: object = body
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    if isinstance(found, list):
        found = found[0] if found else None
    found = found.get("@odata.id") if isinstance(found, Mapping) else found
    return urlsplit(found).path if isinstance(found, str) else ""


def text_of(body: Json, name: str) -> str:
    """A property that is text; "" for anything else."""
    found = body.get(name)
    return found.strip() if isinstance(found, str) else ""


def rows_of(body: Json, name: str) -> list[object]:
    """A property that is a list; [] for anything else."""
    found = body.get(name)
    return found if isinstance(found, list) else []


def table_of(body: Json, name: str) -> Json:
    """A property that is an object; {} for anything else."""
    found = body.get(name)
    return found if isinstance(found, Mapping) else {}


def members(body: Json) -> list[str]:
    """The paths of a collection's members."""
    return [path for one in rows_of(body, "Members") if (path := link({"it": one}, "it"))]


def optional(get: Get, path: str) -> Resource | None:
    """The resource, or None where the BMC says that there is none.

    :raises BmcError: anything else than "there is none".
    """
    if not path:
        return None
    try:
        return get(path)
    except BmcRefused as why:
        if why.status in _ABSENT:
            return None
        raise


def find(name: str, get: Get, systems: list[str]) -> FoundMachine:
    """The system with BIOS settings, which is not always the first.

    A board of GPUs may stand first among the systems, and fail by itself: others are looked at.

    :param name: the BMC, for sentences.
    :param systems: paths of what the BMC lists as systems.
    :raises BmcError: none of them has any, or the BMC fails us.
    """
    fails: list[BmcRefused] = []
    for path in systems[:_MANY]:
        try:
            system = get(path)
        except BmcRefused as why:
            fails.append(why)
            continue
        bios = optional(get, link(system.body, "Bios"))
        if bios is not None:
            return FoundMachine(system, bios, _pending(get, bios))
    if fails:
        raise fails[0]
    raise NoBios(
        f"{name}: none of its {len(systems)} systems has BIOS settings",
        hint="older firmware offers none over Redfish; what the OS sees is judged alone",
    )


class NoBios(BmcError):
    """A BMC that answers, and offers nothing to read."""


def _pending(get: Get, bios: Resource) -> Resource | None:
    named = link(bios.body, "@Redfish.Settings", "SettingsObject")
    guesses = [f"{bios.path.rstrip('/')}/{each}" for each in _PENDING]
    for path in dict.fromkeys([named, *guesses]):
        if path and (found := optional(get, path)) is not None:
            return found
    return None


def registry_names(bios: Json, listed: list[str]) -> Iterator[str]:
    """Paths of registry files that may be the one meant, the likeliest first.

    Names differ between the two in punctuation and case; some BIOS resources name none.

    :param listed: members of the collection Registries.
    """
    wanted = _plain(text_of(bios, "AttributeRegistry"))
    names = {path: _plain(path.rstrip("/").rpartition("/")[2]) for path in listed}
    related = [
        path
        for path, name in names.items()
        if wanted and name and (name.startswith(wanted) or wanted.startswith(name))
    ]
    yield from sorted(related, key=lambda path: names[path] != wanted)
    for path, name in names.items():
        if "biosattributeregistry" in name and path not in related:
            yield path


def registry_place(file: Json) -> str:
    """The path at which a registry file's content lies, in English where it has a choice."""
    places = [each for each in rows_of(file, "Location") if isinstance(each, dict)]
    places.sort(key=lambda each: not str(each.get("Language", "")).lower().startswith("en"))
    for each in places:
        where = each.get("Uri")
        where = where if isinstance(where, str) else link({"it": where}, "it")
        if where:
            return urlsplit(where).path
    return ""


def is_registry(body: Json) -> bool:
    """Whether this is an attribute registry: it lists attributes."""
    return isinstance(table_of(body, "RegistryEntries").get("Attributes"), list)


def parsed(name: str, path: str, text: str) -> Json:
    """The object that a BMC answered.

    :raises BmcError: it is cut short, or none.
    """
    try:
        body = read_json(text)
    except ValueError as why:
        raise BmcError(
            f"{name}: its answer to {path} is cut short or no JSON",
            hint="run again; if it stays so, the BMC wants a reset",
        ) from why
    if not isinstance(body, dict):
        raise BmcError(f"{name}: its answer to {path} is no resource", hint="is it a BMC?")
    return body


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
