"""One BMC, over Redfish: logged in for as long as the block lasts, read as evidence.

bmc                  "key value" lines: address, verified, vendor, model, bios, bmc, registry-id
bmc-system           the ComputerSystem, as served      bmc-bios           the Bios resource
bmc-bios-pending     what waits for the next start      bmc-bios-registry  what is known of each
bmc-secureboot       the SecureBoot resource            bmc-bios-lockdown  what tells of lockdown
"""

from __future__ import annotations

import contextlib

from toolkit.errors import BmcError, BmcLogin, BmcRefused, BmcSilent
from toolkit.evidence import Frame, State
from toolkit.reach.redfish_doors import Doors
from toolkit.reach.redfish_find import (
    Found,
    NoBios,
    Resource,
    find,
    is_registry,
    link,
    members,
    optional,
    registry_names,
    registry_place,
    text_of,
)
from toolkit.reach.redfish_guest import Guest
from toolkit.reach.redfish_http import Limits
from toolkit.reach.redfish_registry import RegistryCache, RegistryKey
from toolkit.reach.redfish_trust import Login, Trust

_FILES = 6  # registry files that are looked into before it counts as not offered


class Reader(Guest):
    """A BMC while we are logged in."""

    def __init__(
        self,
        address: str,
        login: Login,
        trust: Trust,
        *,
        limits: Limits | None = None,
        doors: Doors | None = None,
    ) -> None:
        """:raises UsageError: the address makes no sense."""
        super().__init__(address, login, trust, limits=limits, doors=doors)
        self._found: Found | None = None

    def found(self) -> Found:
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
        registry, text = self._registry(found, known)
        return (
            self._about(found, registry),
            self._frame("bmc-system", found.system),
            self._frame("bmc-bios", found.bios),
            self._frame("bmc-bios-pending", found.pending, f"{found.bios.path}/Settings"),
            self._text("bmc-bios-registry", registry.name or "attribute registry", text),
            self._side("bmc-secureboot", link(found.system.body, "SecureBoot")),
        )

    def active(self) -> tuple[Frame, ...]:
        """The active settings and what is pending, read again: after a change, after a start.

        :raises BmcError: likewise.
        """
        self.http.begin()
        self._found = None
        found = self.found()
        return (
            self._frame("bmc-system", found.system),
            self._frame("bmc-bios", found.bios),
            self._frame("bmc-bios-pending", found.pending, f"{found.bios.path}/Settings"),
        )

    def _about(self, found: Found, registry: RegistryKey) -> Frame:
        lines = {
            "address": self.name,
            "verified": self.http.line.trust.verified,
            "vendor": registry.vendor,
            "model": registry.model,
            "bios": registry.version,
            "bmc": self._firmware(found),
            "registry-id": registry.name,
        }
        text = "".join(f"{key} {' '.join(value.split())}\n" for key, value in lines.items())
        return Frame("bmc", State.OK, f"{self.base}/redfish/v1/", text)

    def _firmware(self, found: Found) -> str:
        """Version of the BMC's own firmware; "" where it does not tell."""
        with contextlib.suppress(BmcRefused):
            manager = optional(self.get, link(found.system.body, "Links", "ManagedBy"))
            return text_of(manager.body, "FirmwareVersion") if manager else ""
        return ""

    def _registry(self, found: Found, known: RegistryCache) -> tuple[RegistryKey, str]:
        """The registry's key and text, "" where none is offered."""
        system = found.system.body
        key = RegistryKey(
            text_of(system, "Manufacturer"),
            text_of(system, "Model"),
            text_of(system, "BiosVersion"),
            text_of(found.bios.body, "AttributeRegistry"),
        )
        text = known.get(key)
        if text is not None:
            return key, text
        turn = known.turn(key)
        # Who waits in vain, since the BMC whose turn it is hangs, fetches it as well.
        waited = turn.acquire(timeout=max(self.http.left_s / 2, 0))
        try:
            text = known.get(key)
            if text is None:
                text = self._fetched(found.bios)
                if text:
                    known.put(key, text)
        finally:
            if waited:
                turn.release()
        return key, text

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
        source = f"{self.base}{path}" if path.startswith("/") else path
        return Frame(key, State.OK if text else State.ABSENT, source, text)

    def _side(self, key: str, path: str) -> Frame:
        """Something that is good to know: that it cannot be read does not spoil the rest."""
        if not path:
            return self._text(key, "/redfish/v1/: no link", "")
        try:
            return self._frame(key, optional(self.get, path), path)
        except BmcRefused as why:
            state = State.DENIED if why.status in (401, 403) else State.FAILED
            return Frame(key, state, f"{self.base}{path}", f"{why}\n", exit=min(why.status, 999))


def failed(address: str, why: BmcError) -> tuple[Frame, ...]:
    """What stands in evidence where a BMC could not be read: why, as one line."""
    states = ((BmcLogin, State.DENIED), (BmcSilent, State.TIMEOUT), (NoBios, State.ABSENT))
    state = next((each for kind, each in states if isinstance(why, kind)), State.FAILED)
    source = f"https://{address.removeprefix('https://')}/redfish/v1/"
    text = " ".join(str(why).split()) + "\n"
    return (Frame("bmc", state, source, text, exit=1 if state is State.FAILED else 0),)
