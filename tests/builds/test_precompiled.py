"""A driver that came as modules, with no source and no DKMS: nvidia-peermem built for it alone."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.builds import verb
from tests.builds.engine import build_all, graph_of
from tests.builds.guest import boot
from tests.builds.layers import stack
from tests.builds.nodeside import OFED, exports, module, place_package, place_program, rebuild
from tests.builds.sandbox import Sandbox
from toolkit.built.plan.model import Part
from toolkit.facts.modules.build_env import REGISTER
from toolkit.facts.modules.module_file import SHARED, read_image
from toolkit.plan.templates import render_text

pytestmark = pytest.mark.builds
LONG = True

VERSION = "535.261.03"
SOURCE = f"usr/src/nvidia-current-open-{VERSION}"
UBUNTU = "kernel/nvidia-535-server-open"  # where linux-modules-nvidia-535-server-open-KERNEL has it


@pytest.fixture(scope="module")
def by_dkms() -> Iterator[Sandbox]:
    with stack("bookworm") as made:
        yield made


@pytest.fixture
def node(by_dkms: Sandbox) -> Iterator[Sandbox]:
    """The same nvidia.ko where Ubuntu's packages have it; nothing that DKMS or make left of it."""
    with by_dkms.branch() as box:
        box.shell(
            'rm -rf /var/lib/dkms/nvidia* "/$S" && cd "/lib/modules/$K" && mkdir -p "$U"'
            ' && mv updates/dkms/nvidia-current-open.ko "$U/nvidia.ko" && depmod -a "$K"',
            K=box.kernel("6.1."), S=SOURCE, U=UBUNTU,
        )  # fmt: skip
        assert not box.shell("find / -xdev -name Module.symvers -path '*nvidia*'").out
        yield box


def versions(data: bytes) -> Mapping[str, int]:
    """Of what it imports from the driver and from OFED."""
    image = read_image("nvidia-peermem.ko", data)
    return {name: crc for name, crc in image.versions.items() if SHARED.fullmatch(name)}


def test_symbol_versions_read_from_the_module_are_those_of_a_build_beside_it(
    by_dkms: Sandbox, node: Sandbox, small: Sandbox, tmp_path: Path
) -> None:
    """Its source is given as the vendor's tarball; then it lies where Ubuntu's package has it."""
    lacking = verb.build(tmp_path, node)
    [stop] = lacking.told["blocked"]
    assert lacking.code == 6
    assert "nvidia-kernel-source-535-server-open=535.261.03-*" in stop["hint"], stop

    home = f"open-gpu-kernel-modules-{VERSION}"
    shutil.copytree(by_dkms.path(SOURCE), tmp_path / home / "kernel-open", symlinks=True)
    (tmp_path / home / "kernel-open/dkms.conf").unlink()
    subprocess.run(["tar", "-C", tmp_path, "-cJf", tmp_path / "given.tar.xz", home], check=True)
    done = verb.build(tmp_path, node, "--sources", str(tmp_path / "given.tar.xz"))
    assert done.code == 0, done.err
    assert done.states == {"ofed": "given", "driver": "given", "peermem": "built"}
    made = (verb.entry(tmp_path, done) / "nvidia-peermem.ko").read_bytes()

    ground, graph = graph_of(by_dkms, node.kernel("6.1."), Part.DRIVER, Part.PEERMEM)
    file = build_all(by_dkms, ground, graph)[Part.PEERMEM].file("nvidia-peermem.ko")
    assert file is not None
    assert {"nvidia_p2p_get_pages", REGISTER} < versions(made).keys()
    assert versions(made) == versions(file.data)

    shutil.copytree(tmp_path / home / "kernel-open", node.path(f"usr/src/nvidia-{VERSION}"))
    again = verb.build(tmp_path, node)
    assert again.states["peermem"] == "cached", again.told
    kernel = node.kernel("6.1.")
    node.write(f"/lib/modules/{kernel}/updates/gdr-toolkit/nvidia-peermem.ko", made)
    assert loaded(node, small, kernel) == {
        *("nvidia_peermem", "nvidia", "ib_uverbs", "ib_core", "mlx_compat"),
    }


