"""The checks on OFED's place on disk, its service and its flavour."""

from __future__ import annotations

import pytest

from tests.checks.test_checks_builds import INBOX, NO_DKMS
from tests.evidence.board import BOARD, HCAS
from tests.evidence.build import (
    DRIVER,
    EXPORT,
    KERNEL,
    rdma_core,
)
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.facts.pci.functions import MELLANOX

OFA = "/usr/src/ofa_kernel"


def folders(sources: str, symvers: str, **more: Override) -> dict[str, Override]:
    return {"sources": sources, "symvers": symvers, **more}


ARM: dict[str, Override] = {"arch": "aarch64\n"}
HEADERS = [
    Row("healthy", "ofed.headers_link", PASS, f"{OFA}/x86_64/{KERNEL}"),
    Row("default", "ofed.headers_link", PASS, f"default -> {OFA}/x86_64/{KERNEL}",
        folders(f"{OFA}\n{OFA}/default -> x86_64/{KERNEL}\n",
                f"@{OFA}/default/Module.symvers\n{EXPORT}")),
    Row("default-of-another-kernel", "ofed.headers_link", FAIL, "points at",
        folders(f"{OFA}\n{OFA}/default -> x86_64/5.15.0-100\n",
                f"@{OFA}/default/Module.symvers\n{EXPORT}")),
    Row("by-alternatives", "ofed.headers_link", FAIL, f"points at {OFA}/x86_64/5.15.0-100",
        folders(f"{OFA}\n{OFA}/default -> {OFA}/x86_64/5.15.0-100\n",
                f"@{OFA}/default/Module.symvers\n{EXPORT}")),
    Row("another-default-that-is-not-asked", "ofed.headers_link", PASS, f"{OFA}/x86_64/{KERNEL}",
        folders(f"{OFA}/default -> x86_64/5.15.0-100\n",
                f"@{OFA}/x86_64/{KERNEL}/Module.symvers\n{EXPORT}")),
    Row("folder-without-symvers", "ofed.headers_link", FAIL, "has no Module.symvers",
        folders(f"{OFA}\n{OFA}/x86_64/{KERNEL}\n{OFA}/default -> x86_64/{KERNEL}\n", "")),
    Row("empty-folder-beside-a-good-default", "ofed.headers_link", FAIL, "has no Module.symvers",
        folders(f"{OFA}/x86_64/{KERNEL}\n{OFA}/default -> x86_64/5.15.0-1\n",
                f"@{OFA}/default/Module.symvers\n{EXPORT}")),
    Row("conftest-and-kbuild-differ", "ofed.headers_link", FAIL, "the linker looks in",
        folders("", f"@{OFA}/x86_64/{KERNEL}/Module.symvers\n"
                f"@{OFA}/{KERNEL}/Module.symvers\n{EXPORT}")),
    Row("without-the-interface", "ofed.headers_link", FAIL, "no peer-memory interface",
        folders("", f"@{OFA}/x86_64/{KERNEL}/Module.symvers\n")),
    Row("dmabuf-needs-no-interface", "ofed.headers_link", PASS, KERNEL,
        folders("", f"@{OFA}/x86_64/{KERNEL}/Module.symvers\n"), want=DMABUF),
    Row("leftover-of-removed-ofed", "ofed.headers_link", FAIL, "/var/lib/dkms/mlnx-ofed-kernel is",
        INBOX | {"dkms-tree": "/var/lib/dkms/mlnx-ofed-kernel\n/var/lib/dkms/nvidia\n"}),
    Row("arm-with-its-own-folder-alone", "ofed.headers_link", FAIL, "conftest does not look in",
        ARM | folders("", f"@{OFA}/aarch64/{KERNEL}/Module.symvers\n{EXPORT}")),
    Row("arm-with-a-plain-link", "ofed.headers_link", PASS, f"{OFA}/aarch64/{KERNEL}",
        ARM | folders(f"{OFA}/{KERNEL} -> aarch64/{KERNEL}\n",
                      f"@{OFA}/{KERNEL}/Module.symvers\n{EXPORT}"
                      f"@{OFA}/aarch64/{KERNEL}/Module.symvers\n{EXPORT}")),
    Row("nothing-of-ofed", "ofed.headers_link", FAIL, "would become a stub",
        folders("", "", **{"dkms-tree": ""})),
    Row("inbox", "ofed.headers_link", NA, "no OFED to build against", INBOX),
    Row("prebuilt-driver", "ofed.headers_link", NA, "not built on this node", NO_DKMS),
    Row("not-read", "ofed.headers_link", UNKNOWN, "permission", {"symvers": DENIED}),
]  # fmt: skip


def unit(active: str, file: str = "enabled", load: str = "loaded") -> dict[str, Override]:
    text = f"LoadState={load}\nActiveState={active}\nResult=exit-code\nUnitFileState={file}\n"
    return {"openibd-state": text}


