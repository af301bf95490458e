"""A rehearsal says what an upgraded node then says, and what stands in the way of it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from tests import invoked
from tests.checks.test_checks_auto import INBOX
from tests.evidence.build import KERNEL, kernel_block, modinfo, node
from tests.evidence.frames import ABSENT
from tests.features.rehearse.kinds import KINDS, TODAY, WANT, captured, newer, statuses
from tests.unit.planning import TRANSLATED
from toolkit.checks.all import ALL
from toolkit.checks.consumers.chosen import taken
from toolkit.checks.judged import judge_node
from toolkit.compat.reader import shipped
from toolkit.demo import software
from toolkit.errors import ExitCode, Outcome, TransportError
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.features.rehearse.plan import (
    CheckTurn,
    RebuiltPart,
    Rehearsal,
    rehearse_node,
    turns_of,
)
from toolkit.features.rehearse.plan_evidence import as_if
from toolkit.features.rehearse.show import rehearse_report
from toolkit.plan.plan import Plan, make_plan
from toolkit.plan.upgrade_packages import installing, packages_asked
from toolkit.report.table import Painter
from toolkit.upgrade import Upgrade
from toolkit.verbs.cli.upgrade import whole_ofed

ROOT = Path(__file__).parents[3]
UBUNTU = "6.8.0-90-generic"
BESIDE = {"nvidia-fs", "gdrdrv"}
OTHER_DRIVER = Upgrade(driver="595.71.05")
PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025\n"
    "GCC version:  gcc version 13.3.0\n"
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Evidence]:
    place = tmp_path_factory.mktemp("demo")
    return {kind: captured(recipe, place / kind) for kind, recipe in KINDS.items()}


def planned(evidence: Evidence) -> Plan:
    """What provision would do."""
    here = Node(evidence)
    want = taken(here.fresh(), WANT)
    return make_plan(here, {each.id: each(here, want) for each in ALL}, want)


def rehearse(upgrade: Upgrade, **frames: str) -> Rehearsal:
    return rehearse_node("n", node(frames), WANT, upgrade, TODAY)


@pytest.mark.parametrize("kind", KINDS)
def test_a_demo_node_with_the_new_kernel_is_judged_and_planned_for_as_was_foretold(
    kind: str, fleet: dict[str, Evidence], tmp_path: Path
) -> None:
    recipe = KINDS[kind]
    release = newer(recipe)
    upgraded = replace(recipe, kernels=(release,), built_for=(release,))
    found = captured(upgraded, tmp_path / kind)
    foretold = as_if(fleet[kind], Upgrade(kernel=release), shipped())
    assert statuses(foretold) == statuses(found)
    told, made = (planned(each) for each in (foretold, found))
    assert [each.artefact for each in told.changes] == [each.artefact for each in made.changes]
    assert [each.call for each in told.acts] == [each.call for each in made.acts]


@pytest.mark.parametrize("kind", ["demo-healthy", "demo-rocky"])
def test_a_demo_node_with_the_new_driver_is_judged_as_was_foretold(
    kind: str, fleet: dict[str, Evidence], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(software, "DRIVER", "595.71.05")
    found = captured(KINDS[kind], tmp_path / kind)
    foretold = as_if(fleet[kind], Upgrade(driver="595.71.05"), shipped())
    assert Node(found).driver == Node(foretold).driver
    assert statuses(foretold) == statuses(found)


def test_three_hundred_nodes_of_four_kinds_are_told_by_kind(
    fleet: dict[str, Evidence], tmp_path: Path
) -> None:
    saved = tmp_path / "evidence"
    saved.mkdir()
    for number in range(300):
        kind = [*KINDS][number % 4]
        text = fleet[kind].dump().replace(f"|{kind}", f"|n{number:03d}")
        (saved / f"n{number:03d}.evidence").write_text(text)
    words = ("--driver", "595.71.05", "--kernel", UBUNTU)
    ask = ("rehearse", "--from", str(saved), *words)
    done = invoked.gdr(*ask, state=tmp_path / "state")
    assert done.returncode == ExitCode.UNKNOWN, done.stderr
    assert "225 of 300 nodes would lose nothing." in done.stdout
    assert "named like no kernel of rocky" in done.stdout
    assert len(done.stdout.split("\n")) < 100


def test_the_document_has_its_schema_and_each_part_in_its_order(
    fleet: dict[str, Evidence], tmp_path: Path
) -> None:
    for kind, evidence in fleet.items():
        (tmp_path / f"{kind}.evidence").write_text(evidence.dump())
    words = ("--from", str(tmp_path), "--driver", "595.71.05", "--kernel", UBUNTU, "--json")
    told = json.loads(invoked.gdr("rehearse", *words, state=tmp_path / "state").stdout)
    jsonschema.validate(told, json.loads((ROOT / "docs/rehearse.schema.json").read_text()))
    assert len(told["hosts"]) == len(KINDS)
    assert [each["part"] for each in told["hosts"][0]["parts"]] == [
        "ofed",
        "driver",
        "nvidia-peermem",
    ]


def test_what_does_not_compile_takes_the_path_with_it() -> None:
    found = rehearse(Upgrade(driver="550.163.01", kernel="6.17.0-20-generic"))
    driver = next(each for each in found.parts if each.part == "driver")
    assert (driver.compiles, driver.basis, driver.confidence) == (False, "source", "H")
    assert found.path[1] == "none"
    assert found.exit_code is ExitCode.FAILED


@pytest.mark.parametrize(
    ("upgrade", "parts"),
    [
        (Upgrade(driver="595.71.05"), ["driver", "nvidia-peermem"]),
        (Upgrade(ofed="26.04-1.0.0"), ["ofed", "nvidia-peermem"]),
        (Upgrade(kernel=UBUNTU), ["ofed", "driver", "nvidia-peermem"]),
        (Upgrade(firmware="28.43.2566"), []),
    ],
)
def test_what_rests_on_another_part_is_built_after_it(upgrade: Upgrade, parts: list[str]) -> None:
    found = [each.part for each in rehearse(upgrade).parts if each.part not in BESIDE]
    assert found == parts


@pytest.mark.parametrize(
    ("upgrade", "boots", "restarts"),
    [
        (Upgrade(kernel=UBUNTU), 1, "the whole node"),
        (Upgrade(firmware="28.43.2566"), 1, "the whole node"),
        (Upgrade(ofed="26.04-1.0.0"), 0, "openibd"),
        (Upgrade(driver="595.71.05"), 0, "every use of the GPUs"),
    ],
)
def test_a_boot_is_owed_by_kernel_and_firmware_alone(
    upgrade: Upgrade, boots: int, restarts: str
) -> None:
    found = rehearse(upgrade)
    assert found.boots == boots
    assert found.restarts[0].startswith(restarts)


@pytest.mark.parametrize(("upgrade", "boots"), [(Upgrade(kernel=UBUNTU), 2), (OTHER_DRIVER, 1)])
def test_arguments_that_wait_for_their_trial_are_a_boot_more(upgrade: Upgrade, boots: int) -> None:
    found = rehearse_node("n", node(TRANSLATED), WANT, upgrade, TODAY)
    assert (found.boots, found.restarts) == (boots, ("the whole node",))


def test_a_library_that_looks_for_the_folder_in_sysfs_loses_its_way_with_a_newer_ofed() -> None:
    """NCCL 2.22 knows of peermem by the folder that OFED 24.04 took away."""
    old = {
        "ofed-info": "MLNX_OFED_LINUX-23.10-3.2.2.0:\n",
        "memory-peers": "/sys/kernel/mm/memory_peers/nv_mem/version\n",
        "nvidia-version": PROPRIETARY,
    }
    want = replace(WANT, consumers=(("nccl", "2.22.3"),))
    found = rehearse_node("n", node(old), want, Upgrade(ofed="26.04-1.0.0"), TODAY)
    nccl = next(each for each in found.libraries if each.what == "nccl 2.22.3")
    assert (nccl.before, nccl.after, nccl.worse) == ("peermem", "none", True)
    assert not any(each.compiles is False for each in found.parts)
    assert (found.state, found.exit_code) == ("loses", ExitCode.FAILED)


def test_what_would_only_be_unknown_is_no_loss() -> None:
    now = judge_node("n", node(), WANT, TODAY)
    blind = judge_node("n", Evidence({}, complete=True), WANT, TODAY)
    turns = [each for each in turns_of(now, blind) if each.after == "unknown"]
    assert turns
    assert not any(each.worse for each in turns)


def test_what_no_table_tells_of_is_unknown() -> None:
    found = rehearse(Upgrade(driver="999.01"))
    assert (found.unclear, {each.compiles for each in found.parts}) == ((), {None})
    assert found.parts[0].found == "no row of the table is of this pair"
    assert found.exit_code is ExitCode.UNKNOWN


def test_a_node_on_the_kernels_own_stack_has_no_ofed_that_would_be_another() -> None:
    upgrade = Upgrade(ofed="26.04-1.0.0", kernel=UBUNTU)
    found = rehearse_node("n", node(INBOX), WANT, upgrade, TODAY)
    assert any("OFED would be new there" in each for each in found.unclear)
    assert "ofed" not in {each.part for each in found.parts}
    assert not any("IBVERBS" in each for each in found.dies)


def test_without_a_driver_there_is_none_to_be_upgraded() -> None:
    bare = node({"nvidia-version": ABSENT})
    found = rehearse_node("n", bare, WANT, Upgrade(driver="595.71.05"), TODAY)
    assert "no driver is loaded that would go" in found.unclear
    assert found.parts == ()


FUTURE = Rehearsal(
    (RebuiltPart("ofed", "26.04", UBUNTU, True, "built", "build", "H"),
     RebuiltPart("gdrdrv", "2.5", UBUNTU, None, "no table tells of it")),
    (CheckTurn("acs.redirect", "pass", "fail", "on", True),
     CheckTurn("ofed.kernel_match", "fail", "pass", "right", False)),
    (), ("first", "second"), ("a package",), ("the whole node",), 1, ("peermem", "none"),
)  # fmt: skip


def test_a_rehearsal_is_read_at_a_hundred_columns() -> None:
    kept = replace(FUTURE, parts=(), turns=(), dies=(), boots=0, path=("dmabuf", "dmabuf"))
    lost: Outcome[Rehearsal] = Outcome("gpu3", error=TransportError("gpu3: no route"))
    shown = rehearse_report([Outcome("gpu1", FUTURE), Outcome("gpu2", kept), lost], Painter(False))
    lines = [" ".join(line.split()) for line in shown.split("\n")]
    assert lines[:10] == [
        "loses gpu1",
        f"build 1. ofed 26.04 for {UBUNTU}: compiles, surely by a build of ours; built",
        f"2. gdrdrv 2.5 for {UBUNTU}: not known; no table tells of it",
        "install a package",
        "goes first",
        "second",
        "restart the whole node",
        "boots 1",
        "path peermem, then none",
        "worse acs.redirect: pass, then fail: on",
    ]
    assert "better ofed.kernel_match: fail, then pass: right" in lines
    assert "path dmabuf" in lines
    assert any(line.startswith("- - - ") and line.endswith(" gpu3") for line in lines)
    assert lines[-1] == "1 of 3 nodes would lose nothing."
    assert rehearse_report([Outcome("a", kept)], Painter(False)).endswith("1 of 1 node would lose"
                                                                          " nothing.")  # fmt: skip


def test_what_has_to_be_taken_along_is_named() -> None:
    found = rehearse(Upgrade(driver="620.70.06"), **{"nvidia-version": PROPRIETARY})
    assert any("proprietary modules are gone from 620 on" in each for each in found.dies)
    assert not rehearse(Upgrade(driver="620.70.06")).dies, "those of an open driver go on"
    old = {"fabricmanager-version": "Fabric Manager version is : 550.163.01\n"}
    pinned = rehearse(Upgrade(driver="595.71.05"), **old).dies
    assert any("nvidia-fabricmanager 550.163.01 refuses" in each for each in pinned)


def test_a_minor_release_takes_libraries_from_ofed() -> None:
    rocky = {"kernel-release": "5.14.0-570.1.1.el9_6.x86_64\n"}
    found = rehearse(Upgrade(kernel="5.14.0-687.1.1.el9_8.x86_64"), **rocky)
    assert any("IBVERBS_1.15" in each for each in found.dies)
    same = rehearse(Upgrade(kernel="5.14.0-570.9.1.el9_6.x86_64"), **rocky)
    assert not any("IBVERBS_1.15" in each for each in same.dies)


@pytest.mark.parametrize(
    ("upgrade", "frames", "said"),
    [
        (Upgrade(firmware="16.35.4030"), {}, "no HCA runs firmware of line 16"),
        (Upgrade(kernel="5.14.0-570.1.1.el9_6.x86_64"), {}, "named like no kernel of ubuntu"),
    ],
)
def test_what_cannot_be_told_is_unknown_and_never_kept(
    upgrade: Upgrade, frames: dict[str, str], said: str
) -> None:
    found = rehearse(upgrade, **frames)
    assert any(said in each for each in found.unclear)
    assert (found.state, found.exit_code) == ("unknown", ExitCode.UNKNOWN)


def test_a_version_within_a_longer_one_is_left_alone() -> None:
    version = "580.126.16"
    said = f"{version} {version}.1 1{version} 1.{version} libcuda.so.{version}\n"
    changed = as_if(node({"sources": said}), Upgrade(driver="595.71.05"), shipped())
    new = "595.71.05"
    expected = f"{new} {version}.1 1{version} 1.{version} libcuda.so.{new}\n"
    assert changed.text("sources") == expected


def test_a_month_alone_is_its_first_general_release() -> None:
    assert (whole_ofed("26.04"), whole_ofed("25.10-3.1.8")) == ("26.04-1.0.0", "25.10-3.1.8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing is named"),
        (("--driver", "newest"), "--driver 'newest' is no version"),
        (("--ofed", "26"), "--ofed '26' is no version"),
        (("--kernel", "generic"), "is no kernel release"),
        (("--firmware", "28"), "--firmware '28' is no version"),
    ],
)
def test_what_is_no_version_is_refused_before_anything_is_read(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = invoked.gdr("rehearse", "--from", str(tmp_path), *words, state=tmp_path / "state")
    assert done.returncode == ExitCode.USAGE
    assert said in done.stderr


@pytest.mark.parametrize(
    ("folder", "named"),
    [
        pytest.param(
            "kernel/nvidia-580-server-open",
            f"linux-modules-nvidia-595-server-open-{UBUNTU}: the driver came as modules",
            id="ubuntu",
        ),
        pytest.param(
            "extra/drivers/video/nvidia", "kmod-nvidia-595.58-6.8.0-90-generic: the", id="rhel"
        ),
    ],
)
def test_a_driver_that_came_as_modules_is_installed_and_not_compiled(
    folder: str, named: str
) -> None:
    file = modinfo(f"/lib/modules/{KERNEL}/{folder}/nvidia.ko", depends="")
    frames = {"dkms-status": "", "dkms-confs": "", "nvidia-modinfo": file}
    found = rehearse(Upgrade(driver="595.58", kernel=UBUNTU), **frames)
    assert "driver" not in {each.part for each in found.parts}
    assert "nvidia-peermem" in {each.part for each in found.parts}
    assert any(each.startswith(named) for each in found.packages), found.packages
    assert any("the source of nvidia-peermem: " in each for each in found.packages)
    by_dkms = rehearse(Upgrade(driver="595.58", kernel=UBUNTU))
    assert "driver" in {each.part for each in by_dkms.parts}


def test_modules_of_a_kernel_are_asked_for_until_they_are_there() -> None:
    file = modinfo(f"/lib/modules/{KERNEL}/kernel/nvidia-580-server-open/nvidia.ko", depends="")
    modules = {"dkms-status": "", "dkms-confs": "", "nvidia-modinfo": file}
    upgrade = Upgrade(kernel=UBUNTU)
    before = packages_asked(node(modules), upgrade)
    assert any(each.startswith("linux-modules-nvidia") for each in before)
    both = {"kernels": kernel_block(KERNEL) + kernel_block(UBUNTU)}
    assert packages_asked(node({**modules, **both}), upgrade) == ()
    (act, (blocked, *_)) = installing(node(modules), upgrade, allowed=True)
    assert (act, "were not asked" in blocked.reason) == ((), True)


@pytest.mark.parametrize(
    ("packages", "unclear"),
    [
        pytest.param(
            f"asked linux-image-{UBUNTU}\nasked linux-headers-{UBUNTU}\n"
            f"linux-image-{UBUNTU} 6.8.0-90.91\n",
            f"linux-headers-{UBUNTU}: none of its repositories has it",
            id="one-is-not-to-be-had",
        ),
        pytest.param(
            "asked kernel-5.14.0-570.62.1.el9_6\nkernel 5.14.0-570.62.1.el9_6\n", "", id="by-nevra"
        ),
        pytest.param(State.TIMEOUT, "whether packages are to be had was not told", id="not-told"),
        pytest.param(State.ABSENT, "", id="no-package-manager"),
    ],
)
def test_a_package_that_no_repository_of_the_node_has_is_said(
    packages: str | State, unclear: str
) -> None:
    state, text = (State.OK, packages) if packages not in list(State) else (packages, "")
    told = node().plus([Frame("packages", State(state), "apt-cache madison", text)])
    found = rehearse_node("n", told, WANT, Upgrade(kernel=UBUNTU), TODAY)
    assert "; ".join(found.unclear).startswith(unclear) if unclear else found.unclear == ()
    assert packages_asked(node(), Upgrade(kernel=UBUNTU)) == (
        f"linux-image-{UBUNTU}",
        f"linux-headers-{UBUNTU}",
    )
    assert packages_asked(node(), Upgrade(driver="595.58")) == ("nvidia-open",)  # by DKMS


def test_zypper_ends_otherwise_where_it_has_none_of_them() -> None:
    told = node().plus([Frame("packages", State.FAILED, "zypper search", "asked kernel-a\n", 104)])
    (first, *_) = rehearse_node("n", told, WANT, Upgrade(kernel=UBUNTU), TODAY).unclear
    assert first.startswith("kernel-a: none of its repositories has it")
