"""One BMC, over Redfish: logged in for as long as the block lasts, read as evidence.

bmc                  "key value" lines: address, verified, vendor, model, bios, bmc, registry-id
bmc-system           the ComputerSystem, as served      bmc-bios           the Bios resource
bmc-bios-pending     what waits for the next start      bmc-bios-registry  what is known of each
bmc-secureboot       the SecureBoot resource            bmc-bios-lockdown  what tells of lockdown
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from toolkit.errors import BmcCertificate, BmcError, BmcLogin, BmcRefused, BmcSilent
from toolkit.evidence import Frame, State
from toolkit.redfish.registry import RegistryCache, RegistryKey
from toolkit.redfish.resource import (
    FoundMachine,
    Json,
    NoBios,
    Resource,
    find,
    is_registry,
    link,
    members,
    optional,
    parsed,
    registry_names,
    registry_place,
    table_of,
    text_of,
)
from toolkit.redfish.session import Guest

# After these no further request may be sent: a refused login counts, an impostor listens.
_FATAL = (BmcLogin, BmcCertificate)
_FILES = 6  # registry files that are looked into before it counts as not offered
_LONGEST = 200  # characters of a word that heads something


class Reader(Guest):
    """A BMC while we are logged in."""

    _found: FoundMachine | None = None

    def found(self) -> FoundMachine:
        """The machine behind the BMC, as it was when it was first asked for.

        :raises BmcError: it cannot be read, or has no BIOS settings.
        """
        if self._found is None:
            systems = link(self.inside.root.json, "Systems")
            listed = optional(self.get, systems)
            self._found = find(self.name, self.get, members(listed.body) if listed else [])
        return self._found

    def read(self, known: RegistryCache) -> tuple[Frame, ...]:
        """Everything that checks rest on, word for word.

        :param known: registries that need not be fetched again.
        :raises BmcError: what nothing can do without could not be read.
        """
        self.http.begin()
        self._found = None
        found = self.found()
        manager = self._manager(found)
        lockdown = self._lockdown(manager)
        unread = lockdown.state not in {State.OK, State.ABSENT}
        key = registry_key(found, "not read" if unread else lockdown.text)
        lines = {
            "address": self.name,
            "verified": self.http.line.trust.verified,
            "vendor": key.vendor,
            "model": key.model,
            "bios": key.version,
            "bmc": text_of(manager.body, "FirmwareVersion") if manager else "",
            "registry-id": key.name,
        }
        text = "".join(f"{name} {one_line(value)}\n" for name, value in lines.items())
        about = Frame("bmc", State.OK, f"{self.base}/redfish/v1/", text)
        return (
            about,
            *self._settings(found),
            self._registry(found, key, known),
            self._side("bmc-secureboot", link(found.system.body, "SecureBoot")),
            lockdown,
        )

    def active(self) -> tuple[Frame, ...]:
        """The active settings and what is pending, read again: after a change, after a start.

        :raises BmcError: likewise.
        """
        self.http.begin()
        self._found = None
        return self._settings(self.found())

    def _settings(self, found: FoundMachine) -> tuple[Frame, ...]:
        return (
            self._frame("bmc-system", found.system),
            self._frame("bmc-bios", found.bios),
            self._frame("bmc-bios-pending", found.pending, f"{found.bios.path}/Settings"),
        )

    def _manager(self, found: FoundMachine) -> Resource | None:
        """What the BMC says of itself; None where it does not, or may not be asked."""
        try:
            return optional(self.get, link(found.system.body, "Links", "ManagedBy"))
        except _FATAL:
            raise
        except BmcError:
            return None

    def _lockdown(self, manager: Resource | None) -> Frame:
        """Whether settings are locked as a whole, where the BMC has a word for it.

        Of the resource that tells it only that word: beside it stand users and networks.
        """
        path = attributes_place(manager) if manager else ""
        frame = self._side("bmc-bios-lockdown", path)
        if frame.state is not State.OK:
            return frame
        told = lockdown_words(parsed(self.name, path, frame.text))
        return self._text("bmc-bios-lockdown", path, json.dumps(told) + "\n" if told else "")

    def _registry(self, found: FoundMachine, key: RegistryKey, known: RegistryCache) -> Frame:
        name = key.name or "attribute registry"
        try:
            text = known.get(key) or self._in_turn(found, key, known)
        except _FATAL:
            raise
        except BmcError as why:
            return self._unread("bmc-bios-registry", name, why)
        return self._text("bmc-bios-registry", name, text)

    def _in_turn(self, found: FoundMachine, key: RegistryKey, known: RegistryCache) -> str:
        """The registry, fetched by one of those who want it; "" where none is offered."""
        turn = known.turn(key)
        # Who waits in vain, since the BMC whose turn it is hangs, fetches it as well.
        waited = known.worth(key) and turn.acquire(timeout=max(self.http.left_s / 2, 0))
        try:
            if (text := known.get(key)) is None and known.worth(key):
                return self._first(found, key, known)
        finally:
            if waited:
                turn.release()
        return self._fetched(found.bios) if text is None else text

    def _first(self, found: FoundMachine, key: RegistryKey, known: RegistryCache) -> str:
        text = ""
        try:
            text = self._fetched(found.bios)
        finally:
            if not text:
                known.in_vain(key)
        known.put(key, text)
        return text

    def _fetched(self, bios: Resource) -> str:
        listed = optional(self.get, link(self.inside.root.json, "Registries"))
        for path in [*registry_names(bios.body, members(listed.body) if listed else [])][:_FILES]:
            file = optional(self.get, path)
            place = registry_place(file.body) if file else ""
            content = optional(self.get, place) if place else file
            if content is not None and is_registry(content.body):
                return content.text
        return ""

    def _frame(self, key: str, resource: Resource | None, else_path: str = "") -> Frame:
        path = resource.path if resource else else_path
        return self._text(key, path, resource.text if resource else "")

    def _text(self, key: str, path: str, text: str) -> Frame:
        return Frame(key, State.OK if text else State.ABSENT, self._source(path), text)

    def _source(self, path: str) -> str:
        """One line: what stands in it came from the BMC, and heads a frame."""
        return one_line(f"{self.base}{path}" if path.startswith("/") else path)

    def _unread(self, key: str, path: str, why: BmcError) -> Frame:
        status = why.status if isinstance(why, BmcRefused) else 1
        state = _state(why)
        return Frame(
            key,
            state,
            self._source(path),
            f"{one_line(str(why))}\n",
            exit=min(status, 999) if state is State.FAILED else 0,
        )

    def _side(self, key: str, path: str) -> Frame:
        """What is good to know, the registry too: unread, it does not spoil the rest."""
        if not path:
            return self._text(key, "/redfish/v1/: no link", "")
        try:
            return self._frame(key, optional(self.get, path), path)
        except _FATAL:
            raise
        except BmcError as why:
            return self._unread(key, path, why)


def _state(why: BmcError) -> State:
    states = ((BmcLogin, State.DENIED), (BmcSilent, State.TIMEOUT), (NoBios, State.ABSENT))
    if isinstance(why, BmcRefused) and why.status in (401, 403):
        return State.DENIED
    return next((each for kind, each in states if isinstance(why, kind)), State.FAILED)


def failed(address: str, why: BmcError) -> tuple[Frame, ...]:
    """What stands in evidence where a BMC could not be read: why, as one line."""
    state = _state(why)
    source = f"https://{address.removeprefix('https://')}/redfish/v1/"
    text = " ".join(str(why).split()) + "\n"
    return (Frame("bmc", state, source, text, exit=1 if state is State.FAILED else 0),)


def registry_key(found: FoundMachine, lockdown: str) -> RegistryKey:
    """What the registry of this machine is kept by."""
    system = found.system.body
    return RegistryKey(
        text_of(system, "Manufacturer"),
        text_of(system, "Model"),
        text_of(system, "BiosVersion"),
        text_of(found.bios.body, "AttributeRegistry"),
        lockdown,
    )


def attributes_place(manager: Resource) -> str:
    """Where a BMC keeps settings of its own, as far as vendors link them: "" for nowhere.

    Of several it is that which bears the BMC's name: others are of the chassis or of jobs.
    """
    for vendor in table_of(table_of(manager.body, "Links"), "Oem").values():
        for name, listed in vendor.items() if isinstance(vendor, Mapping) else ():
            if name.endswith("Attributes") and isinstance(listed, list):
                paths = [text_of(each, "@odata.id") for each in listed if isinstance(each, Mapping)]
                own = manager.path.rstrip("/").rpartition("/")[2]
                named = [each for each in paths if each.rstrip("/").endswith(f"/{own}")]
                return next(iter(named or paths), "")
    return ""


def lockdown_words(attributes: Json) -> dict[str, str]:
    """The attributes that tell of lockdown, by their names."""
    told = table_of(attributes, "Attributes").items()
    return {
        name: value for name, value in told if "lockdown" in name.lower() and isinstance(value, str)
    }


def one_line(text: str) -> str:
    """Text of a BMC where only one line may stand."""
    return " ".join(text.split())[:_LONGEST]
