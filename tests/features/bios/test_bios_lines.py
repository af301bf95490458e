"""A BIOS line by line, beside what is wanted of it: now, and after the next reset."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.invoked import here
from tests.unit.biosing import bios, planned
from toolkit.checks.firmware.bios_wanted import wanted
from toolkit.cli.options import Said
from toolkit.compat.bios import BiosRole, shipped
from toolkit.errors import ExitCode, Outcome, UsageError
from toolkit.facts.firmware.bios_setting import match
from toolkit.facts.firmware.redfish_bios import Bios
from toolkit.facts.firmware.redfish_bmc import BmcRead, Trust
from toolkit.features.bios import cli as verb
from toolkit.features.bios.plan_reading import BiosLine, BiosReading, LineState, ill, lines_of
from toolkit.features.bios.run_reset import Consent
from toolkit.want import Role

Capture = pytest.CaptureFixture[str]

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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--set acs=off --undo a-run", "--set and --undo: one of them"),
        ("--apply", "--apply without --set"),
        ("--reboot", "--reboot without --set"),
        ("--set acs=off --reboot", "--reboot without --apply"),
        ("--hosts gpu1", "nobody to log in as at the BMCs"),
    ],
)
def test_what_makes_no_sense_is_said_before_any_bmc_is_asked(
    words: str, says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, capsys: Capture
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(verb, "open_fleet", lambda _: pytest.fail("it is asked"))
    assert here(monkeypatch, "bios", *words.split()) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith(f"error: {says}")


@pytest.mark.parametrize("limit", [0, 1, 1200])
def test_what_was_allowed_is_what_is_agreed_to(limit: int) -> None:
    said = Said({"boot_timeout": limit, "reboot": True, "over_jobs": True, "force_reset": True})
    if limit < 1:
        with pytest.raises(UsageError, match="--boot-timeout 0: at least 1 second"):
            verb._consent(said)
    else:
        whole = Consent(reboot=True, over_jobs=True, force=True, boot_s=limit)
        assert verb._consent(said) == whole
        assert verb._consent(Said({})) == Consent(boot_s=1200)


def reading(asked: str) -> Outcome[BiosReading]:
    found = bios()
    return Outcome(
        "gpu1", BiosReading(BmcRead("192.0.2.9", Trust.CA), found, (), planned(found, asked))
    )


def test_a_value_that_no_bios_takes_is_a_slip_and_one_that_some_take_a_finding() -> None:
    asked = "raw:SubNumaCluster=2-Way"
    takes, other = reading(asked), reading(asked.replace("2-", "9-"))
    with pytest.raises(UsageError, match="SubNumaCluster=9-Way: no BIOS of them takes it"):
        verb._refuse_nonsense([other, other])
    verb._refuse_nonsense([takes, other])
    verb._refuse_nonsense([takes, Outcome("gpu2", error=UsageError("away"))])
    closed = reading("raw:PcieAspmL1=Disabled")
    assert [each.named for each in closed.get().plan.blocked] == [True]
    verb._refuse_nonsense([closed])
