"""What DKMS prints, over twelve years of its versions."""

from __future__ import annotations

import pytest

from toolkit.errors import Unparsable
from toolkit.facts.modules.dkms import (
    DkmsBuild,
    DkmsPackage,
    DkmsState,
    parse_dkms_confs,
    parse_dkms_status,
    parse_driver_sources,
)

BROKEN, ADDED, BUILT, INSTALLED, WEAK = DkmsState
RHEL, OLDER = "5.14.0-427.13.1.el9_4.x86_64", "5.14.0-362.8.1.el9_3.x86_64"
UBUNTU = "6.8.0-45-generic"
DIFF = "WARNING! Diff between built and installed module!"


@pytest.mark.parametrize(
    ("line", "build"),
    [
        pytest.param(
            "nvidia/550.90.07: added",
            DkmsBuild("nvidia", "550.90.07", ADDED),
            id="never-built",
        ),
        pytest.param(
            "nvidia, 550.90.07: added",
            DkmsBuild("nvidia", "550.90.07", ADDED),
            id="never-built-2.x",
        ),
        pytest.param(
            f"nvidia/550.90.07, {UBUNTU}, x86_64: built",
            DkmsBuild("nvidia", "550.90.07", BUILT, UBUNTU, "x86_64"),
            id="compiled-and-not-installed",
        ),
        pytest.param(
            f"nvidia/550.90.07, {UBUNTU}, x86_64: installed",
            DkmsBuild("nvidia", "550.90.07", INSTALLED, UBUNTU, "x86_64"),
            id="installed",
        ),
        pytest.param(
            "mlnx-ofed-kernel, 4.9, 5.4.0-97-generic, x86_64: installed",
            DkmsBuild("mlnx-ofed-kernel", "4.9", INSTALLED, "5.4.0-97-generic", "x86_64"),
            id="installed-2.x",
        ),
        pytest.param(
            f"mlnx-ofed-kernel/25.10.OFED.25.10.1.7.1.1, {UBUNTU}, x86_64: installed",
            DkmsBuild("mlnx-ofed-kernel", "25.10.OFED.25.10.1.7.1.1", INSTALLED, UBUNTU, "x86_64"),
            id="ofed-names-itself-in-its-version",
        ),
        pytest.param(
            f"nvidia-340/340.108-0ubuntu7+dfsg, {UBUNTU}, x86_64: installed",
            DkmsBuild("nvidia-340", "340.108-0ubuntu7+dfsg", INSTALLED, UBUNTU, "x86_64"),
            id="packagers-version",
        ),
        pytest.param(
            "nvidia/580.95.05, 6.8.0-1032-nvidia-64k, aarch64: installed",
            DkmsBuild("nvidia", "580.95.05", INSTALLED, "6.8.0-1032-nvidia-64k", "aarch64"),
            id="arm64",
        ),
        pytest.param(
            f"nvidia, 550.90.07, {RHEL}, x86_64: installed-weak from {OLDER}",
            DkmsBuild("nvidia", "550.90.07", WEAK, RHEL, "x86_64", f"from {OLDER}"),
            id="kabi-sibling",
        ),
        pytest.param(
            f"nvidia/550.90.07, {UBUNTU}, x86_64: installed ({DIFF})",
            DkmsBuild("nvidia", "550.90.07", INSTALLED, UBUNTU, "x86_64", DIFF),
            id="differs-on-disk",
        ),
        pytest.param(
            f"nvidia, 550.90.07, {UBUNTU}, x86_64: installed ({DIFF}) ({DIFF})",
            DkmsBuild("nvidia", "550.90.07", INSTALLED, UBUNTU, "x86_64", f"{DIFF}) ({DIFF}"),
            id="differs-on-disk-once-a-module",
        ),
        pytest.param(
            f"nvidia/580.65.06, {UBUNTU}, x86_64: installed "
            "(Differences between built and installed modules)",
            DkmsBuild(
                "nvidia",
                "580.65.06",
                INSTALLED,
                UBUNTU,
                "x86_64",
                "Differences between built and installed modules",
            ),
            id="differs-on-disk-3.2",
        ),
        pytest.param(
            f"iser/24.10, {UBUNTU}, x86_64: installed (Original modules exist)",
            DkmsBuild("iser", "24.10", INSTALLED, UBUNTU, "x86_64", "Original modules exist"),
            id="replaces-the-kernels-own",
        ),
        pytest.param(
            f"iser, 5.4, {UBUNTU}, x86_64: installed (original_module exists)",
            DkmsBuild("iser", "5.4", INSTALLED, UBUNTU, "x86_64", "original_module exists"),
            id="replaces-the-kernels-own-2.x",
        ),
        pytest.param(
            f"nvidia/550.90.07, {RHEL}, x86_64: installed-weak from {OLDER} ({DIFF})",
            DkmsBuild("nvidia", "550.90.07", WEAK, RHEL, "x86_64", f"from {OLDER}"),
            id="kabi-sibling-that-differs",
        ),
        pytest.param(
            "nvidia/550.90.07: broken",
            DkmsBuild("nvidia", "550.90.07", BROKEN),
            id="source-tree-gone",
        ),
    ],
)
def test_one_line(line: str, build: DkmsBuild) -> None:
    assert parse_dkms_status(line + "\n") == (build,)


