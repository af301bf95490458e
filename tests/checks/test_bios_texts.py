"""Settings of a BIOS given as a text: a Redfish Bios resource, or what Supermicro's SUM wrote.

Forms of SUM: its user's guide, "BIOS Settings XML File Format"; a setting is an option, a box to be
checked or a number, and its name is that of the menu. Composed; real resources are in the corpus.
"""

from __future__ import annotations

import json
from random import Random

import pytest

from tests.evidence.build import node as healthy
from tests.laws import share
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Finding, Status
from toolkit.errors import Unparsable
from toolkit.facts.firmware.sum_bios import parse_sum_bios
from toolkit.facts.node.node import Node
from toolkit.facts.text.pasted_logs import evidence_of, frames_of
from toolkit.want import Role, Want

TEXTS = share(1000)
# Name in a menu, values that are off and on, the check, and what is wanted on bare metal.
SETTINGS = (
    ("Above 4G Decoding", ("Disabled", "Enabled"), "bios.above_4g", True),
    ("PCIe ACSCTL", ("Disable", "Enable"), "bios.acs", False),
    ("ACS Enable", ("Disable", "Enable"), "bios.acs", False),
    ("Access Control Service (ACS)", ("Disabled", "Enabled"), "bios.acs", False),
)


def drawn(seed: int) -> Random:
    return Random(seed)  # noqa: S311 # drawn again the same


def setting(name: str, value: str, others: tuple[str, ...], draw: Random) -> str:
    options = "".join(f'<Option value="{at}">{each}</Option>' for at, each in enumerate(others))
    inner = f"<Information><AvailableOptions>{options}</AvailableOptions></Information>"
    shown = f' order="{draw.randrange(9)}"' if draw.random() < 0.3 else ""
    head = f'<Setting name="{name}"{shown} selectedOption="{value}" type="Option"'
    return draw.choice((f"{head}/>", f"{head}>\n        {inner}\n      </Setting>"))


OTHERS = (
    '<Setting name="Quiet Boot" checkedStatus="Checked" type="CheckBox"/>',
    '<Setting name="Cores Enabled" numericValue="0" type="Numeric"/>',
    '<Setting name="Administrator Password" type="Password"/>',
    '<Setting name="Option ROM Messages" selectedOption="Force BIOS" type="Option"/>',
    '<Setting name="Asset" stringValue="rack 7" type="String"/>',
)


def sum_text(lines: list[str], draw: Random) -> str:
    """Settings in a menu within a menu, below a declaration or none."""
    head = draw.choice(
        (
            "",
            '<?xml version="1.0" encoding="ISO-8859-1" standalone="yes"?>\n',
            '<?xml version="1.0" encoding="UTF-8"?>\n',
        )
    )
    body = "\n      ".join(lines)
    return (
        f"{head}<BiosCfg>\n  <!--Supermicro Update Manager 2.3.0 (2019/08/08)-->\n"
        f'  <Menu name="Main">\n    <Subtitle>Supermicro X11DPT-B</Subtitle>\n'
        f"    <Text>BIOS Version(1.1a)</Text>\n  </Menu>\n"
        f'  <Menu name="Advanced">\n    <Menu name="PCIe/PCI/PnP Configuration">\n      {body}\n'
        f"    </Menu>\n  </Menu>\n</BiosCfg>\n"
    )


def redfish_text(told: dict[str, str]) -> str:
    served = {name.replace(" ", ""): value for name, value in told.items()}
    resource = {"@odata.id": "/redfish/v1/Systems/1/Bios", "Attributes": served}
    return json.dumps(resource | {"Oem": {"Supermicro": {}}}, indent=4)


def found(check: str, text: str, want: Want | None = None) -> Finding:
    return BY_ID[check](Node(evidence_of(frames_of(text, "bios.txt"))), want or Want()).finding


def test_a_setting_is_judged_alike_wherever_it_stands_in_what_sum_wrote() -> None:
    draw = Random(31)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        name, values, check, wanted = draw.choice(SETTINGS)
        on = draw.choice((True, False))
        lines = [setting(name, values[on], values, draw), *draw.sample(OTHERS, 3)]
        draw.shuffle(lines)
        finding = found(check, sum_text(lines, draw))
        assert finding.status is (Status.PASS if on is wanted else Status.FAIL), lines


def test_what_is_right_on_bare_metal_is_wrong_on_a_host_of_guests() -> None:
    text = sum_text([setting("PCIe ACSCTL", "Disable", (), drawn(1))], drawn(1))
    assert found("bios.acs", text).status is Status.PASS
    assert found("bios.acs", text, Want(role=Role.VM_HOST)).status is Status.FAIL


def test_a_redfish_resource_says_what_sum_does() -> None:
    for value, status in (("Enabled", Status.PASS), ("Disabled", Status.FAIL)):
        text = redfish_text({"Above 4G Decoding": value})
        assert found("bios.above_4g", text).status is status


def test_a_resizable_bar_that_is_off_decides_nothing_without_the_gpus() -> None:
    text = redfish_text({"Re-Size BAR Support": "Disabled"}).replace("Re-SizeBAR", "Re_SizeBAR")
    finding = found("bios.resizable_bar", text)
    assert (finding.status, "whether a GPU needs it" in finding.found) == (Status.UNKNOWN, True)


def test_a_text_beside_a_node_names_no_machine_and_says_so() -> None:
    text = redfish_text({"PCIe ACSCTL": "Enable"})
    (frame,) = frames_of(text, "bios.json")
    finding = BY_ID["bios.acs"](Node(healthy().plus([frame])), Want()).finding
    assert "the BIOS's settings were given as a text, which names no machine" in finding.details


def test_what_sum_wrote_is_read_as_its_bmc_would_serve_it() -> None:
    bios = parse_sum_bios(sum_text([*OTHERS, OTHERS[0]], drawn(1)))
    values = {name: each.current for name, each in bios.attributes.items()}
    assert values == {
        "QuietBoot": True,
        "CoresEnabled": 0,
        "AdministratorPassword": None,
        "OptionROMMessages": "Force BIOS",
        "Asset": "rack 7",
        "QuietBoot_0001": True,
    }
    assert (bios.vendor, bios.model, bios.version) == ("Supermicro", "X11DPT-B", "1.1a")


def test_what_sum_wrote_tells_what_could_be_chosen() -> None:
    told = (
        "<Information><AvailableOptions><Option>Off</Option><Option>On</Option></AvailableOptions>"
        "<DefaultOption>On</DefaultOption></Information>"
    )
    line = f'<Setting name="ASPM" selectedOption="Off" type="Option">{told}</Setting>'
    (found,) = parse_sum_bios(sum_text([line], drawn(1))).attributes.values()
    assert ([each.value for each in found.entry.choices], found.entry.default) == (
        ["Off", "On"],
        "On",
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("<BiosCfg>\n  <Menu name='Main'>\n", id="cut-off"),
        pytest.param("<BmcCfg>\n</BmcCfg>\n", id="of-a-bmc"),
        pytest.param("<BiosCfg>" + "<Menu name='a'>" * 20000, id="deep"),
    ],
)
def test_what_is_no_bios_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match="BiosCfg"):
        parse_sum_bios(text)
