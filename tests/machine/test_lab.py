"""The machines themselves: what other tests here rest on. One boot, one reboot."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dev.lab import pcitree
from dev.lab.machine import Guest
from dev.run import ROOT
from tests.machine.pool import Guests, gdr, verdicts
from tests.machine.specs import AMD, GPU, GPU_PORT, HCA, HGX, INTEL, NEWER

pytestmark = pytest.mark.machine
BOOTS = 2


def _acs(guest: Guest, address: str) -> int:
    return int(guest.run(f"setpci -s {address} ECAP_ACS+6.w").out, 16)


def test_a_node_boots_from_its_disk_and_a_changed_menu_is_what_boots_next(guests: Guests) -> None:
    guest = guests.fresh(INTEL)
    menu = guest.run("cat /boot/grub/grub.cfg").out
    first = guest.cmdline
    given = re.findall(r"^\s+linux\s+(\S+) (.*?) *$", menu, re.MULTILINE)
    assert first == f"BOOT_IMAGE={given[0][0]} {given[0][1]}"
    assert set(guest.groups().values()) == {"DMA-FQ"}
    drop_in = 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt"\n'
    guest.put("/etc/default/grub.d/99-test.cfg", drop_in)
    guest.run("update-grub", limit_s=60)
    before = guest.boot_id
    assert guest.reboot() != before
    # Debian puts its default words, such as quiet, after those of a drop-in.
    assert sorted(guest.cmdline.split()) == sorted([*first.split(), "iommu=pt"])
    assert set(guest.groups().values()) == {"identity"}
    guest.run("rm /etc/default/grub.d/99-test.cfg && update-grub", limit_s=60)
    assert guest.run("cat /boot/grub/grub.cfg").out == menu


_STARTS = """
import sys, time
from pathlib import Path
from dev.lab.machine import Guest
from dev.lab.qemu import Spec
guest = Guest("short", Path(sys.argv[1]), Spec())
guest.prepare(Path(sys.argv[2]))
guest.start()
print(guest.pid, flush=True)
time.sleep(600)
"""


def test_a_guest_ends_with_whoever_started_it_even_by_sigkill(tmp_path: Path) -> None:
    base = tmp_path / "empty.raw"
    base.touch()
    os.truncate(base, 1 << 20)
    folder = tmp_path / ("long" * 30)  # more than the name of a socket has room for
    words = (sys.executable, "-c", _STARTS, str(folder), str(base))
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        assert Guest("short", folder).pid == pid
        starter.kill()
    end = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert Guest("short", folder).pid == 0


def test_a_port_that_is_taken_is_left_to_whoever_has_it(tmp_path: Path) -> None:
    base = tmp_path / "empty.raw"
    base.touch()
    os.truncate(base, 1 << 20)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        guest = Guest("short", tmp_path / "guest", port=taken)
        guest.prepare(base)
        try:
            guest.start()
            assert guest.port != taken
            assert f"Port {guest.port}\n" in guest.ssh_config.read_text()
        finally:
            guest.remove()


def test_the_tree_is_what_the_kernel_takes_it_for(guests: Guests) -> None:
    guest = guests.shared(AMD)
    listed = guest.run("lspci -D -d ::").out
    assert tuple(re.findall(r"^0001:\S+", listed, re.MULTILINE)) == tuple(
        sorted(pcitree.build(HGX).addresses)
    )
    shown = guest.run(f"lspci -D -s {GPU}; lspci -D -s {HCA}; lspci -D -s {GPU_PORT}").out
    assert re.search(r"3D controller: NVIDIA .*H100", shown), shown
    assert re.search(r"Infiniband controller: Mellanox .*\[ConnectX-7\]", shown), shown
    assert "PCI bridge: Broadcom / LSI PEX890xx" in shown
    about = guest.run(f"lspci -vv -s {GPU}").out
    assert re.search(r"Region 2: Memory at [0-9a-f]+ \(64-bit, prefetchable\).*size=128G", about)
    assert re.search(r"LnkSta:\s+Speed 32GT/s.*, Width x16", about)
    nodes = guest.run("cat /sys/bus/pci/devices/0001:[18]3:00.0/numa_node").out.split()
    assert nodes == ["0", "1"]


def test_acs_is_on_at_the_switch_and_what_is_written_there_stays(guests: Guests) -> None:
    guest = guests.shared(AMD)
    # Source validation, both redirections, upstream forwarding: pci_std_enable_acs.
    assert _acs(guest, GPU_PORT) == 0x1D
    guest.run(f"setpci -s {GPU_PORT} ECAP_ACS+6.w=0000")
    assert _acs(guest, GPU_PORT) == 0
    guest.run(f"setpci -s {GPU_PORT} ECAP_ACS+6.w=ffff")
    assert _acs(guest, GPU_PORT) == 0x5F, "only the bits of its capability are there"
    guest.run(f"setpci -s {GPU_PORT} ECAP_ACS+6.w=001d")


def test_the_amd_iommu_has_groups_and_doctor_reads_the_node(guests: Guests) -> None:
    guest = guests.shared(AMD)
    assert set(guest.groups().values()) <= {"DMA", "DMA-FQ"}
    assert guest.groups()
    loaded = guest.run("cat /proc/modules").out
    ran = gdr(guest, "doctor", "--json")
    assert ran.status == 2, ran.out + ran.err
    names = [line.split()[0] for line in guest.run("cat /proc/modules").out.splitlines()]
    assert names == [line.split()[0] for line in loaded.splitlines()], "looking loads nothing"
    told = verdicts(ran)
    assert told["host.virt"] == ("pass", "bare-metal")
    # 2 GPUs, each with the HCA of its switch: the ports of both, and nothing else.
    assert told["acs.redirect"] == ("fail", "4 of 4 bridges on GPU-HCA paths redirect")
    assert "unknown" not in {status for status, _ in told.values()}, told


def test_the_second_kernel_boots_the_same_system(guests: Guests) -> None:
    guest = guests.shared(NEWER)
    assert guest.run("uname -r").out.startswith("6.12.")
    assert _acs(guest, GPU_PORT) == 0x1D
    assert set(guest.groups().values()) == {"DMA-FQ"}


def test_soft_roce_is_an_hca_of_the_guests_own_port(guests: Guests) -> None:
    guest = guests.shared(INTEL)
    guest.run("modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0")
    try:
        assert "PORT_ACTIVE" in guest.run("ibv_devinfo -d rxe0").out
        assert "state ACTIVE" in guest.run("rdma link show rxe0/1").out
    finally:
        guest.run("rdma link delete rxe0 && modprobe -r rdma_rxe")
