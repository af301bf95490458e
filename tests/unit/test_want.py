"""Wanted states from files: profiles of ours, a site's own, and what is wrong with them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from toolkit.errors import UsageError
from toolkit.want import DEFAULT_PROFILE, OFED, Iommu, PeerPath, Role, Waiver, Want, profiles


def load(tmp_path: Path, text: str) -> Want:
    site = tmp_path / "site.toml"
    site.write_text(text)
    return Want.load("peermem", site=site)


@pytest.mark.parametrize("name", profiles())
def test_every_profile_of_ours_can_be_read(name: str) -> None:
    path = str(Want.load(name).path or "auto")
    assert path == name or name not in {*PeerPath, "auto"}, "named by another path"


def test_a_profile_that_names_no_path_insists_on_none(tmp_path: Path) -> None:
    own = tmp_path / "ours.toml"
    own.write_text('iommu = "any"\n')
    assert DEFAULT_PROFILE == "auto"
    assert Want.load(str(own)).path is Want.load(DEFAULT_PROFILE).path is None


def test_peermem_is_as_the_node_itself_says() -> None:
    assert Want.load("peermem") == Want(PeerPath.PEERMEM, None, "any", Iommu.PASSTHROUGH, "", ())


def test_a_site_overrides_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    want = load(tmp_path, 'role = "vm-host"\ndriver_min = "570.86.15"\n')
    assert want == Want(role=Role.VM_HOST, driver_min="570.86.15")


def test_a_profile_may_be_a_file(tmp_path: Path) -> None:
    own = tmp_path / "ours.toml"
    own.write_text('path = "dmabuf"\niommu = "any"\n')
    assert Want.load(str(own)) == Want(PeerPath.DMABUF, iommu=Iommu.ANY)


def test_a_profile_of_ours_wins_over_a_file_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("peermem").write_text('path = "dmabuf"\n')
    assert Want.load("peermem").path is PeerPath.PEERMEM


@pytest.mark.parametrize("ofed", OFED)
def test_every_ofed_flavour_may_be_wanted(tmp_path: Path, ofed: str) -> None:
    assert load(tmp_path, f'ofed = "{ofed}"\n').ofed == ofed


WAIVER = '[[waivers]]\ncheck = "acs.redirect"\nreason = "BIOS update in May"\nuntil = 2027-05-31\n'


def test_waivers_with_reason_and_last_day(tmp_path: Path) -> None:
    assert load(tmp_path, WAIVER).waivers == (
        Waiver("acs.redirect", "BIOS update in May", date(2027, 5, 31)),
    )


def test_a_site_wants_settings_of_the_firmware_its_way(tmp_path: Path) -> None:
    wanted = load(tmp_path, 'bios = { smt = "off", c-states = "off" }\n')
    assert wanted.bios == (("c-states", "off"), ("smt", "off"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('path = "peer"', "'peer' is not a valid PeerPath", id="path"),
        pytest.param('role = "bare metal"', "'bare metal' is not a valid Role", id="role"),
        pytest.param('iommu = "off"', "'off' is not a valid Iommu", id="iommu"),
        pytest.param('ofed = "mlnx_ofed"', "ofed 'mlnx_ofed' is not one of any", id="ofed"),
        pytest.param('mig = "yes"', "mig 'yes' is not one of any, on, off", id="mig"),
        pytest.param('driver_min = "R570"', "driver_min 'R570' is no version", id="driver"),
        pytest.param("driver_min = 570", "driver_min must be a string", id="number"),
        pytest.param("path = 5", "path must be a string, not 5", id="path-is-a-number"),
        pytest.param("keep_runs = 0", "keep_runs must be a number of at least 1", id="no-runs"),
        pytest.param("keep_runs = true", "keep_runs must be a number", id="runs-a-flag"),
        pytest.param('nic = "ats"', "nic must be a table", id="nic"),
        pytest.param("nic = { MAGIC = 1 }", "no setting 'MAGIC'", id="nic-setting"),
        pytest.param('nic = { LINK_TYPE = "fast" }', "'fast' is no value", id="nic-value"),
        pytest.param("nic = { SRIOV = true }", "must be a number or a word", id="nic-flag"),
        pytest.param('bios = "smt"', "bios must be a table", id="bios"),
        pytest.param('bios = { smtt = "off" }', "bios: unknown setting 'smtt'", id="setting"),
        pytest.param("bios = { smt = true }", "bios: smt must be a word", id="setting-a-flag"),
        pytest.param('pth = "peermem"', "unknown key 'pth'", id="mistyped-key"),
        pytest.param("path =", "cannot be read", id="no-toml"),
        pytest.param('waivers = "acs"', "waivers must be tables", id="waivers"),
        pytest.param("waivers = [1]", "waiver 1 must have check, reason, until", id="no-table"),
        pytest.param(
            WAIVER.replace("until = 2027-05-31\n", ""), "waiver 1 must have", id="no-last-day"
        ),
        pytest.param(WAIVER + 'host = "gpu1"\n', "waiver 1 must have", id="more-than-that"),
        pytest.param(
            WAIVER.replace("2027-05-31", '"2027-05-31"'), "until must be a date", id="quoted-date"
        ),
        pytest.param(
            WAIVER.replace("2027-05-31", "2027-05-31T10:00:00"), "must be a date", id="time-of-day"
        ),
        pytest.param(WAIVER.replace('"acs.redirect"', "3"), "must be strings", id="no-name"),
    ],
)
def test_a_mistake_is_named_with_its_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=r"site\.toml: ") as refused:
        load(tmp_path, text + "\n")
    assert message in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml: cannot be read"):
        Want.load("peermem", site=tmp_path / "none.toml")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        Want.load(str(tmp_path / "x.toml"))


def test_an_unknown_profile_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no profile 'peerman'") as refused:
        Want.load("peerman")
    assert refused.value.hint == f"name one of {', '.join(profiles())}, or a TOML file"


@pytest.mark.parametrize(
    ("table", "most"),
    [
        pytest.param("max_unavailable = 8", 8, id="a-number"),
        pytest.param('max_unavailable = "10%"\nnodes = 128', 12, id="a-share-of-the-fleet"),
        pytest.param('max_unavailable = "10%"\nnodes = 5', 1, id="at-least-one"),
    ],
)
def test_a_site_says_how_many_may_be_unavailable(tmp_path: Path, table: str, most: int) -> None:
    site = tmp_path / "site.toml"
    site.write_text(f"[rollout]\n{table}\n")
    assert Want.load("peermem", site=site).rollout.max_unavailable == most


@pytest.mark.parametrize(
    "table",
    [
        "max_unavailable = 0",
        "max_unavailable = true",
        'max_unavailable = "10%"',
        'max_unavailable = "0%"\nnodes = 5',
        'max_unavailable = "10%"\nnodes = 0',
        "nodes = 5",
        "max_unavailable = 8\nserial = 1",
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(tmp_path: Path, table: str) -> None:
    site = tmp_path / "site.toml"
    site.write_text(f"[rollout]\n{table}\n")
    with pytest.raises(UsageError, match="rollout"):
        Want.load("peermem", site=site)


@pytest.mark.parametrize("told", [True, False])
def test_a_site_says_whether_packages_may_be_installed(tmp_path: Path, told: bool) -> None:
    site = tmp_path / "site.toml"
    site.write_text(f"[packages]\ninstall = {str(told).lower()}\n")
    assert Want.load("auto", site=site).packages is told
    assert not Want.load("auto").packages


@pytest.mark.parametrize("table", ["install = 1", 'install = "true"', "", "install = true\nx = 1"])
def test_anything_else_about_packages_is_refused(tmp_path: Path, table: str) -> None:
    site = tmp_path / "site.toml"
    site.write_text(f"[packages]\n{table}\n")
    with pytest.raises(UsageError, match="packages must have install"):
        Want.load("auto", site=site)
