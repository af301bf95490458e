"""Grows the tree of a small persona from a list of attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bmc.persona import Manners, Persona
from tests.bmc.rules import Resource

ROOT = "/redfish/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One attribute: its entry in the registry, and the value that it begins with."""

    entry: Resource
    now: Any = None  # None: in the registry alone

    @property
    def name(self) -> str:
        return str(self.entry["AttributeName"])


def choice(
    name: str, display: str, menu: str, values: str | Sequence[str], now: str | None, **more: Any
) -> Attribute:
    """An enumeration; ``values`` of one word each may be one text."""
    names = values.split() if isinstance(values, str) else values
    listed = [{"ValueName": each, "ValueDisplayName": each} for each in names]
    return _attribute((name, display, menu), "Enumeration", now, {"Value": listed} | more)


def flag(name: str, display: str, menu: str, now: bool | None, **more: Any) -> Attribute:
    return _attribute((name, display, menu), "Boolean", now, more)


def number(
    name: str, display: str, menu: str, bounds: tuple[int, int], now: int, **more: Any
) -> Attribute:
    limits = {"LowerBound": bounds[0], "UpperBound": bounds[1], "ScalarIncrement": 1}
    return _attribute((name, display, menu), "Integer", now, limits | more)


def text(name: str, display: str, menu: str, now: str, **more: Any) -> Attribute:
    return _attribute((name, display, menu), "String", now, {"MaxLength": 64} | more)


def _attribute(names: tuple[str, str, str], kind: str, now: Any, more: Resource) -> Attribute:
    keys = ("AttributeName", "DisplayName", "MenuPath")
    entry: Resource = dict(zip(keys, names, strict=True)) | {"Type": kind}
    entry |= {"ReadOnly": False, "Hidden": False, "ResetRequired": True, "HelpText": "", **more}
    return Attribute(entry={key: each for key, each in entry.items() if each != ""}, now=now)