OPENIBD = [
    Row("healthy", "ofed.openibd", PASS, "active"),
    Row("failed", "ofed.openibd", FAIL, "openibd has failed (exit-code)", unit("failed")),
    Row("disabled", "ofed.openibd", FAIL, "openibd is disabled", unit("active", "disabled")),
    Row("not-at-boot", "ofed.openibd", FAIL, "ONBOOT=no", {"openib-conf": "ONBOOT=no  # x\n"}),
    Row("not-started", "ofed.openibd", FAIL, "openibd is inactive", unit("inactive")),
    Row("generated-from-init.d", "ofed.openibd", PASS, "active", unit("active", "generated")),
    Row("no-such-unit", "ofed.openibd", NA, "no openibd", unit("inactive", "", "not-found")),
    Row("not-installed", "ofed.openibd", NA, "no openibd", {"openibd-state": ABSENT}),
    Row("inbox", "ofed.openibd", NA, "belongs to OFED", INBOX),
    Row("hangs", "ofed.openibd", UNKNOWN, "no answer", {"openibd-state": TIMEOUT}),
    Row("another-form", "ofed.openibd", UNKNOWN, "cannot read", {"openibd-state": "x\n"}),
]

PREBUILT: dict[str, Override] = {
    "ofed-info": ABSENT,
    "dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n",
    "rdma-modinfo": rdma_core(f"/lib/modules/{KERNEL}/kernel/doca", version="26.01-0.9.1"),
}
FLAVOUR = [
    Row("ubuntus-own-modules", "ofed.flavor", PASS, "26.01-0.9.1 (prebuilt)", PREBUILT),
    Row("driver-container", "ofed.flavor", PASS, "doca-ofed 26.01-0.9.1 (container)",
        PREBUILT | {"ofed-container": "/run/mellanox/drivers\n"}),
    Row("leftover-of-a-container", "ofed.flavor", PASS, "inbox",
        INBOX | {"ofed-container": "/run/mellanox/drivers\n"}),
    Row("modules-not-read", "ofed.flavor", UNKNOWN, "permission",
        PREBUILT | {"rdma-modinfo": DENIED}),
    Row("prebuilt", "ofed.kernel_match", PASS, "(prebuilt): installed", PREBUILT),
]  # fmt: skip
MLNX: dict[str, Override] = {"ofed-info": "MLNX_OFED_LINUX-24.10-2.1.8.0:\n"}
CX8 = BOARD.but(HCAS[0], ids=(MELLANOX, 0x1023))
IDLE = CX8.but(HCAS[0], driver="")
BF3 = BOARD.but(HCAS[2], ids=(MELLANOX, 0xA2DC))
CX4 = BOARD.but(HCAS[0], ids=(MELLANOX, 0x1013), driver="")
HCA = [
    Row("healthy", "ofed.hca", PASS, "3 ConnectX-7"),
    Row("connectx-8-with-mlnx-ofed", "ofed.hca", FAIL,
        "mlnx-ofed 24.10-2.1.8.0 does not support ConnectX-8: 1 without a driver", MLNX, IDLE),
    Row("connectx-8-with-doca-ofed", "ofed.hca", PASS, "2 ConnectX-7, 1 ConnectX-8", {}, CX8),
    Row("bluefield-3-that-is-driven-all-the-same", "ofed.hca", PASS, "1 BlueField-3", MLNX, BF3),
    Row("an-old-one-after-its-time", "ofed.hca", FAIL, "does not support ConnectX-4", {}, CX4),
    Row("given-to-a-guest", "ofed.hca", PASS, "2 ConnectX-7", MLNX,
        CX8.but(HCAS[0], driver="vfio-pci")),
    Row("idle-for-another-reason", "ofed.hca", PASS, "3 ConnectX-7", MLNX,
        BOARD.but(HCAS[0], driver="")),
    Row("of-a-kind-that-we-do-not-know", "ofed.hca", UNKNOWN, "15b3:1fff, which is not known", {},
        BOARD.but(HCAS[0], ids=(MELLANOX, 0x1FFF), driver="")),
    Row("inbox", "ofed.hca", NA, "the inbox stack", INBOX, IDLE),
    Row("none", "ofed.hca", NA, "no ConnectX", {}, BOARD.without(*HCAS)),
    Row("bus-not-read", "ofed.hca", UNKNOWN, "permission", {"pci": DENIED}),
]  # fmt: skip
ROWS = [*HEADERS, *OPENIBD, *FLAVOUR, *HCA]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_ofed(row: Row) -> None:
    holds(row)


def test_what_to_do_with_an_hca_that_the_stack_does_not_know() -> None:
    new = judged(Row("", "ofed.hca", FAIL, "", MLNX, IDLE)).finding
    assert new.hint == "install DOCA-OFED 25.01 or newer"
    old = judged(Row("", "ofed.hca", FAIL, "", {}, CX4)).finding
    assert old.hint == "keep OFED below 25.01, or the inbox stack"
    driven = judged(Row("", "ofed.hca", PASS, "", MLNX, BF3)).finding
    assert driven.details[0].endswith(
        "BlueField-3, driven, not supported by mlnx-ofed 24.10-2.1.8.0"
    )


def test_a_failed_openibd_shows_its_last_words_and_the_way_round() -> None:
    said = "Please make sure module 'nvidia_peermem' is not in use and unload it.\n"
    row = Row("", "ofed.openibd", FAIL, "", unit("failed") | {"openibd-log": said})
    finding = judged(row).finding
    assert finding.details == (said.strip(),)
    assert "drained" in finding.hint
    assert "rmmod nvidia_peermem; systemctl restart openibd" in finding.hint


def test_a_lost_log_of_openibd_does_not_open_its_failure() -> None:
    row = Row("", "ofed.openibd", FAIL, "failed", unit("failed") | {"openibd-log": TIMEOUT})
    holds(row)
