"""What is advised can be pasted on a production node, or says what it would interrupt."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.evidence.build import DRIVER, PROPRIETARY, groups, node, without_module
from tests.evidence.frames import Override
from tests.evidence.healthy_builds import listing
from toolkit.checks.all import ALL
from toolkit.checks.modules.fixes import (
    fabric_manager_package,
    image_package,
    open_driver,
    registry_dwords,
    reload,
)
from toolkit.compat.reader import shipped
from toolkit.facts.node.node import Node
from toolkit.want import PeerPath, Want

CHECKS = Path(__file__).parents[2] / "toolkit" / "checks"

# What ends something that runs, or writes into a device: programs, and words for what they do.
HARMFUL = re.compile(
    r"modprobe -r|rmmod|systemctl (?:re)?start openibd|openibd restart|restart openibd"
    r"|systemctl restart|mlnx_qos -i \S+ --(?!help)|mlxconfig -d (?!\S+ q)|mlxfwreset|flint"
    r"|dcgmi diag|-mig 0|setpci -s|delete\b[^;]*\bpod|MTU 9000|invokew reload|dkms remove"
)
# What says that it does.
TOLD = re.compile(
    r"drain|no job|live port|refused under a job|shut down|before any job|every kernel"
    r"|writes the HCA"
)
# Never advised: each takes along what nobody asked for, or what another switch depends on.
NEVER = re.compile(
    r"modprobe -r|/etc/init\.d/openibd|the IOMMU off,|PCI_WR_ORDERING="
    r"|modprobe (?:ib_uverbs|mlx5_ib) \w"
)


def _literals(tree: ast.AST, known: Mapping[str, str] = MappingProxyType({})) -> str:
    """The text of an expression: its strings, the constants known, and … for what is put in."""
    parts: list[ast.expr]
    match tree:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return known.get(name, "…")
        case ast.Call(func=ast.Name(id="reload")):
            return reload()
        case ast.JoinedStr(values=values):
            parts = values
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.FormattedValue(value=value):
            parts = [value]
        case ast.IfExp(body=body, orelse=orelse):
            parts = [body, ast.Constant(" / "), orelse]
        case _:
            return "…"
    return "".join(_literals(each, known) for each in parts)


def _constants(tree: ast.Module) -> dict[str, str]:
    """The texts that a module gives a name."""
    named = [each for each in tree.body if isinstance(each, ast.Assign)]
    return {
        target.id: _literals(each.value)
        for each in named
        for target in each.targets
        if isinstance(target, ast.Name) and isinstance(each.value, ast.Constant | ast.JoinedStr)
    }


def _texts(tree: ast.AST, known: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Each string of a module that is no docstring, whole."""
    for each in ast.iter_child_nodes(tree):
        if isinstance(each, ast.Constant | ast.JoinedStr | ast.BinOp):
            text = _literals(each, known)
            if "\n" not in text:
                yield each.lineno, text
        else:
            yield from _texts(each, known)


def _advice() -> Iterator[tuple[str, str]]:
    """Each text in the source of the checks and each action of the tables, with its place."""
    for path in sorted(CHECKS.rglob("*.py")):
        tree = ast.parse(path.read_text())
        for line, text in _texts(tree, _constants(tree)):
            yield f"{path.stem}:{line}", text
    compat = shipped()
    for each in ALL:
        yield each.id, each.fix
    yield from ((row.id, row.action) for row in compat.breakages)
    yield from ((row.id, row.action) for row in compat.build_failures)
    yield from ((row.id, row.action) for row in compat.dkms_exits)


def test_advice_that_interrupts_says_so() -> None:
    advice = list(_advice())
    assert sum(1 for _, text in advice if HARMFUL.search(text)) > 20  # it is found at all
    silent = [each for each in advice if HARMFUL.search(each[1]) and not TOLD.search(each[1])]
    assert not silent


def test_some_things_are_never_advised() -> None:
    assert not [each for each in _advice() if NEVER.search(each[1])]


@pytest.mark.parametrize("what", ["peermem", "rdma", "driver", "gdrdrv"])
def test_a_reload_is_asked_of_the_verb_that_refuses_it_under_a_job(what: str) -> None:
    assert reload(what).startswith(f"./invokew reload --hosts NODE --what {what} (interrupts")


