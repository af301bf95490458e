"""The steps that a forecast names: which packages and builds, and in which order."""

from __future__ import annotations

import pytest

from tests.checks.test_forecast import BARE_NEXT, ahead, prospect
from tests.evidence.build import DRIVER, KERNEL, NEXT_KERNEL, OFED, kernel_block
from tests.evidence.healthy_builds import built
from tests.evidence.judging import UNKNOWN
from toolkit.errors import ExitCode

OFED_THERE = BARE_NEXT | {
    "kernels": kernel_block(KERNEL) + f"@{NEXT_KERNEL}\nimage\nheaders\n"
    f"/lib/modules/{NEXT_KERNEL}/updates/dkms/ib_core.ko\n",
}


def test_with_headers_the_fix_is_one_command() -> None:
    fix = prospect(ahead(OFED_THERE), "driver").finding.hint
    assert fix == f"dkms install nvidia/{DRIVER} -k {NEXT_KERNEL}"


@pytest.mark.parametrize("topic", ["driver", "nvidia-peermem"])
def test_where_ofed_is_owed_too_it_is_built_before_the_driver(topic: str) -> None:
    fix = prospect(ahead(BARE_NEXT), topic).finding.hint
    first, then = (f"dkms install {what} -k {NEXT_KERNEL}" for what in
                   (f"mlnx-ofed-kernel/{OFED}", f"nvidia/{DRIVER}"))  # fmt: skip
    assert fix == f"{first}; then {then}"


def test_a_stub_is_built_again_behind_ofed() -> None:
    stub = {"all-modinfo": built() + built(NEXT_KERNEL, peermem="")}
    fix = prospect(ahead(stub), "nvidia-peermem").finding.hint
    command = f"/usr/lib/gdr-toolkit/rebuild --kernel {NEXT_KERNEL} --peermem"
    assert fix == command
    fix = prospect(ahead({**stub, "rebuild-hooks": ""}), "nvidia-peermem").finding.hint
    assert fix == f"./invokew provision --hosts NODE, then on NODE: {command}"


def test_of_two_that_differ_nobody_knows_which_one_modprobe_takes() -> None:
    more = built(NEXT_KERNEL, peermem="").replace("updates/dkms", "extra")
    found = prospect(ahead({"all-modinfo": built() + built(NEXT_KERNEL) + more}), "nvidia-peermem")
    assert (found.finding.status, found.finding.found[:9]) == (UNKNOWN, "not alike")


EL98 = "5.14.0-687.5.1.el9_8.x86_64"


def test_an_ofed_that_does_not_compile_there_is_foretold() -> None:
    frames = {"os-release": "ID=rhel\nVERSION_ID=9.6\n"}
    (only,) = ahead(frames, release=EL98).prospects
    assert "does not compile for" in only.finding.hint
    assert "DOCA-OFED 3.2.3 LTS" in only.finding.hint
    there = {**frames, "kernels": kernel_block(KERNEL) + f"@{EL98}\nimage\nheaders\n"}
    assert "does not compile" in prospect(ahead(there, release=EL98), "rdma-stack").finding.hint


@pytest.mark.parametrize(
    ("system", "release", "hint"),
    [
        ("ID=rhel\n", "6.8.0-64-generic", "named like no kernel of rhel"),
        ("ID=ubuntu\n", EL98, "named like no kernel of ubuntu"),
        (
            "ID=rhel\n",
            "5.14.0-570.el9_6.aarch64+64k",
            "install kernel-64k-5.14.0-570.el9_6.aarch64 ",
        ),
        ("ID=rhel\n", "4.18.0-553.rt7.342.el8_10.x86_64", "install kernel-rt-4.18.0-553.rt7.342"),
        ("ID=ol\n", "5.15.0-308.179.6.el9uek.x86_64", "install kernel-uek-5.15.0-308"),
        ("ID=void\n", "6.8.0-64-generic", "install the kernel 6.8.0-64-generic"),
    ],
)
def test_the_packages_of_a_kernel_have_the_names_of_its_flavour(
    system: str, release: str, hint: str
) -> None:
    (only,) = ahead({"os-release": system}, release=release).prospects
    assert hint in only.finding.hint


@pytest.mark.parametrize(
    ("system", "package"),
    [
        ("ID=ubuntu\nID_LIKE=debian\n", f"linux-headers-{NEXT_KERNEL}"),
        ('ID="rocky"\nID_LIKE="rhel centos"\n', f"kernel-devel-{NEXT_KERNEL}"),
        ("ID=sles\n", "kernel-default-devel"),
        ("ID=void\n", f"the headers of {NEXT_KERNEL}"),
    ],
)
def test_without_headers_their_package_comes_first(system: str, package: str) -> None:
    without = BARE_NEXT | {
        "kernels": kernel_block(KERNEL) + f"@{NEXT_KERNEL}\nimage\n",
        "os-release": system,
    }
    hint = prospect(ahead(without), "driver").finding.hint
    assert hint.startswith(f"install {package}")
    assert hint.count(package) == 1


def test_flavours_of_rhel_have_headers_of_their_own() -> None:
    release = "5.14.0-503.el9.aarch64+64k"
    frames = {"os-release": "ID=rhel\n", "kernels": kernel_block(KERNEL) + f"@{release}\nimage\n"}
    hint = prospect(ahead(frames, release=release), "driver").finding.hint
    assert hint.startswith("install kernel-64k-devel-5.14.0-503.el9.aarch64, then dkms install")


def test_the_driver_does_not_build_for_a_real_time_kernel() -> None:
    frames = BARE_NEXT | {"kernel-configs": f"@{NEXT_KERNEL}\nCONFIG_PREEMPT_RT=y\n"}
    hint = prospect(ahead(frames), "driver").finding.hint
    assert hint == f"boot a kernel without PREEMPT_RT: the driver does not build for {NEXT_KERNEL}"


def test_a_kernel_that_is_not_installed_is_unknown_and_dkms_would_build() -> None:
    found = ahead(release="6.99.0-1-generic")
    (only,) = found.prospects
    assert found.exit_code is ExitCode.UNKNOWN
    assert only.finding.found == "6.99.0-1-generic is not installed there"
    assert "linux-image-6.99.0-1-generic" in only.finding.hint
    assert f"DKMS would build mlnx-ofed-kernel/{OFED}, nvidia/{DRIVER} then" in only.finding.hint


def test_dkms_would_build_nothing_where_it_is_told_not_to() -> None:
    off = {"dkms-tree": "/etc/dkms/no-autoinstall\n"}
    assert "DKMS" not in ahead(off, release="6.99.0-1").prospects[0].finding.hint
