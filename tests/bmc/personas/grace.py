"""OpenBMC on Grace: as a GB200 is known to have its attributes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bmc.persona import Etag, Manners, Pending, Persona
from tests.bmc.plant import ROOT, Attribute, Layout, choice, flag, grow, number

_MENU = "./Device Manager/NVIDIA Configuration/Grace Configuration"
_LAYOUT = Layout(
    vendor="NVIDIA",
    model="GB200 NVL",
    bios_version="",
    bmc_version="GB200Nvl-25.01",
    serial="",
    sku="",
    uuid="55555555-2222-3333-4444-53494d303037",
    system="System_0",
    manager="BMC_0",
    registry_id="BiosAttributeRegistry",
    named="",  # the Bios resource names no registry
    file="BiosAttributeRegistry",
    uri=ROOT + "/Registries/BiosAttributeRegistry/BiosAttributeRegistry",
    action_info=True,
    others=("HGX_Baseboard_0",),
)
_MANNERS = Manners(
    etag=Etag.OFFERED,
    etag_header=True,
    pending=Pending.CHANGES,
    resets=(
        *("ForceOff", "PowerCycle", "Nmi", "GracefulShutdown", "On", "ForceOn"),
        *("GracefulRestart", "ForceRestart"),
    ),
    accepts=204,
    progress=True,
    session_timeout_s=1800,
)


def _port(socket: int, port: int) -> Iterator[Attribute]:
    name = f"Socket{socket}Pcie{port}"
    menu = f"{_MENU}/Socket {socket} configuration/PCIe C{port} Configuration"
    yield flag(f"{name}AdvertiseACS", "Advertise ACS capability", menu, True, DefaultValue=True)
    yield flag(f"{name}Ext10BitTagReq", "10-bit tag requester", menu, False)
    yield flag(f"{name}EnableASPML1", "ASPM L1 support", menu, False)
    yield choice(f"{name}MaxPayloadSize", "Max payload size", menu, "Auto 128B", "Auto")
    yield choice(
        # One port of one machine has its name misspelt.
        f"{name.replace('Pcie1', 'Pcie1ax') if port == 1 else f'{name}Max'}PCIespeed",
        *("Max PCIe speed", menu, "Auto Gen1 Gen2 Gen3 Gen4 Gen5", "Auto"),
    )


_ATTRIBUTES = (
    number("ActiveCores", "Max Enabled Cores", _MENU, (0, 336), 144),
    flag("EGM", "EGM", _MENU, False),
    *(each for socket in (0, 1) for port in (0, 1) for each in _port(socket, port)),
)


def grace() -> Persona:
    """A registry that nothing names, one attribute for each port, a second system, no versions."""
    made = grow("grace", _LAYOUT, _MANNERS, _ATTRIBUTES)
    for name in ("Manufacturer", "Model", "SerialNumber", "SKU", "BiosVersion"):
        del made.tree[made.system][name]
    return made