def loaded(node: Sandbox, small: Sandbox, kernel: str) -> set[str]:
    """What a guest that boots with the node's modules has once nvidia-peermem was asked for."""
    home = f"lib/modules/{kernel}"
    with small.branch() as box:
        for folder in (UBUNTU, "updates/dkms", "updates/gdr-toolkit"):
            for file in node.path(f"{home}/{folder}").glob("*.ko"):
                box.write(f"{home}/{folder}/{file.name}", file.read_bytes())
        box.run("depmod", kernel)
        said = boot(box.root, kernel, "modprobe nvidia-peermem && cut -d' ' -f1 /proc/modules")
    assert said.status == 0, said.out + said.console
    assert "peer memory client nv_mem registered" in said.console
    return {each for each in said.out.split() if each.startswith(("nvidia", "ib_", "mlx_"))}


def test_such_a_node_rebuilds_once_the_source_alone_is_there(
    by_dkms: Sandbox, node: Sandbox
) -> None:
    """By the recipe that provision places: it reads the versions from the module, too."""
    kernel = node.kernel("6.1.")
    values = {"driver": VERSION, "version": VERSION, "driver_dkms": "", "ofed_dkms": OFED}
    place_package(node, values=values)
    place_program(node)
    node.run("dkms", "add", f"nvidia-peermem/{VERSION}")
    assert f"no source of driver {VERSION} below /usr/src" in rebuild(node, "--hook")[1][0]
    assert "failed before, and nothing has changed since" in rebuild(node, "--hook")[1][0]
    shutil.copytree(by_dkms.path(SOURCE), node.path(f"usr/src/nvidia-{VERSION}"), symlinks=True)
    node.path(f"usr/src/nvidia-{VERSION}/dkms.conf").unlink()
    assert "rebuilt and installed" in rebuild(node, "--hook")[1][0]
    exported = exports(node, kernel, "nvidia")
    own = module(node, kernel, "nvidia-peermem")
    assert "/updates/dkms/" in own.path
    asked = {name: crc for name, crc in own.crcs.items() if name.startswith("nvidia_p2p_")}
    assert asked
    assert asked.items() <= exported.items()


def test_depmod_takes_the_delivered_one_before_the_drivers_in_the_same_place(node: Sandbox) -> None:
    """SUSE's drivers bring theirs into updates, as ours is below it."""
    kernel = node.kernel("6.1.")
    node.shell(
        'cd "/lib/modules/$K" && rm -rf kernel/drivers && mkdir -p updates/gdr-toolkit'
        ' && cp "$U/nvidia.ko" updates/nvidia-peermem.ko'
        ' && cp "$U/nvidia.ko" updates/gdr-toolkit/nvidia-peermem.ko',
        K=kernel, U=UBUNTU,
    )  # fmt: skip
    values = {"file": "nvidia-", "folder": "updates/gdr-toolkit"}
    text = render_text("depmod/peermem.conf.j2", values)
    node.write("/etc/depmod.d/gdr-toolkit-peermem.conf", text)
    node.run("depmod", "-a", kernel)
    taken = node.run("modinfo", "-k", kernel, "-n", "nvidia-peermem").out.strip()
    assert "/updates/gdr-toolkit/" in taken
    node.write("/etc/depmod.d/gdr-toolkit-peermem.conf", text.replace("/gdr-toolkit", ""))
    node.run("depmod", "-a", kernel)  # the line decides, and not the order of a folder
    taken = node.run("modinfo", "-k", kernel, "-n", "nvidia-peermem").out.strip()
    assert taken.endswith("/updates/nvidia-peermem.ko")