def when(
    source: str, is_: Any, target: str, unless: bool = False, **becomes: Any
) -> list[Resource]:
    """Dependencies: ``when("A", "Disabled", "B", CurrentValue="Disabled", ReadOnly=True)``."""
    term = {
        "MapFromAttribute": source,
        "MapFromCondition": "NEQ" if unless else "EQU",
        "MapFromProperty": "CurrentValue",
        "MapFromValue": is_,
    }
    rule = {"MapFrom": [term], "MapToAttribute": target}
    return [
        {
            "Dependency": rule | {"MapToProperty": name, "MapToValue": value},
            "DependencyFor": target,
            "Type": "Map",
        }
        for name, value in becomes.items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where a vendor puts things, and what its machine is called."""

    vendor: str
    model: str
    bios_version: str
    bmc_version: str
    serial: str
    uuid: str
    sku: str = ""
    system: str = "1"
    bios: str = "Bios"  # as it is written after the system's path
    pending: str = "Settings"
    announced: bool = True  # by @Redfish.Settings
    manager: str = "1"
    registry_id: str = "BiosAttributeRegistry.v1_0_0"  # what the registry calls itself
    named: str = "BiosAttributeRegistry.v1_0_0"  # what the Bios resource calls it; "" for nothing
    file: str = "BiosAttributeRegistry.v1_0_0"  # its place in Registries; "" for none
    uri: str = ROOT + "/Registries/BiosAttributeRegistry.v1_0_0.json"
    language: str = "en"
    action_info: bool = False  # the allowed resets stand in an ActionInfo
    product: str = ""
    others: tuple[str, ...] = ()  # systems without a Bios, listed first


def grow(
    name: str,
    layout: Layout,
    manners: Manners,
    attributes: Sequence[Attribute],
    rules: Sequence[Resource] = (),
) -> Persona:
    tree = dict(_root(layout))
    tree |= dict(_system(layout, manners))
    tree |= dict(_bios(layout, manners, attributes))
    tree |= dict(_registry(layout, attributes, rules))
    return Persona(name, tree, manners)


def _link(*parts: str) -> Resource:
    return {"@odata.id": "/".join((ROOT, *parts))}


def _collection(kind: str, path: str, members: Sequence[str]) -> tuple[str, Resource]:
    listed = [_link(path, each) for each in members]
    head = {"@odata.id": f"{ROOT}/{path}", "@odata.type": f"#{kind}Collection.{kind}Collection"}
    body = {"Name": kind, "Members": listed, "Members@odata.count": len(listed)}
    return f"{ROOT}/{path}", head | body


def _root(it: Layout) -> Iterator[tuple[str, Resource]]:
    yield "/redfish", {"v1": f"{ROOT}/"}
    parts = ("Systems", "Managers", "Registries", "SessionService")
    links = {each: _link(each) for each in parts} | {"Tasks": _link("TaskService")}
    head = {
        "@odata.id": ROOT,
        "@odata.type": "#ServiceRoot.v1_9_0.ServiceRoot",
        "Id": "RootService",
    }
    body = {"Name": "Root Service", "RedfishVersion": "1.11.0", "Vendor": it.vendor}
    sessions = {"Links": {"Sessions": _link("SessionService", "Sessions")}}
    yield ROOT, head | body | links | sessions | ({"Product": it.product} if it.product else {})
    yield _collection("ComputerSystem", "Systems", (*it.others, it.system))
    yield _collection("Manager", "Managers", (it.manager,))
    yield (
        f"{ROOT}/Managers/{it.manager}",
        _link("Managers", it.manager)
        | {"@odata.type": "#Manager.v1_12_0.Manager", "Id": it.manager, "Name": "Manager"}
        | {"FirmwareVersion": it.bmc_version, "ManagerType": "BMC"}
        | {"Links": {"ManagerForServers": [_link("Systems", it.system)]}},
    )


def _system(it: Layout, manners: Manners) -> Iterator[tuple[str, Resource]]:
    for other in it.others:
        typed = {"@odata.type": "#ComputerSystem.v1_16_0.ComputerSystem", "Id": other}
        yield f"{ROOT}/Systems/{other}", _link("Systems", other) | typed | {"Name": other}
    here = f"{ROOT}/Systems/{it.system}"
    action: Resource = {"target": f"{here}/Actions/ComputerSystem.Reset"}
    if it.action_info:
        action |= {"@Redfish.ActionInfo": f"{here}/ResetActionInfo"}
        asked: Resource = {
            "Name": "ResetType",
            "DataType": "String",
            "AllowableValues": [*manners.resets],
        }
        info: Resource = {"@odata.type": "#ActionInfo.v1_1_2.ActionInfo", "Id": "ResetActionInfo"}
        info |= {"Name": "Reset", "Parameters": [asked | {"Required": True}]}
        yield f"{here}/ResetActionInfo", {"@odata.id": f"{here}/ResetActionInfo"} | info
    else:
        action |= {"ResetType@Redfish.AllowableValues": [*manners.resets]}
    yield (
        here,
        {"@odata.id": here, "@odata.type": "#ComputerSystem.v1_16_0.ComputerSystem"}
        | {"Id": it.system, "Name": "System", "Manufacturer": it.vendor, "Model": it.model}
        | {"SerialNumber": it.serial, "SKU": it.sku, "UUID": it.uuid, "PowerState": "On"}
        | {"BiosVersion": it.bios_version, "Bios": {"@odata.id": f"{here}/{it.bios}"}}
        | {"SecureBoot": {"@odata.id": f"{here}/SecureBoot"}}
        | {"Links": {"ManagedBy": [_link("Managers", it.manager)]}}
        | {"Actions": {"#ComputerSystem.Reset": action}},
    )
    yield (
        f"{here}/SecureBoot",
        {"@odata.id": f"{here}/SecureBoot", "@odata.type": "#SecureBoot.v1_1_0.SecureBoot"}
        | {"Id": "SecureBoot", "Name": "UEFI Secure Boot", "SecureBootEnable": False}
        | {"SecureBootCurrentBoot": "Disabled", "SecureBootMode": "UserMode"},
    )


def _bios(
    it: Layout, manners: Manners, attributes: Sequence[Attribute]
) -> Iterator[tuple[str, Resource]]:
    here = f"{ROOT}/Systems/{it.system}/{it.bios}"
    named = {"AttributeRegistry": it.named} if it.named else {}
    body: Resource = {"@odata.id": here, "@odata.type": "#Bios.v1_2_0.Bios", "Id": "Bios"}
    body |= {"Name": "BIOS Configuration Current Settings"} | named
    body |= {"Attributes": {each.name: each.now for each in attributes if each.now is not None}}
    body |= {"Actions": {"#Bios.ResetBios": {"target": f"{here}/Actions/Bios.ResetBios"}}}
    if it.announced:
        settings: Resource = {"@odata.type": "#Settings.v1_3_3.Settings"}
        settings |= {"SettingsObject": {"@odata.id": f"{here}/{it.pending}"}}
        if manners.apply_times:
            settings |= {"SupportedApplyTimes": [*manners.apply_times]}
        body |= {"@Redfish.Settings": settings}
    yield here, body
    yield (
        f"{here}/{it.pending}",
        {"@odata.id": f"{here}/{it.pending}", "@odata.type": "#Bios.v1_2_0.Bios"}
        | {"Id": it.pending, "Name": "BIOS Configuration Pending Settings"}
        | named,
    )


def _registry(
    it: Layout, attributes: Sequence[Attribute], rules: Sequence[Resource]
) -> Iterator[tuple[str, Resource]]:
    yield _collection("MessageRegistryFile", "Registries", (it.file,) if it.file else ())
    if it.file:
        where = [{"Language": it.language, "Uri": it.uri}]
        yield (
            f"{ROOT}/Registries/{it.file}",
            _link("Registries", it.file)
            | {"@odata.type": "#MessageRegistryFile.v1_1_3.MessageRegistryFile", "Id": it.file}
            | {"Name": "BIOS Attribute Registry", "Registry": it.registry_id}
            | {"Languages": [it.language], "Location": where},
        )
    if not it.uri:
        return
    held = {"Attributes": [each.entry for each in attributes], "Dependencies": [*rules]}
    system = {"ProductName": it.model, "SystemId": it.system, "FirmwareVersion": it.bios_version}
    yield (
        it.uri,
        {"@odata.type": "#AttributeRegistry.v1_3_6.AttributeRegistry", "Id": it.registry_id}
        | {"Name": "BIOS Attribute Registry", "Language": it.language, "OwningEntity": it.vendor}
        | {"RegistryVersion": "1.0.0", "SupportedSystems": [system], "RegistryEntries": held},
    )
