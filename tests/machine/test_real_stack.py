"""The vendor's open driver, as Debian packages it: from a bare Debian to a node that verifies.

By GDR_NIGHT alone, for the driver is compiled whole, once; our own cache of builds, beside what
tests keep, has it from then on. One boot. What is real: nvidia.ko and nvidia-peermem, the kernel,
SSH. OFED's core is a stub of ours, and the HCAs, the GPUs' registers and all that asks NVML are
not there: what rests on them is left out by name, and counts as passed nowhere.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from dev.lab.machine import Guest
from dev.lab.making import ready
from dev.lab.qemu import Spec
from dev.lab.trees import releases, system
from tests.builds import stubs, verb
from tests.builds.grounds import cache
from tests.builds.layers import layer
from tests.builds.sandbox import Sandbox
from tests.builds.sources import download, place, source
from tests.machine.pool import Guests, gdr, verdicts
from tests.machine.specs import GPU, HGX, OTHER_GPU
from toolkit.checks.kernel.build_failures import cause_of
from toolkit.facts.modules.module_file import read_image

pytestmark = [pytest.mark.machine, pytest.mark.timeout(7200)]
BOOTS = 1
LONG = True
BUILD_S = 3600  # on an idle machine five minutes
# Two GPUs whose driver waits for no NVSwitch, and a bridge of the vendor's id: to nvidia.ko it is
# an NVSwitch, for which it stays where no GPU answers.
TREE = HGX.replace("device id=1000:00b2", "device id=10de:0fff class=068000").replace(
    "        gpu\n", "        gpu id=10de:2331 sub=10de:1626 msix=6\n"
)
# What the driver reads of a GPU before it takes it on: BOOT_0, BOOT_1 and BOOT_42 of a GH100.
REGISTERS = {0x000: 0x180000A1, 0x004: 0, 0xA00: 0x180A1000}
BAR_MB = 16
GPUS = (GPU, OTHER_GPU)
# QEMU's own device gives its memory to the address that the kernel chose for the GPU's first BAR.
LEND = f"""set -e
at=8
for gpu in {" ".join(GPUS)}; do
    read -r start _ <"/sys/bus/pci/devices/$gpu/resource"
    lends=$(printf 0000:00:%02x.0 $at)
    setpci -s "$lends" COMMAND=0
    setpci -s "$lends" BASE_ADDRESS_2="$(printf %08x $((start & 0xffffffff)))"
    setpci -s "$lends" BASE_ADDRESS_3="$(printf %08x $((start >> 32)))"
    setpci -s "$lends" COMMAND=2
    at=$((at + 1))
done
rmmod nvidia
modprobe nvidia
"""
SITE = 'path = "peermem"\nmodules = "built"\n'
BAD = {"fail", "unknown"}
# There is no user space of the driver, which asks NVML; no fabric manager; no firmware of an HCA.
NOT_SHOWN = frozenset(
    (
        *("gpu.lost", "gpu.count", "gpu.reset", "gpu.ecc", "gpu.throttle", "nvidia.persistence"),
        *("nvidia.mig_vgpu", "nvidia.confidential", "nvidia.fabric_state", "pcie.bar1"),
        *("bios.resizable_bar", "nvidia.fabricmanager"),
        *("rdma.devices", "rdma.port"),
    )
)


@dataclass(frozen=True, slots=True)
class Made:
    """What ``build`` made of the vendor's sources."""

    ended: verb.Ended
    builds: Path  # the cache of builds

    def files(self, part: str) -> dict[str, bytes]:
        """Modules of a part, by the names that they have once loaded."""
        entry = self.builds / self.ended.of(part)["digest"]
        return {
            read_image(path.name, path.read_bytes()).info["name"]: path.read_bytes()
            for path in entry.glob("*.ko")
        }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """OFED, the driver and nvidia-peermem, by one command."""
    vendors, builds = source("nvidia-open"), cache() / "real-builds"
    with Sandbox.of("bookworm") as box:
        box.run("dkms", "add", stubs.ofed(box).name)
        _patched(box.path(place(box, vendors)))
        box.run("dkms", "add", f"{vendors.package}/{vendors.version}")
        ended = verb.build(
            tmp_path_factory.mktemp("build"), box, "--cache", str(builds), limit_s=BUILD_S
        )
    assert ended.code == 0, ended.err
    return Made(ended, builds)


def _patched(folder: Path) -> None:
    """What whoever stays on this release does: the kernel's point release asks for an argument.

    No open driver of Debian's knows it, to sid's 550.163.01 and 555.58.02. As it is this one
    compiles for bookworm's own 6.1.0-50, which no guest has, and bookworm-security's proprietary
    535.309.01 for this kernel; but its nvidia-modeset has 54 sections, and the open one's many
    are the point.
    """
    path = folder / "nvidia/nv-pci.c"
    text, call = path.read_text(), "pci_resize_resource(pci_dev, NV_GPU_BAR1, requested_size"
    assert text.count(f"{call})") == 1
    path.write_text(text.replace(f"{call})", f"{call}, 0)"))


