"""Logs of earlier boots, lists without a module, lspci without root: told as what they are."""

from __future__ import annotations

from random import Random

import pytest

from tests.checks.test_told_otherwise import CHECKS, HOSTS, TEXTS, read, stamp, status
from toolkit.checks.check import Gap, Status
from toolkit.checks.consumers.chosen import taken
from toolkit.facts.node.node import Node
from toolkit.facts.text.pasted_logs import last_boot, of_other_boot
from toolkit.want import PeerPath, Want

FAIL, PASS, UNKNOWN, NA = Status.FAIL, Status.PASS, Status.UNKNOWN, Status.NA
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
BOOT = "0123456789abcdef0123456789abcdef"


# systemd journalctl(1), -b and -k; journalctl.c: "-- Boot ID --" since 245, "-- Reboot --" before.
def earlier(draw: Random, before: str, now: str) -> str:
    """Two boots in one text, the second with this boot's lines."""
    host = draw.choice(HOSTS)
    head = f"Nov 20 10:00:00 {host} kernel: "
    line = f"{head}{before}\n"
    begins = f"Nov 21 08:00:00 {host} kernel: Linux version 6.8.0-45-generic (buildd@x) #45\n"
    between = draw.choice(
        (f"-- Boot {BOOT} --\n", "-- Reboot --\n", begins, "-- Reboot --\n" + begins)
    )
    return f"{line}{between}Nov 21 09:00:00 {host} kernel: {now}\n"


def test_what_an_earlier_boot_logged_is_no_fault_of_this_one() -> None:
    draw = Random(51)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        ill = draw.random() < 0.5
        quiet = "usb 1-1: new high-speed USB device number 2 using xhci_hcd"
        text = earlier(draw, XID, XID if ill else quiet)
        assert len(Node(read(text)).xids) == int(ill), text


@pytest.mark.parametrize(
    "options", ["-k -b -1", "-kb-1", "-b -2 -k", "--boot=-1 -k", "-k -b " + BOOT]
)
def test_a_command_that_asks_for_another_boot_is_told_as_such(options: str) -> None:
    draw = Random(52)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS // 50):
        text = f"# journalctl {options}\n{stamp(draw)}{XID}\n"
        node = Node(read(text))
        assert set(node.sources.names()) == {"earlier-boot"}, text
        verdict = CHECKS["gpu.xid"](node.fresh(), Want())
        assert verdict.status is UNKNOWN
        assert "in an earlier boot: NVRM: Xid" in verdict.finding.found
        assert CHECKS["iommu.passthrough"](node, Want()).finding.gap is Gap.NOT_COLLECTED


@pytest.mark.parametrize(
    "command",
    ["journalctl -k -b", "journalctl -k -b 0", "journalctl -k -b -0", "journalctl -k", "dmesg"],
)
def test_this_boot_is_the_present(command: str) -> None:
    assert not of_other_boot(command)
    assert status("gpu.xid", f"$ {command}\nNov 20 10:11:00 gpu01 kernel: {XID}\n") is FAIL


def test_both_boots_asked_for_count_for_themselves() -> None:
    line = "Nov 20 10:11:00 gpu01 kernel: "
    text = f"$ journalctl -k -b -1\n{line}{XID}\n$ journalctl -k -b 0\n{line}usb 1-1: new device\n"
    assert not Node(read(text)).xids


def test_a_log_of_two_machines_is_not_parted_at_the_second_ones_boot() -> None:
    text = (
        f"Nov 20 10:11:00 gpu01 kernel: {XID}\n"
        "Nov 20 10:12:00 gpu02 kernel: Linux version 6.8.0-45-generic (buildd@x) #45\n"
    )
    assert last_boot(text) == ("", text)


# kmod tools/lsmod.c: columns of 20 and 8, users behind a blank, commas between.
def lsmod(draw: Random, names: list[str]) -> str:
    rows = [f"{n:<20} {draw.randrange(4096, 10**7):>8}  {draw.randrange(9)}" for n in names]
    return (
        "Module                  Size  Used by\n" + "\n".join(draw.sample(rows, len(rows))) + "\n"
    )


DRIVER = ["nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset"]


def test_a_driver_without_peermem_in_lsmod_says_so_and_leaves_dma_buf_open() -> None:
    draw = Random(53)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        there = draw.random() < 0.5
        names = [*DRIVER, "mlx5_ib", "ib_core", "ib_uverbs", *(["nvidia_peermem"] if there else [])]
        node = Node(read(lsmod(draw, names)))
        want = taken(node.fresh(), Want(path=None))
        verdict = CHECKS["path.selected"](node.fresh(), want)
        if there:
            assert want.path is PeerPath.PEERMEM
            assert CHECKS["peermem.loaded"](node, want).status is PASS
            continue
        assert want.path is None
        assert verdict.status is UNKNOWN
        assert verdict.finding.gap is Gap.NONE, "it is not folded away"
        assert verdict.finding.found.startswith("nvidia-peermem is not loaded; ")
        asked = CHECKS["path.selected"](node, Want(path=PeerPath.PEERMEM))
        assert asked.status is FAIL


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("$ lsmod | grep mlx5\nmlx5_core 2318336  1 mlx5_ib\n", id="of-other-names"),
        pytest.param("$ lsmod | grep nvidia_uvm\nnvidia_uvm 4956160  0\n", id="filtered"),
    ],
)
def test_some_lines_of_lsmod_say_nothing_of_what_they_leave_out(text: str) -> None:
    node = Node(read(text))
    assert CHECKS["path.selected"](node, taken(node, Want(path=None))).finding.gap is not Gap.NONE


# pciutils ls-caps.c: "<access denied>" where the space behind the first 64 bytes is not shown.
CARD = (
    "3b:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 [15b3:1021]\n"
    "\tControl: I/O- Mem+ BusMaster+\n{caps}\tKernel driver in use: mlx5_core\n\n"
)
DENIED = "\tCapabilities: <access denied>\n"
CUT = "\tCapabilities: [60] Express (v2) Endpoint, MSI 00\n"


@pytest.mark.parametrize("caps", [DENIED, CUT, ""])
@pytest.mark.parametrize("check", ["pcie.link", "pcie.mrrs", "pcie.relaxed_ordering"])
def test_lspci_that_was_not_run_as_root_says_that_root_is_wanted(caps: str, check: str) -> None:
    node = Node(read(CARD.format(caps=caps)))
    finding = CHECKS[check](node, Want()).finding
    assert (finding.status, finding.gap) == (UNKNOWN, Gap.ROOT)
    assert finding.hint.startswith("sudo lspci -vvv")
