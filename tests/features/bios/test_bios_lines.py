"""A BIOS line by line, beside what is wanted of it: now, and after the next reset."""

from __future__ import annotations

import pytest

from tests.unit.biosing import bios
from toolkit.checks.firmware.bios_wanted import wanted
from toolkit.compat.bios import BiosRole, shipped
from toolkit.facts.firmware.bios_setting import match
from toolkit.facts.firmware.redfish_bios import Bios
from toolkit.facts.firmware.redfish_bmc import BmcRead, Trust
from toolkit.features.bios.plan_reading import BiosLine, BiosReading, LineState, ill, lines_of
from toolkit.want import Role

SR_IOV = "SriovGlobalEnable"


def lines(
    current: str = "Enabled", pending: str = "", role: Role | None = Role.BARE_METAL
) -> dict[BiosRole, BiosLine]:
    """The lines of the server whose SR-IOV is so now, and so after its next reset."""
    found = bios({SR_IOV: pending} if pending else {}, SriovGlobalEnable=current)
    return {each.setting: each for each in lines_of(match(found, shipped()), wanted(role))}


@pytest.mark.parametrize(
    ("current", "pending", "stand", "shown"),
    [
        ("Enabled", "", LineState.AS_WANTED, ""),
        ("Disabled", "", LineState.DIFFERS, ""),
        ("Enabled", "Enabled", LineState.AS_WANTED, ""),
        ("Enabled", "Disabled", LineState.LEAVING, "Disabled"),
        ("Disabled", "Enabled", LineState.COMING, "Enabled"),
        ("Disabled", "Disabled", LineState.DIFFERS, ""),
        ("Enabled", "Auto", LineState.AS_WANTED, "Auto"),
        ("Disabled", "Off", LineState.DIFFERS, "Off"),
    ],
)
def test_a_line_tells_of_now_and_of_the_next_reset(
    current: str, pending: str, stand: LineState, shown: str
) -> None:
    line = lines(current, pending, Role.VM_HOST)[BiosRole.SR_IOV]
    assert (line.stand, line.current, line.pending) == (stand, current, shown)
    assert (line in ill([line])) is (stand is not LineState.AS_WANTED)
    assert line.name == SR_IOV
    assert line.wanted == "on or auto"
    assert line.why
    assert not line.read_only


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (("Dell Inc.", "R750", "1.8.2"), "Dell Inc. R750, BIOS 1.8.2"),
        (("", "R750", ""), "R750"),
        (("", "", "1.8.2"), "BIOS 1.8.2"),
        (("", "", ""), ""),
    ],
)
def test_a_machine_is_called_by_what_its_bmc_tells(names: tuple[str, str, str], title: str) -> None:
    about = BmcRead("192.0.2.9", Trust.CA)
    assert BiosReading(about, Bios(*names), ()).machine == title


def test_what_nothing_is_wanted_of_is_left_alone_and_what_is_not_there_is_told() -> None:
    found = lines()
    alone = found[BiosRole.POWER_PROFILE]
    assert (alone.stand, alone.wanted, alone.why) == (LineState.LEFT_ALONE, "", "")
    missing = found[BiosRole.RESIZABLE_BAR]
    assert (missing.stand, missing.wanted, missing.name) == (
        LineState.NOT_EXPOSED,
        "on or auto",
        "",
    )
    assert missing.why
    assert found[BiosRole.ASPM].read_only
    assert list(found) == list(BiosRole)
    assert not ill([alone, missing])
