"""What checks say of what they seldom get: a tool's report alone, another maker, no answer."""

from __future__ import annotations

from types import SimpleNamespace as Told
from typing import Any

import pytest

from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN
from toolkit.checks.check import Finding, Status
from toolkit.checks.consumers.inside import _of_shut
from toolkit.checks.consumers.nccl_log import _by_dump
from toolkit.checks.gpu.gds import _reported_iommu
from toolkit.checks.gpu.gpu import _mig_trouble, confidential
from toolkit.checks.kernel.secureboot import site_key
from toolkit.checks.pci import ats
from toolkit.checks.pci.acs import _by_rdma_topo
from toolkit.checks.pci.ats import _firmware
from toolkit.checks.pci.iommu import _by_grub_default
from toolkit.checks.traffic.pair import _judged, _of_perftest
from toolkit.errors import NoEvidence
from toolkit.facts.boot.cmdline import parse_cmdline
from toolkit.facts.gpu.smi_query import UNREADABLE
from toolkit.facts.rdma.perftest import Memory
from toolkit.want import Want

ANY: Any = None


def told(finding: Finding | None) -> tuple[Status, str]:
    assert finding is not None
    return finding.status, finding.found


def gds(iommu: str, *gpus: str, grace: bool = False) -> Finding:
    told_: Any = Told(iommu=iommu, gpus=gpus)
    return _reported_iommu(told_, grace=grace)


ON = "GPU INDEX 0 IOMMU State: Pass-through"


@pytest.mark.parametrize(
    ("found", "status", "words"),
    [
        (gds("disabled", grace=True), FAIL, "gdscheck: the IOMMU is off"),
        (gds("disabled", ON), UNKNOWN, f"gdscheck: the IOMMU is off, and {ON}"),
        (gds("disabled", ON.replace("Pass-through", "Disabled")), PASS, "the IOMMU is off"),
        (gds("enabled"), UNKNOWN, "passed through or translated is not told"),
        (gds(""), UNKNOWN, "the IOMMU is not told"),
    ],
)
def test_what_gdscheck_says_of_the_iommu(found: Finding, status: Status, words: str) -> None:
    assert found.status is status
    assert words in found.found


def test_a_mode_of_mig_that_is_no_mode_is_not_known() -> None:
    cards: Any = [Told(address="a", mig="Enabled"), Told(address="b", mig="[N/A]")]
    assert told(_mig_trouble(cards, "")) == (UNKNOWN, "the MIG mode of b is '[N/A]'")


@pytest.mark.parametrize(
    ("wrong", "right", "whole", "status", "words"),
    [
        ((), ("a", "b"), True, PASS, "rdma_topo check: all 2 OK"),
        ((), ("a",), False, UNKNOWN, "did not come to its end"),
        (("a",), ("b", "c"), False, FAIL, "rdma_topo check: 1 of 3 fail"),
    ],
)
def test_what_rdma_topo_says(
    wrong: tuple[str, ...], right: tuple[str, ...], *, whole: bool, status: Status, words: str
) -> None:
    report: Any = Told(wrong=wrong, right=right, whole=whole)
    found = _by_rdma_topo(report)
    assert found.status is status
    assert words in found.found
    assert found.details == wrong


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ("intel_iommu=on iommu=pt", PASS, "in /etc/default/grub"),
        ("intel_iommu=on", FAIL, "asks for intel_iommu=on, not for passthrough"),
        ("quiet", UNKNOWN, "says nothing of an IOMMU"),
    ],
)
def test_what_grubs_settings_alone_say(arguments: str, status: Status, words: str) -> None:
    found = _by_grub_default(parse_cmdline(arguments))
    assert found.status is status
    assert words in found.found


def test_what_nccls_dump_says_alone() -> None:
    assert _by_dump(()) is None
    assert told(_by_dump(("mlx5_0", "0000:19:00.0"))) == (
        FAIL,
        "NCCL's dump has gdr=0 for mlx5_0, 0000:19:00.0",
    )


def test_a_latency_test_and_managed_memory_tell_nothing_of_bandwidth() -> None:
    run = Told(bandwidths=(), memory=Memory.MANAGED)
    managed = Told(bandwidths=(1.0,), memory=Memory.MANAGED)
    for said, words in (
        (Told(run=None, trouble=None), "a latency test: nothing of its bandwidth"),
        (Told(run=run, trouble=None), "a latency test: nothing of its bandwidth"),
        (
            Told(run=managed, trouble=None),
            "its buffer was managed memory, which an HCA reaches on the host",
        ),
    ):
        given: Any = said
        assert told(_of_perftest(ANY, given)) == (UNKNOWN, words)


def shut(why: str, *, shared: bool | None) -> str:
    class Here:
        @property
        def containers(self) -> Told:
            if shared is None:
                raise NoEvidence("rdma: not read")
            return Told(shared_netns=shared)

    node: Any = Here()
    looked: Any = Told(kind="docker", runs=True)
    return _of_shut(node, looked, why)


def test_why_a_device_that_is_there_does_not_open() -> None:
    assert "run it as a user who may" in shut("Permission denied", shared=False)
    assert "exclusive to their network namespace" in shut("Operation not permitted", shared=False)
    for shared in (True, None):
        assert "its cgroup does not allow it" in shut("Operation not permitted", shared=shared)


def test_protected_memory_that_is_not_told_is_not_none() -> None:
    node: Any = Told(no_driver=False, smi=Told(gpus=[Told(address="a", protected_mib=UNREADABLE)]))
    words = "nvidia-smi does not tell the protected memory of a"
    assert told(confidential.judge(node, Want())) == (UNKNOWN, words)


def test_ats_in_the_firmware_of_another_maker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ats, "maker_of", lambda *_: Told(id="broadcom"))
    for on, word in ((True, "on"), (False, "off")):
        assert _firmware(ANY, "a", on=on).startswith(f"ATS {word} in the firmware of a; then")
    monkeypatch.setattr(ats, "maker_of", lambda *_: None)
    assert _firmware(ANY, "a", on=False).startswith("mlxconfig -d a set ATS_ENABLED=0 writes")


@pytest.mark.parametrize(
    ("key", "certificate", "own", "status"),
    [
        ("", "", "c", PASS),
        ("", "", "d", FAIL),
        ("", "", "", FAIL),
        ("k", "c", "", PASS),
        ("k", "c", "d", PASS),
        ("k", "", "c", FAIL),
        ("", "c", "c", FAIL),
        ("x", "c", "c", FAIL),
    ],
)
def test_dkms_signs_with_the_key_that_it_was_told_or_finds_by_itself(
    key: str, certificate: str, own: str, status: Status
) -> None:
    node: Any = Told(
        has_dkms=True,
        live=False,
        signatures_demanded=False,
        configured_key=key,
        configured_certificate=certificate,
        own_key=(own, True) if own else None,
    )
    want: Any = Told(signing=Told(key="k", certificate="c"))
    assert site_key.judge(node, want).status is status
    node.live = True
    assert site_key.judge(node, want).status is NA


def test_the_speed_of_an_hca_of_software_is_the_processors() -> None:
    measured: Any = Told(device="rxe0", shown="1.0 GB/s")
    assert told(_judged(ANY, measured)) == (UNKNOWN, "1.0 GB/s: its speed is the processor's")
