"""Causes of failed builds, and what loose files show by themselves."""

from __future__ import annotations

import pytest

from tests.checks.test_checks_builds import FTRIVIAL
from tests.evidence.build import (
    DRIVER,
)
from tests.evidence.judging import FAIL, PASS, UNKNOWN
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Status, Verdict
from toolkit.compat.reader import shipped
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.want import Want

# --- loose files: what other tools printed, and nothing else -------------------------


def loose(check: str, key: str, text: str) -> Verdict:
    evidence = Evidence({key: Frame(key, State.OK, key, text)}, complete=True)
    return BY_ID[check](Node(evidence), Want())


LISTED = f"""\
nvidia/{DRIVER}, 6.8.0-2-generic, x86_64: installed

v4l2loopback/0.12, 6.8.0-1-generic, x86_64: installed
v4l2loopback/0.12, 6.8.0-2-generic, x86_64: installed
"""


def test_a_listing_by_itself_shows_the_kernel_without_driver() -> None:
    verdict = loose("dkms.state", "dkms-status", LISTED)
    assert verdict.status is Status.FAIL
    assert verdict.finding.found == "nvidia, 6.8.0-1-generic: not built"
    assert verdict.finding.hint == f"dkms install nvidia/{DRIVER} -k 6.8.0-1-generic"


def test_a_listing_by_itself_in_which_all_is_installed_passes() -> None:
    listing_2x = "mlnx-ofed-kernel, 4.9, 5.4.0-1-generic, x86_64: installed\n"
    assert loose("dkms.state", "dkms-status", listing_2x).status is Status.PASS


NOISY = """\
Loading new nvidia-peer-memory-1.0 DKMS files...
warning: the compiler differs from the one used to build the kernel
  Skipping BTF generation for nvidia.ko due to unavailability of vmlinux
DKMS: install completed.
libkmod: ERROR libkmod-config.c:635 kmod_config_parse: blacklist.conf line 59: ignoring bad line
"""
BAD_STATUS = (
    "Error! Bad return status for module build on kernel: 6.14.0-1-nvidia (x86_64)\n"
    "Consult /var/lib/dkms/mlnx-ofed-kernel/24.10.OFED.24.10.3/build/make.log for more.\n"
)


@pytest.mark.parametrize(
    ("text", "status", "found"),
    [
        pytest.param(NOISY, PASS, "the build completed", id="noise-is-no-cause"),
        pytest.param(f"warning: the compiler differs\n{FTRIVIAL}\n", FAIL, "older", id="gcc"),
        pytest.param(BAD_STATUS, FAIL, "mlnx-ofed-kernel/24.10.OFED.24.10.3 for 6.14.0-1-nvidia",
                     id="what-dkms-prints"),
        pytest.param("Running in chroot, modules won't be signed\n  LD [M]  nvidia.ko\n", PASS,
                     "the build completed", id="unsigned-and-good"),
        pytest.param("make: Nothing to be done\n", UNKNOWN, "says neither", id="neither"),
    ],
)  # fmt: skip
def test_a_log_by_itself(text: str, status: Status, found: str) -> None:
    finding = loose("dkms.last_failure", "make-log", text).finding
    assert finding.status is status
    assert found in finding.found


def test_a_kernel_that_the_package_is_not_for_is_no_failure() -> None:
    """DKMS ends with 77 there, and says "Error!" all the same."""
    text = (
        "Error! The /var/lib/dkms/nvidia/580.1/6.1.0-1-rt/x86_64/dkms.conf for module nvidia "
        "includes a BUILD_EXCLUSIVE directive which does not match this kernel/arch/config.\n"
        "This indicates that it should not be built.\n"
    )
    finding = loose("dkms.last_failure", "make-log", text).finding
    assert finding.status is Status.NA
    assert "not for that kernel" in finding.found


def test_a_site_teaches_the_check_a_string_of_its_own() -> None:
    row = {
        "id": "site-1", "kind": "ofed", "pattern": "our mirror: .* 404", "cause": "no mirror",
        "action": "call us", "source": "our wiki", "confidence": "H",
    }  # fmt: skip
    text = "error: our mirror: ofed.tgz: 404\n"
    evidence = Evidence({"make-log": Frame("make-log", State.OK, "x", text)}, complete=True)
    want = Want(compat=shipped().overlaid({"build_failures": [row]}))
    finding = BY_ID["dkms.last_failure"](Node(evidence), want).finding
    assert (finding.found, finding.hint) == ("a build: no mirror", "call us")
    plain = BY_ID["dkms.last_failure"](Node(evidence), Want()).finding
    assert plain.found == "a build: the build stopped: error: our mirror: ofed.tgz: 404"