@pytest.mark.parametrize(
    ("options", "joined"),
    [
        pytest.param("", "A=1;B=2;", id="none-before"),
        pytest.param(
            'options nvidia NVreg_RegistryDwords="PeerMappingOverride=1;"',
            "PeerMappingOverride=1;A=1;B=2;",
            id="kept",
        ),
        pytest.param(
            'options nvidia NVreg_RegistryDwords="B=2;C=3"', "B=2;C=3;A=1;", id="there-already"
        ),
    ],
)
def test_registry_keys_are_joined_into_one_line(options: str, joined: str) -> None:
    """Of two options lines the last alone counts, and what the other said would be lost."""
    told = registry_dwords(
        Node(node({"modprobe-config": f"{options or 'options nvme multipath=N'}\n"})), "A=1", "B=2"
    )
    assert f'options nvidia NVreg_RegistryDwords="{joined}"' in told


UBUNTU = "ID=ubuntu\nVERSION_ID=24.04\nID_LIKE=debian\n"
ROCKY = 'ID="rocky"\nVERSION_ID="9.6"\nID_LIKE="rhel centos fedora"\n'
DEBIAN, SUSE = "ID=debian\nVERSION_ID=13\n", 'ID="sles"\nVERSION_ID="15.7"\n'


@pytest.mark.parametrize(
    ("release", "driver", "manager"),
    [
        pytest.param(UBUNTU, "nvidia-driver-580-server-open", "nvidia-fabricmanager-580", id="ub"),
        pytest.param(DEBIAN, "nvidia-open-kernel-dkms", "nvidia-fabricmanager-580", id="debian"),
        pytest.param(
            ROCKY, "module stream nvidia-driver:580-open", "nvidia-fabricmanager", id="el"
        ),
        pytest.param(SUSE, "install nvidia-open;", "nvidia-fabricmanager", id="suse"),
    ],
)
def test_packages_are_named_as_the_distribution_does(
    release: str, driver: str, manager: str
) -> None:
    here = Node(node({"os-release": release}))
    assert here.driver is not None
    assert driver in open_driver(here)
    assert fabric_manager_package(here, here.driver.version).split()[0] == manager


@pytest.mark.parametrize(
    ("kernel", "packages"),
    [
        ("5.14.0-503.el9.x86_64", "kernel-{} and kernel-devel-{}"),
        ("5.14.0-503.el9.aarch64+64k", "kernel-64k-{} and kernel-64k-devel-{}"),
        ("5.14.0-503.el9.x86_64+rt", "kernel-rt-{} and kernel-rt-devel-{}"),
        ("4.18.0-553.rt7.342.el8.x86_64", "kernel-rt-{} and kernel-rt-devel-{}"),
        ("5.15.0-300.163.18.el9uek.x86_64", "kernel-uek-{} and kernel-uek-devel-{}"),
    ],
)
def test_flavours_of_rhels_kernel_have_packages_of_their_own(kernel: str, packages: str) -> None:
    version = kernel.partition("+")[0]
    wanted = packages.format(version, version)
    assert image_package(Node(node({"os-release": ROCKY})), kernel) == wanted


# What a family has not; dracut can be had on Debian, and is not what its packages call.
_RPM = r"\b(dnf|yum|zypper|grubby|dracut|lsinitrd|kernel-install|grub2-\w+|kernel-devel)\b"
_DEB = r"\b(apt|apt-get|update-grub|update-initramfs|lsinitramfs|linux-headers\S*)\b"
FOREIGN = {
    DEBIAN: _RPM,
    UBUNTU: _RPM,
    ROCKY: rf"{_DEB}|\bzypper\b",
    SUSE: rf"{_DEB}|\b(dnf|grubby)\b",
}
AILMENTS: dict[str, Override] = {
    "headers": "Makefile present\nModule.symvers missing\n",
    "initramfs": listing(folder="kernel/drivers/net"),
    "module-state": without_module("nvidia_peermem"),
    "iommu-groups": groups("DMA-FQ"),
    "limits": "",
    "modules-load": "",
    "rebuild-hooks": "",
    "dkms-status": f"nvidia/{DRIVER}: added\n",
    "nvidia-version": PROPRIETARY,
}


@pytest.mark.parametrize("release", FOREIGN, ids=["debian", "ubuntu", "rhel", "suse"])
def test_a_hint_names_no_tool_of_another_family(release: str) -> None:
    nodes = [Node(node({key: text, "os-release": release})) for key, text in AILMENTS.items()]
    want = Want(path=PeerPath.DMABUF)
    hints = {
        check(here, each).finding.hint for here in nodes for each in (Want(), want) for check in ALL
    }
    own = r"linux-headers-|kernel-devel-|kernel-default-devel"
    assert any(re.search(own, each) for each in hints)
    assert not [each for each in hints if re.search(FOREIGN[release], each)]
