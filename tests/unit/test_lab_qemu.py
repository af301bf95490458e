"""What QEMU is told for a guest."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.lab.qemu import Spec, Wiring, command

WIRING = Wiring(Path("/g/disk.qcow2"), Path("/g/console"), Path("/g/control"), 2222)


def _words(spec: Spec, wiring: Wiring = WIRING) -> str:
    return " ".join(command(spec, wiring))


@pytest.mark.parametrize(
    ("iommu", "device", "vendor"),
    [
        pytest.param("intel", "-device intel-iommu,", "GenuineIntel", id="intel"),
        pytest.param("amd", "-device amd-iommu,", "AuthenticAMD", id="amd"),
    ],
)
def test_an_iommu_comes_with_its_vendors_processor(iommu: str, device: str, vendor: str) -> None:
    words = _words(Spec(iommu=iommu))
    assert device in words
    assert f"vendor={vendor}" in words
    assert "iommu" not in _words(Spec(iommu="none"))


def test_a_guest_is_a_node_and_reaches_nothing() -> None:
    words = _words(Spec())
    assert ",-hypervisor," in words
    assert "restrict=on" in words
    assert "hostfwd=tcp:127.0.0.1:2222-:22" in words


def test_a_tree_over_two_nodes_of_numa_finds_both() -> None:
    wiring = Wiring(*(Path("/g/x"),) * 3, 1, table=Path("/g/pcitree.bin"), nodes=2)
    words = _words(Spec(memory_mb=1024), wiring)
    assert "name=opt/gdr.pcitree,file=/g/pcitree.bin" in words
    assert words.count("memory-backend-ram") == words.count("size=512M") == 2
    assert "-fw_cfg" not in _words(Spec())


def test_as_in_virtualbox_it_is_a_guest_with_a_scsi_disk() -> None:
    words = _words(Spec(virtualbox=True))
    assert ",+hypervisor," in words
    assert "-smbios" not in words
    assert "virtio-scsi-pci -device scsi-hd,drive=disk" in words
    assert "virtio-blk-pci" not in words


def test_only_a_state_that_qemu_can_write_down_is_gone_on_from() -> None:
    assert Spec(iommu="intel").resumable
    assert not Spec(iommu="amd").resumable
    wiring = Wiring(*(Path("/g/x"),) * 3, 1, incoming=Path("/g/state"))
    assert "-incoming exec:cat '/g/state'" in _words(Spec(), wiring)