@pytest.fixture(scope="module")
def node(_pool: Guests, made: Made, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """Debian with the driver's modules where its own installer leaves them, and OFED's.

    No IOMMU: nothing asks for a boot, which is another test's (test_boot_once.py).
    """
    _pool.close()
    folder = tmp_path_factory.mktemp("real")
    below = layer("real-stack", system("6.1"), _rests_on)[:1]
    lent = tuple(word for number, _ in enumerate(GPUS) for word in _lent(folder, number))
    guest = Guest("real", folder / "real", Spec(iommu="none", pci=TREE, layers=below, extra=lent))
    try:
        ready(guest, warm=False)
        guest.start()
        guest.wait()
        home = f"/lib/modules/{releases()['6.1']}"
        for name, data in made.files("driver").items():
            guest.put(f"{home}/kernel/drivers/video/{name.replace('_', '-')}.ko", data)
        for name, data in made.files("ofed").items():
            guest.put(f"{home}/updates/dkms/{name}.ko", data)
        guest.run("depmod")
        yield guest
    finally:
        guest.remove()


def _rests_on(box: Sandbox) -> None:
    """drm, which the lab leaves out, and OFED's drivers of the HCAs, which do nothing."""
    release = releases()["6.1"]
    home = f"lib/modules/{release}"
    drm = f"{home}/kernel/drivers/gpu/drm/drm.ko"
    with Sandbox.of("bookworm") as builder:
        image = download(builder, f"linux-image-{release}")
        builder.shell('dpkg-deb --fsys-tarfile "$P" | tar -x -C /root "./$F"', P=image, F=drm)
        box.write(drm, builder.path(f"root/{drm}").read_bytes())
        ofed = stubs.ofed(builder)
        stubs.add_drivers(builder, ofed)
        stubs.install(builder, ofed, release)
        for name in ("mlx5_core", "mlx5_ib", "rdma_cm"):
            file = f"{home}/updates/dkms/{name}.ko"
            box.write(file, builder.path(file).read_bytes())
    box.run("depmod", release)


def _lent(folder: Path, number: int) -> tuple[str, ...]:
    """Memory that the guest lays over a GPU's registers; what is in the file, the driver reads."""
    path = folder / f"gpu{number}"
    _answer(path, REGISTERS)
    named = f"memory-backend-file,id=bar{number},size={BAR_MB}M,mem-path={path},share=on"
    return ("-object", named, "-device", f"ivshmem-plain,memdev=bar{number},addr=0{8 + number}.0")


def _answer(path: Path, registers: Mapping[int, int] | None) -> None:
    """What a GPU says from now on; None: nobody answers, which reads as ones."""
    data = bytearray(BAR_MB << 20) if registers is not None else bytearray(b"\xff") * (BAR_MB << 20)
    for at, value in (registers or {}).items():
        struct.pack_into("<I", data, at, value)
    path.touch()
    with path.open("r+b") as file:  # in place: QEMU has it mapped
        file.write(data)


def test_the_whole_driver_passes_the_gate_and_its_log_names_no_cause(made: Made) -> None:
    assert set(made.ended.states.values()) <= {"built", "cached"}, made.ended.told
    driver = made.files("driver")
    assert driver.keys() == {"nvidia", "nvidia_modeset", "nvidia_drm", "nvidia_uvm"}
    [sections] = struct.unpack_from("<H", driver["nvidia_modeset"], 60)  # e_shnum
    assert sections > 5000, "more than other modules have by a hundred times"
    peermem = read_image("nvidia-peermem.ko", made.files("peermem")["nvidia_peermem"])
    assert set(peermem.info["depends"].split(",")) == {"nvidia", "ib_uverbs"}
    log = made.builds / made.ended.of("driver")["digest"] / "make.log"
    assert cause_of(log.read_text(errors="replace").split("\n")) is None


def test_where_no_gpu_answers_the_driver_stays_for_a_bridge(node: Guest) -> None:
    node.run("modprobe nvidia")
    assert not node.run("ls /proc/driver/nvidia/gpus 2>/dev/null; :").out
    told = verdicts(gdr(node, "doctor", "--json", site=SITE))
    which = f"the open kernel modules do not drive {', '.join(GPUS)}, says the kernel log"
    assert told["nvidia.present"] == ("fail", which)


def test_with_both_gpus_bound_what_provision_brings_loads_and_verify_is_green(
    node: Guest, made: Made
) -> None:
    node.run(LEND)
    models = node.run("cat /proc/driver/nvidia/gpus/*/information").out
    assert models.count("Bus Location:") == len(GPUS)
    gdr(node, "provision", "--yes", "--cache", str(made.builds), site=SITE)
    # From the next boot on it is loaded by what was placed; nothing is loaded where none was.
    node.run("modprobe nvidia-peermem")
    rows = map(str.split, node.run("lsmod").out.splitlines())
    holders = {row[0]: row[3] for row in rows if len(row) > 3}
    assert holders["nvidia"] == holders["ib_uverbs"] == "nvidia_peermem"
    assert "/updates/gdr-toolkit/" in node.run("modinfo -n nvidia-peermem").out
    told = verdicts(gdr(node, "doctor", "--json", site=SITE))
    assert {name for name, (status, _) in told.items() if status in BAD} == NOT_SHOWN
    green = gdr(node, "verify", "--skip", ",".join(sorted(NOT_SHOWN)), site=SITE)
    assert green.status == 0, green.out + green.err


def test_a_gpu_that_falls_off_the_bus_is_named_by_doctor(node: Guest) -> None:
    _answer(node.folder.parent / "gpu0", None)
    place_ = "/sys/bus/pci/drivers/nvidia"
    node.run(
        f"rmmod nvidia_peermem; echo {GPU} >{place_}/unbind; echo {GPU} >{place_}/bind",
        check=False,
    )
    told = verdicts(gdr(node, "doctor", "--json", site=SITE))
    assert told["gpu.lost"] == ("fail", f"1 GPU does not answer: {GPU}")
