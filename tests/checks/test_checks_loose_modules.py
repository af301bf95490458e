"""Modules, as far as lsmod and modprobe tell of them where that is all that we were given."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.evidence.healthy_fabric import smi_q
from tests.evidence.judging import FAIL, PASS, UNKNOWN
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Finding
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.want import Want


def loose(frames: Mapping[str, str]) -> Node:
    """A node of which we were given a few files."""
    made = {key: Frame(key, State.OK, key, text) for key, text in frames.items()}
    return Node(Evidence(made, complete=True))


def signed(frames: Mapping[str, str]) -> Finding:
    return BY_ID["module.signed"](loose(frames), Want()).finding


LSMOD = (
    "nvidia_peermem         16384  0\n"
    "nvidia              39059456  115 nvidia_uvm,nvidia_peermem\n"
    "ib_core               319488  2 nvidia_peermem,mlx5_ib\n"
)


@pytest.mark.parametrize("name", ["peermem.loaded", "peermem.bound", "peermem.provider"])
def test_lsmod_alone_tells_that_it_is_loaded(name: str) -> None:
    assert BY_ID[name](loose({"lsmod": LSMOD}), Want()).status is PASS


def test_lsmod_of_the_driver_without_it_tells_that_it_is_not_loaded() -> None:
    lsmod = "$ lsmod | grep nvidia\nnvidia_uvm  4665344  2\nnvidia  54206464  12 nvidia_uvm\n"
    finding = BY_ID["peermem.loaded"](loose({"lsmod": lsmod}), Want()).finding
    assert (finding.status, finding.found) == (FAIL, "nvidia-peermem is not loaded")


def test_bar1_is_judged_where_nvidia_smi_alone_tells_it() -> None:
    told = {"nvidia-smi-q": smi_q()}
    assert BY_ID["pcie.bar1"](loose(told), Want()).finding.found == "covers the memory of 2 GPUs"
    small = {"nvidia-smi-q": smi_q().replace("131072 MiB", "256 MiB")}
    assert BY_ID["pcie.bar1"](loose(small), Want()).status is FAIL
    none = {"nvidia-smi-q": smi_q().replace("131072 MiB", "N/A")}
    assert BY_ID["pcie.bar1"](loose(none), Want()).status is UNKNOWN


def test_lsmod_that_was_searched_for_another_name_tells_nothing() -> None:
    finding = BY_ID["peermem.loaded"](loose({"lsmod": "mlx5_core  1 0\n"}), Want()).finding
    assert finding.status is UNKNOWN


REJECTED = "modprobe: ERROR: could not insert 'nvidia_peermem': Key was rejected by service\n"
SIGNERS = "nvidia.ko: Canonical Example\nnvidia-peermem.ko: NVIDIA Support\n"


def test_what_modprobe_answered_to_somebody_is_judged() -> None:
    finding = signed({"modprobe-said": REJECTED, "modinfo-said": SIGNERS})
    assert (finding.status, finding.expected) == (FAIL, "signed as the others: Canonical Example")
    assert finding.found == "modprobe was told that the key was rejected, signed by NVIDIA Support"
    assert signed({"modprobe-said": REJECTED}).status is FAIL


def test_another_answer_of_modprobe_says_nothing_of_signatures() -> None:
    said = REJECTED.replace("Key was rejected by service", "Invalid argument")
    assert signed({"modprobe-said": said}).status is UNKNOWN


def test_who_is_named_as_a_user_is_loaded() -> None:
    lsmod = "$ lsmod | grep nvidia_fs\nnvidia_fs  8 0\nnvidia  9 2 nvidia_peermem,nvidia_fs\n"
    assert BY_ID["peermem.loaded"](loose({"lsmod": lsmod}), Want()).finding.status is PASS
