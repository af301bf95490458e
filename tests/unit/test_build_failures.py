"""Causes of failed builds, and what loose files show by themselves."""

from __future__ import annotations

import pytest

from tests.evidence.build import (
    DRIVER,
)
from tests.evidence.judging import FAIL, PASS, UNKNOWN
from tests.unit.test_checks_builds import FTRIVIAL
from toolkit.checks.all import BY_ID
from toolkit.checks.build_failures import CAUSES, cause_of
from toolkit.checks.check import Status, Verdict
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node import Node
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
        pytest.param("make: Nothing to be done\n", UNKNOWN, "says neither", id="neither"),
    ],
)  # fmt: skip
def test_a_log_by_itself(text: str, status: Status, found: str) -> None:
    finding = loose("dkms.last_failure", "make-log", text).finding
    assert finding.status is status
    assert found in finding.found


SEEN = (
    ("Your kernel headers for kernel 6.8.0-1 cannot be found at /lib/modules", "headers of that"),
    ("make[1]: g++: No such file or directory", "g++ is missing"),
    ("gcc: error: unrecognized command line option '-fmin-function-alignment=16'", "older"),
    ("Unable to locate the compiler x86_64-linux-gnu-gcc-12", "is missing"),
    ("/bin/sh: 1: cc: not found", "is missing"),
    ("Failed CC sanity check. Bailing out!", "cannot compile"),
    ("*** Failed PREEMPT_RT sanity check. Bailing out! ***", "real-time"),
    ("Module.symvers file is missing, or does not contain any symbols exported", "incomplete"),
    ("/var/lib/dkms/mlnx-ofed-kernel/Module.symvers: No such file or directory", "leftover"),
    ("/usr/src/ofa_kernel/x86_64/6.8/Module.symvers: No such file or directory", "chose"),
    ('ERROR: modpost: "nvidia_p2p_get_pages" [nvidia-peermem.ko] undefined!', "built alone"),
    ('ERROR: modpost: "ib_register_peer_memory_client" [x.ko] undefined!', "another"),
    ("scripts/Makefile.build:41: /Kbuild: No such file or directory", "without quotes"),
    ("FATAL: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'x'", "licence"),
    ("error: invalid use of undefined type 'struct dpll_pin'", "dpll"),
    ("error: implicit declaration of function 'follow_pfn'", "kernel is newer"),
    ("nvidia.o: error: objtool: naked return found: OBJTOOL_WERROR", "objtool"),
    ("modprobe: ERROR: could not insert 'nvidia': Key was rejected by service", "unsigned"),
    ("gcc: fatal error: Killed signal terminated program cc1", "compiler was killed"),
    ("make: *** No rule to make target '/usr/src/ofa_kernel/default/Module.symvers', needed by"
     " 'modpost'.  Stop.", "has no Module.symvers"),
    ("ld: final link failed: No space left on device", "disk is full"),
    ("Error! Bad return status for module build on kernel: 6.8.0 (x86_64)", "does not say why"),
)  # fmt: skip


@pytest.mark.parametrize(("line", "cause"), SEEN, ids=[cause for _, cause in SEEN])
def test_a_known_string_has_its_cause(line: str, cause: str) -> None:
    found = cause_of(["  CC [M] nv.o", line])
    assert found is not None
    assert cause in found[0].cause


def test_each_row_of_the_catalogue_is_matched_by_a_line_seen() -> None:
    matched = {found[0] for line, _ in SEEN if (found := cause_of([line]))}
    assert matched == set(CAUSES)


def test_noise_has_no_cause() -> None:
    assert cause_of(NOISY.split("\n")) is None
    assert cause_of(["nv.c:1: warning: implicit declaration of function 'x'"]) is None


def test_typographic_quotes_are_read_as_plain_ones() -> None:
    found = cause_of(["make: *** No rule to make target ‘/Kbuild’"])
    assert found is not None
    assert "without quotes" in found[0].cause
