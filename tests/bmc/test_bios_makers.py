"""The verb's whole way on every maker's BMC, and on the captures of real machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bmc.captures import captured, present
from tests.bmc.conftest import Simulate
from tests.bmc.personas import PERSONAS
from tests.bmc.simulator import Simulator
from tests.bmc.site import Site, only
from tests.bmc.tls import Authority
from toolkit.errors import ExitCode
from toolkit.features.bios.run import kept_by
from toolkit.rollout.history import read_run

# What is asked for, and what a BMC must have in force once its machine has started again.
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "dell": ("sr-iov=on", {"SriovGlobalEnable": "Enabled"}),
    "hpe": ("acs=off,sr-iov=off", {"AccessControlService": "Disabled", "Sriov": "Disabled"}),
    "lenovo": ("aspm=off", {"Power_ASPM": "Disabled"}),
    "supermicro": ("resizable-bar=on", {"Re_SizeBARSupport_00D1": "Enabled"}),
    "dgx": ("iommu=off", {"VTdSupport": "Disable", "ControlIommu": "Disable"}),
    "gigabyte": ("sr-iov=off", {"PCIS007": "PCIS007Disabled"}),
    "grace": (
        "acs=off",
        {f"Socket{s}Pcie{p}AdvertiseACS": False for s in (0, 1) for p in (0, 1)},
    ),
}
CAPTURED = {"dell": "sr-iov=off", "hpe": "acs=off", "lenovo": "acs=off", "nvidia_gb200": "acs=off"}


def test_every_maker_is_asked_for_something() -> None:
    assert ASKED.keys() == PERSONAS.keys()
    assert set(present()) <= CAPTURED.keys()


@pytest.mark.parametrize("name", sorted(ASKED))
def test_read_plan_change_reboot_read_again_and_undo(
    name: str, simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate(name)
    _there_and_back(bmc, tmp_path, *ASKED[name])


@pytest.mark.parametrize("name", sorted(ASKED))
def test_a_plan_sends_nothing(name: str, simulate: Simulate, tmp_path: Path) -> None:
    bmc = simulate(name)
    (planned,) = Site(tmp_path, [bmc]).look(ASKED[name][0])
    assert planned.get().to_do is ExitCode.PENDING
    assert (bmc.log.writes, bmc.sessions, bmc.log.most_connections) == ((), 0, 1)


@pytest.mark.parametrize("name", present())
def test_a_real_machine_s_settings_go_there_and_back(
    name: str, authority: Authority, tmp_path: Path
) -> None:
    with Simulator(captured(name), authority) as bmc:
        (planned,) = Site(tmp_path / "look", [bmc]).look(CAPTURED[name])
        edits = {edit.name for edit in planned.get().plan.edits}
        assert edits
        assert bmc.log.writes == ()
        before = dict(bmc.machine.active)
        site = Site(tmp_path, [bmc])
        done = only(site.apply(CAPTURED[name]))
        assert (done.exit_code, done.missed) == (ExitCode.OK, ())
        changed = {key for key, value in bmc.machine.active.items() if before[key] != value}
        assert edits <= changed
        _back(site, bmc, before)


def _there_and_back(bmc: Simulator, base: Path, said: str, wanted: dict[str, Any]) -> None:
    before, site = dict(bmc.machine.active), Site(base, [bmc])
    done = only(site.apply(said))
    assert (done.exit_code, done.missed) == (ExitCode.OK, ())
    assert bmc.machine.active == before | wanted
    assert (len(bmc.log.of("PATCH")), bmc.sessions) == (1, 0)
    (again,) = site.look(said)
    assert not again.get().plan.pending
    _back(site, bmc, before)


def _back(site: Site, bmc: Simulator, before: dict[str, Any]) -> None:
    runs = site.base / "runs"
    names = sorted(run.name for run in runs.glob("*-bios"))
    first = next(name for name in names if kept_by(read_run(runs, name)))
    kept = dict(kept_by(read_run(runs, first)))
    done = only(site.apply("", asking=site.asking("", kept)))
    assert done.exit_code is ExitCode.OK
    assert bmc.machine.active == before
    assert bmc.sessions == 0
