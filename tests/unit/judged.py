"""Verdicts composed by hand, for tests of what is done with verdicts."""

from __future__ import annotations

from datetime import date

from toolkit.checks.all import BY_ID
from toolkit.checks.check import Finding, Status, Verdict, failed, not_applicable, passed, unknown
from toolkit.checks.judged import Judged
from toolkit.want import Waiver

TODAY = date(2026, 11, 21)
SLOW = failed("translated: DMA-FQ on 16", expected="identity on every GPU and HCA")


def verdict(check: str, finding: Finding, waiver: Waiver | None = None) -> Verdict:
    return Verdict(BY_ID[check], finding, ("iommu-groups",), waiver)


def judged(host: str, **findings: Finding) -> Judged:
    """One node; keywords are check ids with "__" for the dot; two passes are always there."""
    base = {"kernel.version": passed("6.8.0"), "pcie.link": passed("17 links")}
    given = {name.replace("__", "."): finding for name, finding in findings.items()}
    return Judged(host, tuple(verdict(*pair) for pair in (base | given).items()), TODAY)


HEALTHY = judged("gpu001")
SICK = judged("gpu002", iommu__passthrough=SLOW)
UNSURE = judged("gpu003", pcie__bar1=unknown("nvidia-smi: no answer in time, abandoned"))
BARE = Judged(
    "login1", (verdict("nvidia.present", not_applicable("no NVIDIA GPU")),), TODAY, gpus=False
)

__all__ = ["BARE", "HEALTHY", "SICK", "SLOW", "TODAY", "UNSURE", "Status", "judged", "verdict"]
