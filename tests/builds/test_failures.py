"""Builds that fail, by the real DKMS and compiler: the cause is named, and nothing is lost.

Each case spoils one thing in a sandbox where nvidia-peermem is installed and good, builds
aside as nodes and builders do, and looks at what is said and at what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from tests.builds import failing
from tests.builds.attempts import SCRATCH, Attempt, attempt, held
from tests.builds.judging import modules_of
from tests.builds.layers import layer, stack
from tests.builds.sandbox import Sandbox
from tests.builds.stubs import Stub
from toolkit.built.plan.gate import GateGround, Refused, WantedSignature, judge_module
from toolkit.checks.kernel.build_failures import cause_of

pytestmark = pytest.mark.builds
LONG = True

PEERMEM = "nvidia-current-open-peermem"


class Case(NamedTuple):
    """One way to fail, and what must be said of it."""

    happens: Callable[[Sandbox, str], Stub]  # what is done, and the package that is then built
    row: str  # id in toolkit/compat/data/build_failures.toml
    status: int  # what dkms ends with
    said: str  # of the line that matched
    kernel: str = "6.1."  # as Sandbox.kernel takes it


RT = "6.1.*-rt-amd64"
# DKMS 3.0.10 of bookworm, gcc 12.
OLD = (
    Case(failing.headers_missing, "headers-missing", 1, "cannot be found"),
    Case(failing.headers_without_symbols, "headers-incomplete", 10, "Module.symvers file is"),
    Case(failing.headers_not_configured, "headers-incomplete", 10, "configuration is invalid"),
    Case(failing.nothing, "excluded", 77, "BUILD_EXCLUSIVE", RT),
    Case(failing.real_time_unnoticed, "real-time", 10, "PREEMPT_RT kernel", RT),
    Case(failing.point_release, "newer-kernel", 10, "pci_resize_resource"),
    Case(failing.ofed_for_other_kernels, "ofed-leftover", 10, "No such file"),
    Case(failing.ofed_packed_for_other_kernels, "ofed-parent", 10, "ofa_kernel/Module.symvers"),
    Case(failing.ofed_folder_empty, "ofed-symvers", 10, "No such file"),
    Case(failing.stub, "stub", 0, "nvidia-current-open-peermem.ko: stub: "),
    Case(failing.without_driver_symbols, "no-driver-symbols", 10, "nvidia_p2p_"),
    Case(failing.compiler_older, "compiler-older", 10, "-ftrivial-auto-var-init"),
    Case(failing.compiler_missing, "compiler-missing", 10, "gcc-12: not found"),
    Case(failing.compiler_without_assembler, "compiler-sanity", 10, "Bailing out"),
    Case(failing.compiler_in_part, "no-cc1", 10, "cc1"),
    Case(failing.compiler_killed, "killed-compiler", 10, "Killed signal"),
    Case(failing.without_cplusplus, "no-cplusplus", 10, "g++"),
    Case(failing.bare_make, "bare-make", 10, "/Kbuild"),
    Case(failing.other_module_name, "no-module", 7, "nv_peer_mem"),
    Case(failing.patch_that_does_not_fit, "patch", 6, "FAILED"),
    Case(failing.conf_that_names_nothing, "dkms-conf", 8, "directive specified"),
    Case(failing.symvers_not_there, "symvers", 10, "/usr/src/driver/Module.symvers"),
    Case(failing.licence, "licence", 10, "kobject_create_and_add"),
    Case(failing.disk_full, "no-space", 10, "No space left"),
    Case(failing.disk_full_late, "no-space", 10, "No space left"),
    Case(failing.keys_do_not_match, "sign-key", 0, "key values mismatch"),
)
# DKMS 3.2 of trixie, gcc 14: where it ends otherwise.
NEW = (
    Case(failing.headers_missing, "headers-missing", 21, "cannot be found", "6.12."),
    Case(failing.dependency_missing, "dkms-depends", 13, "mlnx-ofa_kernel", "6.12."),
    Case(failing.bare_make, "bare-make", 10, "/Kbuild", "6.12."),
    Case(failing.keys_do_not_match, "sign-key", 0, "key values mismatch", "6.12."),
)


def _name(case: Case) -> str:
    return case.happens.__name__


@dataclass(frozen=True, slots=True)
class Bases:
    """Layers where all is well, topmost first."""

    plain: Sandbox
    older: Sandbox  # with gcc 11 too


@pytest.fixture(scope="module")
def bookworm() -> Bases:
    plain = stack("bookworm", peermem=True)

    def make(box: Sandbox) -> None:
        box.run("apt-get", "-q", "update")
        box.run("apt-get", "-qy", "install", "--no-install-recommends", "gcc-11",
                env={"DEBIAN_FRONTEND": "noninteractive"})  # fmt: skip

    return Bases(plain, Sandbox(layer("gcc-11", plain.lower, make)))


@pytest.fixture(scope="module")
def trixie() -> Sandbox:
    return stack("trixie", peermem=True)


def failed(box: Sandbox, case: Case) -> Attempt:
    """Let it happen and build; the good modules are as they were, and would still be loaded."""
    kernel = box.kernel(case.kernel)
    package = case.happens(box, kernel)
    before = held(box)
    assert any(PEERMEM in path for path in before)
    tried = attempt(box, package, kernel)
    assert held(box) == before
    return tried


def judged(tried: Attempt, case: Case) -> None:
    """The right row, the line that says so, a remedy; what no row explains is no bare number."""
    said = "\n".join(tried.said[-60:])
    assert (tried.row, tried.status) == (case.row, case.status), said
    assert case.said in tried.explained.line, tried.explained
    assert tried.explained.cause
    assert tried.explained.action
    assert tried.explained.excluded is (case.status == 77)


@pytest.mark.parametrize("case", OLD, ids=_name)
def test_a_failed_build_names_its_cause_and_loses_nothing(case: Case, bookworm: Bases) -> None:
    base = bookworm.older if case.happens is failing.compiler_older else bookworm.plain
    with base as box:
        judged(failed(box, case), case)
        for kernel in (each for each in box.kernels if each.endswith("+deb12-amd64")):
            # That of a kernel that nothing was done to: modprobe would still load it.
            chain = box.run("modprobe", "-S", kernel, "--show-depends", PEERMEM, check=False)
            assert PEERMEM in chain.out, chain.out


@pytest.mark.parametrize("case", NEW, ids=_name)
def test_dkms_3_2_names_it_likewise(case: Case, trixie: Sandbox) -> None:
    with trixie as box:
        judged(failed(box, case), case)


@pytest.fixture(scope="module")
def whole(bookworm: Bases) -> Iterator[Attempt]:
    with bookworm.plain as box:
        yield attempt(box, failing.DRIVER, box.kernel("6.1."))


def test_a_build_that_succeeds_has_no_cause(whole: Attempt) -> None:
    """Its log shows every command of make, and those are full of "error"."""
    assert (whole.status, whole.row, whole.gated) == (0, "", ""), whole.said[-40:]
    assert len(whole.said) > 150
    assert "-Werror" in "\n".join(whole.said)


def test_a_key_that_is_not_the_certificates_leaves_a_module_that_the_gate_refuses(
    bookworm: Bases,
) -> None:
    """DKMS ends with 0 all the same."""
    with bookworm.plain as box:
        kernel = box.kernel("6.1.")
        package = failing.keys_do_not_match(box, kernel)
        assert attempt(box, package, kernel).status == 0
        left = f"{SCRATCH}/dkms/{package.name}/{kernel}/x86_64/module"
        [broken] = modules_of(box, left)
        ground = GateGround(kernel, "x86_64", None, {}, (), WantedSignature("1234"))
        refusals = judge_module(broken, ground)
        assert [each.found for each in refusals if each.cause is Refused.SIGNATURE] == [
            "it is not signed"
        ]


def test_dkms_that_is_switched_off_says_so(trixie: Sandbox) -> None:
    """It ends with 0 and builds nothing."""
    with trixie as box:
        box.write("/etc/dkms/no-autoinstall", "")
        done = box.run("dkms", "autoinstall", "-k", box.kernel("6.12."))
        matched = cause_of(done.out.split("\n"))
        assert matched is not None
        assert matched[0].id == "dkms-off"
        assert "rm /etc/dkms/no-autoinstall" in matched[0].action


def test_a_package_whose_source_is_gone_is_said_to_be_broken(trixie: Sandbox) -> None:
    with trixie as box:
        box.shell("rm -r /usr/src/mlnx-ofed-kernel-25.10")
        done = box.run("dkms", "build", "mlnx-ofed-kernel/25.10", "-k", box.kernel("6.12."),
                       check=False)  # fmt: skip
        matched = cause_of(done.out.split("\n"))
        assert done.status == 4
        assert matched is not None
        assert matched[0].id == "dkms-broken"
