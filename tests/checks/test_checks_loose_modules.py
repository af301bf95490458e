"""Modules, as far as lsmod and modprobe tell of them where that is all that we were given."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import pytest
from msgspec.structs import replace

from tests.evidence.healthy_fabric import smi_q
from tests.evidence.judging import FAIL, PASS, UNKNOWN
from toolkit.checks.all import ALL, BY_ID
from toolkit.checks.check import Finding, Gap, Status
from toolkit.checks.judged import judge_node
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.modules.refusals import parse_not_inserted
from toolkit.facts.node.node import Node
from toolkit.facts.text.pasted_logs import evidence_of, frames_of
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
    alone = signed({"modprobe-said": REJECTED})
    assert (alone.status, alone.expected) == (FAIL, "a trusted signer")


def test_another_answer_of_modprobe_says_nothing_of_signatures() -> None:
    said = REJECTED.replace("Key was rejected by service", "Invalid argument")
    assert signed({"modprobe-said": said}).status is UNKNOWN


def test_who_is_named_as_a_user_is_loaded() -> None:
    lsmod = "$ lsmod | grep nvidia_fs\nnvidia_fs  8 0\nnvidia  9 2 nvidia_peermem,nvidia_fs\n"
    assert BY_ID["peermem.loaded"](loose({"lsmod": lsmod}), Want()).finding.status is PASS


AUTO = replace(Want(), path=None)  # as doctor asks where no profile names a path
REFUSED = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
SYMBOL = "[ 9.123456] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)\n"


@pytest.mark.parametrize(
    ("text", "name", "status"),
    [
        pytest.param(REFUSED, "peermem.loaded", FAIL, id="modprobe-refused-it"),
        pytest.param(SYMBOL, "peermem.unknown_symbol", FAIL, id="the-kernel-refused-it"),
        pytest.param(LSMOD, "peermem.loaded", PASS, id="lsmod-lists-it"),
        pytest.param(
            "successfully loaded nvidia-peermem module\n",
            "peermem.loaded",
            PASS,
            id="its-container",
        ),
    ],
)
def test_who_pastes_what_came_of_nvidia_peermem_is_told_of_it(
    text: str, name: str, status: Status
) -> None:
    verdicts = judge_node("x", evidence_of(frames_of(text, "x")), AUTO, date.min).verdicts
    assert {each.status for each in verdicts if each.check.id == name} == {status}
    assert not [each.check.id for each in verdicts if each.finding.gap is Gap.PATH]


def test_who_pastes_lsmod_without_it_may_go_by_dmabuf() -> None:
    text = "nvidia_uvm  4665344  2\nnvidia  54206464  12 nvidia_uvm\n"
    verdicts = judge_node("x", evidence_of(frames_of(text, "x")), AUTO, date.min).verdicts
    (loaded,) = (each for each in verdicts if each.check.id == "peermem.loaded")
    assert loaded.finding.gap is Gap.PATH


@pytest.mark.parametrize(
    "said",
    [REFUSED, "modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.8.0\n"],
)
def test_what_is_listed_and_was_refused_is_loaded_by_no_check(said: str) -> None:
    node = loose({"lsmod": LSMOD, "modprobe-said": said})
    passes = {each.id for each in ALL if each(node.fresh(), Want()).status is PASS}
    assert passes <= {"peermem.bound"}  # which is of the module that is listed


def test_a_line_of_lsmod_does_not_tell_whom_it_holds() -> None:
    alone = loose({"lsmod": "nvidia_peermem         16384  0\n"})
    assert BY_ID["peermem.bound"](alone, Want()).status is UNKNOWN
    whole = LSMOD.replace(",nvidia_peermem", "").replace("nvidia_peermem,", "")
    assert BY_ID["peermem.bound"](loose({"lsmod": whole}), Want()).status is FAIL


def test_without_a_gpu_or_hca_nothing_is_right_about_tags() -> None:
    node = Node(evidence_of(frames_of("c1:00.0 Processing accelerators: AMD [1002:74a1]\n", "x")))
    assert BY_ID["bios.ten_bit_tag"](node, Want()).status is not PASS


@pytest.mark.parametrize(
    "later",
    [
        "[ 300.000001] systemd-modules-load[99]: Inserted module 'nvidia_peermem'\n",
        "insmod: ERROR: could not insert module nvidia-peermem.ko: File exists\n",
    ],
)
def test_a_module_that_went_in_later_was_not_refused(later: str) -> None:
    early = "[  15.000001] systemd-modules-load[9]: Failed to find module 'nvidia-peermem'\n"
    assert [each.module for each in parse_not_inserted([early])] == ["nvidia_peermem"]
    assert parse_not_inserted([early, later]) == ()
    assert len(parse_not_inserted([later, early])) == 1