def test_installed_and_weak_are_usable_and_nothing_else_is() -> None:
    assert {state for state in DkmsState if DkmsBuild("m", "1", state).usable} == {INSTALLED, WEAK}


def test_a_node_without_modules_prints_nothing() -> None:
    assert parse_dkms_status("") == ()


def test_blank_lines_between_modules_are_nothing() -> None:
    assert len(parse_dkms_status("nvidia/1: added\n\niser/2: added\n")) == 2


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("nvidia 550", id="no-state"),
        pytest.param("nvidia/550.90.07: uninstalled", id="unknown-state"),
        pytest.param("nvidia/550.90.07: installedish", id="more-than-a-state"),
        pytest.param(f"nvidia/550.90.07, {UBUNTU}: installed", id="kernel-without-arch"),
        pytest.param("Error! Could not locate dkms.conf file.", id="complaint"),
        pytest.param("root@gpu01:~# dkms status", id="shell-prompt"),
        pytest.param(": installed", id="no-module"),
    ],
)
def test_an_unknown_shape_is_refused_not_guessed(line: str) -> None:
    with pytest.raises(Unparsable) as refused:
        parse_dkms_status(f"nvidia/550.90.07: added\n{line}\n")
    assert str(refused.value) == f"dkms status: cannot read line 2: {line!r}"


def test_a_package_tells_its_modules_and_what_it_builds_after() -> None:
    text = (
        'nvidia-570.86.15/dkms.conf:PACKAGE_NAME="nvidia"\n'
        'nvidia-570.86.15/dkms.conf:PACKAGE_VERSION="570.86.15"\n'
        'nvidia-570.86.15/dkms.conf:BUILT_MODULE_NAME[0]="nvidia"\n'
        "nvidia-570.86.15/dkms.conf:BUILT_MODULE_NAME[1]='nvidia-peermem'  # last\n"
        "nvidia-570.86.15/dkms.conf:BUILD_DEPENDS[0]=mlnx-ofed-kernel\n"
        "nvidia-570.86.15/dkms.conf:AUTOINSTALL=yes\n"
    )
    assert parse_dkms_confs(text) == (
        DkmsPackage(
            "nvidia-570.86.15",
            "nvidia",
            "570.86.15",
            ("nvidia", "nvidia-peermem"),
            ("mlnx-ofed-kernel",),
        ),
    )


def test_a_package_that_computes_its_name_is_known_by_its_folder() -> None:
    text = "nvidia-open-580.65.06/dkms.conf:AUTOINSTALL=yes\n"
    (package,) = parse_dkms_confs(text)
    assert (package.name, package.version) == ("nvidia-open", "580.65.06")


def test_a_kbuild_tells_the_release_of_a_source_and_is_no_package() -> None:
    text = (
        'nvidia-580.142/Kbuild:ccflags-y += -DNV_VERSION_STRING=\\"580.142\\"\n'
        'nv/kernel-open/Kbuild:EXTRA_CFLAGS += -DNV_VERSION_STRING=\\"535.261.03\\"\n'
        "nvidia-1/Kbuild:# NV_VERSION_STRING= is set elsewhere\n"
    )
    assert parse_driver_sources(text) == {"nvidia-580.142": "580.142", "nv": "535.261.03"}
    assert parse_dkms_confs(text) == ()


def test_modules_named_in_a_loop_are_not_taken_for_names() -> None:
    text = "nvidia-1/dkms.conf:BUILT_MODULE_NAME[$i]=${modules[$i]}\n"
    assert parse_dkms_confs(text)[0].builds == ()


@pytest.mark.parametrize(
    "beside",
    [
        "Deprecated feature: REMAKE_INITRD (/var/lib/dkms/nvidia/580.1/source/dkms.conf)\n",
        "[sudo] password for admin: \n",
        "Sign command: /usr/bin/kmodsign\n",
        "Error! a/1: Missing the module source directory or the symbolic link pointing to it.\n"
        "Manual intervention is required!\n",
    ],
)
def test_what_dkms_prints_beside_its_list_is_passed_over(beside: str) -> None:
    line = "nvidia/580.1: broken\n"
    assert parse_dkms_status(beside + line) == parse_dkms_status(line)
    with pytest.raises(Unparsable):
        parse_dkms_status(f"{line}Error! Could not locate dkms.conf file.\n")
