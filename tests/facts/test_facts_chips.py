"""What a device id tells of a GPU, and what a machine tells of being none."""

from __future__ import annotations

import pytest

from tests.evidence.build import node
from toolkit.compat.gpus import BEFORE_TURING, Chip, chip, chips
from toolkit.errors import Unparsable
from toolkit.facts.firmware.machine import guest_of, parse_detect_virt
from toolkit.facts.node.node import Node


@pytest.mark.parametrize(
    ("vendor", "product", "guest"),
    [
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "qemu"),
        ("Microsoft Corporation", "Virtual Machine", "microsoft"),
        ("Microsoft Corporation", "C2080", ""),  # Azure's own servers
        ("Amazon EC2", "p5.48xlarge", "amazon"),
        ("Amazon EC2", "g5g.metal", ""),
        ("Red Hat", "KVM", "kvm"),
        ("Red Hat", "RHEV Hypervisor", "kvm"),
        ("Red Hat", "Enterprise Linux", ""),
        ("KVM", "any", "kvm"),
        ("OpenStack Foundation", "OpenStack Nova", "kvm"),
        ("Nutanix", "AHV", "kvm"),
        ("Nutanix", "NX-3170", ""),
        ("VMware, Inc.", "VMware Virtual Platform", "vmware"),
        ("Google", "Google Compute Engine", "google"),
        ("Google", "Izumi", ""),
        ("innotek GmbH", "VirtualBox", "oracle"),
        ("Xen", "HVM domU", "xen"),
        ("Dell Inc.", "PowerEdge XE9680", ""),
        ("NVIDIA", "GB200 NVL", ""),
    ],
)
def test_dmi_names_a_hypervisor_or_none(vendor: str, product: str, guest: str) -> None:
    assert guest_of({"sys_vendor": vendor, "product_name": product}) == guest


def test_systemd_detect_virt_says_one_word() -> None:
    assert parse_detect_virt("none\n") == "none"
    with pytest.raises(Unparsable, match="systemd-detect-virt"):
        parse_detect_virt("Failed to check for virtualization: x\n")


@pytest.mark.parametrize(
    ("said", "container"),
    [
        *(
            (name, name)
            for name in (
                *("openvz", "lxc", "lxc-libvirt", "systemd-nspawn", "docker", "podman", "rkt"),
                *("wsl", "proot", "pouch", "container-other"),
            )
        ),
        ("none", ""),
        ("kvm", ""),
    ],
)
def test_what_systemd_calls_a_container_is_one(said: str, container: str) -> None:
    assert Node(node({"virt": f"{said}\n"})).container == container


@pytest.mark.parametrize(
    ("device", "architecture"),
    [
        (0x1DB5, "Volta"),
        (0x1B38, "Pascal"),
        (0x1EB8, "Turing"),
        (0x20B2, "Ampere"),
        (0x2235, "Ampere"),
        (0x25B6, "Ampere"),
        (0x2330, "Hopper"),
        (0x2335, "Hopper"),
        (0x2684, "Ada Lovelace"),
        (0x26B9, "Ada Lovelace"),
        (0x2901, "Blackwell"),
    ],
)
def test_a_chip_is_known_by_its_device_id(device: int, architecture: str) -> None:
    known = chip(device)
    assert known is not None
    assert known.architecture == architecture


def test_grace_root_ports_and_unknown_ids_are_no_chips() -> None:
    assert [chip(device) for device in (0x22B1, 0x22B8, 0x0000, 0x1AF1)] == [None] * 4


def test_rows_of_chips_are_in_order_and_do_not_overlap() -> None:
    rows: tuple[Chip, ...] = chips()
    edges = [edge for row in rows for edge in (row.first, row.last)]
    assert edges == sorted(edges)
    assert {row.confidence for row in rows} <= set("HML")
    assert all(row.source for row in rows)
    assert {row.architecture for row in rows} > BEFORE_TURING
