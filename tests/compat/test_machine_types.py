"""The table of machines and GPU boards: each row has its source, and DMI finds it."""

from __future__ import annotations

import pytest

from toolkit.compat.gpus import GpuBoard, MachineType, boards, machine_type, machine_types


def test_every_row_has_its_source_and_gpus_that_are_known() -> None:
    rows: tuple[MachineType | GpuBoard, ...] = (*machine_types(), *boards())
    for each in rows:
        assert len(each.source) > 20
        assert each.confidence in set("HML")
        assert each.gpus
        assert each.devices
    ids = [each.id for each in rows]
    assert len(set(ids)) == len(ids)
    assert all(each.switches and each.per for each in boards() if each.nvswitch)


@pytest.mark.parametrize(
    ("vendor", "product", "device", "named"),
    [
        ("NVIDIA", "DGXA100 920-23687-2531-001", 0x20B2, "DGX A100"),
        ("NVIDIA", "DGXH100", 0x2330, "DGX H100"),
        ("NVIDIA", "GB200 NVL", 0x2941, "GB200 NVL72 compute tray"),
        ("NVIDIA", "DGX Spark", 0x2E12, ""),
        ("Amazon EC2", "p5en.48xlarge", 0x2335, "AWS p5en.48xlarge"),
        ("Amazon EC2", "g6.48xlarge", 0x27B8, ""),
        ("Microsoft Corporation", "Virtual Machine", 0x2330, "Azure ND H100 v5"),
        ("Microsoft Corporation", "Virtual Machine", 0x2321, ""),
        ("Google", "Google Compute Engine", 0x2901, "Google a4-highgpu-8g"),
        ("Dell Inc.", "PowerEdge XE9680", 0x2330, ""),
    ],
)
def test_a_machine_is_known_by_its_name_and_its_gpus(
    vendor: str, product: str, device: int, named: str
) -> None:
    found = machine_type({"sys_vendor": vendor, "product_name": product}, frozenset({device}))
    assert (found.name if found else "") == named
