"""What BMCs say, without what identifies a site."""

from __future__ import annotations

import json

import pytest

from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.text.scrub import Scrubber

SERVICE = "https://bmc-gpu7.mgmt.site.example:8443"
SYSTEM = {
    "HostName": "gpu7-oob",
    "SKU": "ABC1234",
    "SerialNumber": "CNIVC0012",
    "UUID": "4C4C4544-0042-3510-8043-B4C04F4D4733",
    "AssetTag": "RACK-17-U3",
    "BiosVersion": "1.8.2",
    "Oem": {"Dell": {"DellSystem": {"NodeID": "ABC1234", "ChassisServiceTag": "ABC1234"}}},
}
BIOS = {
    "Attributes": {
        "SystemServiceTag": "ABC1234",
        "MellanoxNetworkAdapter_A088C2C36F6E__Slot15_MACAddress": "A0:88:C2:C3:6F:6E",
        "SriovGlobalEnable": "Enabled",
        "AdminName": "Jane Doe",
        "AssetTagProtection": "Unlocked",
        "SerialComm": "OnConRedir",
        "FirmwareVersion": "24.41.10.00",
    }
}
SECRETS = (
    "bmc-gpu7", "gpu7-oob", "ABC1234", "CNIVC0012", "4C4C4544", "RACK-17", "A088C2C36F6E",
    "A0:88:C2", "Jane Doe", "10.20.30.40",
)  # fmt: skip


def frame(key: str, text: str, source: str = SERVICE) -> Frame:
    return Frame(key, State.OK, f"{source}/redfish/v1/", text)


def said(address: str = "10.20.30.40:443") -> Evidence:
    about = f"address {address}\nverified ca\nbios 1.8.2.7\nbmc 6.10.30.12\n"
    dmi = "product_serial:ABC1234\nproduct_uuid:4c4c4544-0042-3510-8043-b4c04f4d4733\n"
    frames = [
        frame("bmc", about),
        frame("bmc-system", json.dumps(SYSTEM, indent=1) + "\n"),
        frame("bmc-bios", json.dumps(BIOS) + "\n"),
        frame("dmi", dmi, "/sys"),
    ]
    return Evidence({each.key: each for each in frames}, complete=True)


@pytest.fixture(scope="module")
def hidden() -> Evidence:
    return Scrubber(("gpu7",)).scrub(said())


@pytest.mark.parametrize("secret", SECRETS)
def test_nothing_of_the_site_is_left(hidden: Evidence, secret: str) -> None:
    assert secret.lower() not in hidden.dump().lower()


def test_what_settings_are_stays(hidden: Evidence) -> None:
    attributes = json.loads(hidden.text("bmc-bios"))["Attributes"]
    for name in ("SriovGlobalEnable", "AssetTagProtection", "SerialComm", "FirmwareVersion"):
        assert attributes[name] == BIOS["Attributes"][name]


def test_versions_are_no_addresses(hidden: Evidence) -> None:
    assert "bios 1.8.2.7\nbmc 6.10.30.12\n" in hidden.text("bmc")


def test_what_was_equal_stays_equal(hidden: Evidence) -> None:
    """Or a BMC that sits in the node would be taken for another machine's."""
    system = json.loads(hidden.text("bmc-system"))
    dmi = dict(line.split(":", 1) for line in hidden.text("dmi").splitlines())
    dell = system["Oem"]["Dell"]["DellSystem"]
    assert system["SKU"] == dmi["product_serial"] == dell["NodeID"] == dell["ChassisServiceTag"]
    assert system["UUID"].lower() == dmi["product_uuid"]
    assert system["SerialNumber"] != system["SKU"]


def test_a_mac_in_a_name_stays_that_of_the_value(hidden: Evidence) -> None:
    attributes = json.loads(hidden.text("bmc-bios"))["Attributes"]
    ((name, value),) = [each for each in attributes.items() if "Mellanox" in each[0]]
    assert name.split("_")[1] == value.replace(":", "").upper()


def test_why_a_bmc_could_not_be_read_names_nobody() -> None:
    why = Frame("bmc", State.FAILED, SERVICE, "bmc-gpu7.mgmt.site.example:8443: hung up\n", 1)
    hidden = Scrubber(("gpu7",)).scrub(Evidence({"bmc": why}, complete=True))
    assert "gpu7" not in hidden.dump()
    assert hidden.frame("bmc").text.endswith(": hung up\n")


def test_equal_registries_are_gone_through_once() -> None:
    text = '{"RegistryEntries": {"Attributes": [{"AttributeName": "X_A088C2C36F6E__Y"}]}}\n'
    scrubber = Scrubber(())
    one, two = (
        scrubber.scrub(Evidence({"bmc-bios-registry": frame("bmc-bios-registry", text)}, True))
        for _ in range(2)
    )
    assert one == two
    assert "A088C2C36F6E" not in one.dump()
