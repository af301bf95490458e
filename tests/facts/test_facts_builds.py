"""Parsers of what builds rest on, one row for each shape seen."""

from __future__ import annotations

import pytest

from toolkit.errors import NeedsRoot, Unparsable
from toolkit.facts.boot.kernel import parse_initramfs
from toolkit.facts.modules.build_env import parse_cc_version, parse_gcc_major, parse_tools
from toolkit.facts.modules.dkms import parse_build_failures, parse_dkms_version, parse_make_log
from toolkit.facts.modules.kernel_modules import parse_modinfo_files
from toolkit.facts.modules.ofed import parse_ofed_folders, parse_openib_conf, parse_unit


@pytest.mark.parametrize(
    ("text", "command", "shown"),
    [
        ("x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0",
         "x86_64-linux-gnu-gcc-12", "gcc 12"),
        ("gcc (GCC) 11.5.0 20240719 (Red Hat 11.5.0-2)", "gcc", "gcc 11"),
        ("gcc-11 (Debian 11.3.0-8) 11.3.0", "gcc-11", "gcc 11"),
        ("gcc (SUSE Linux) 7.5.0", "gcc", "gcc 7"),
        ("ia64-linux-gcc (GCC) 12.1.0", "ia64-linux-gcc", "gcc 12"),
        ("clang version 14.0.6", "clang", "clang 14"),
        ("Ubuntu clang version 18.1.3 (1ubuntu1)", "clang", "clang 18"),
    ],
)  # fmt: skip
def test_the_kernels_compiler(text: str, command: str, shown: str) -> None:
    found = parse_cc_version(text)
    assert (found.command, str(found)) == (command, shown)


@pytest.mark.parametrize("text", ["", "gcc", "icc (ICC) x"])
def test_another_compiler_is_refused(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_cc_version(text)


def test_tools_and_the_version_of_gcc() -> None:
    assert parse_tools("gcc\ng++\nx86_64-linux-gnu-gcc-12\n") == {
        "gcc", "g++", "x86_64-linux-gnu-gcc-12"
    }  # fmt: skip
    assert (parse_gcc_major("11.4.0\n"), parse_gcc_major("12\n")) == (11, 12)
    with pytest.raises(Unparsable):
        parse_tools("gcc: not found\n")
    with pytest.raises(Unparsable):
        parse_gcc_major("gcc\n")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("dkms-3.0.10\n", "3.0.10"),
        ("dkms: 2.8.7\n", "2.8.7"),
        ("dkms-3.2.2-1.el9\n", "3.2.2"),
        ("3.4.3\n", "3.4.3"),
    ],
)
def test_dkms_versions(text: str, version: str) -> None:
    assert str(parse_dkms_version(text)) == version


def test_an_initramfs_is_of_the_kernel_whose_modules_it_holds() -> None:
    image = parse_initramfs(
        "etc/modprobe.d/mlx.conf\nusr/lib/modprobe.d/aliases.conf\n"
        "lib/modules/6.1.0-1/updates/dkms/mlx5_core.ko.zst\n"
        "lib/modules/6.1.0-1/kernel/drivers/infiniband/core/ib_core.ko\nbin -> usr/bin\n"
    )
    assert (image.kernel, image.configs) == ("6.1.0-1", ("mlx.conf",))
    assert image.inbox(("mlx5_core", "ib_core", "ib_uverbs")) == ["ib_core"]
    assert parse_initramfs("").kernel == ""
    assert parse_initramfs("usr/lib/modules/6.1.0-1/modules.dep\n").kernel == "6.1.0-1"


HEAD = "@/var/lib/dkms/nvidia/580.1/build/make.log\n"


@pytest.mark.parametrize(
    "first",
    [
        "DKMS make.log for nvidia-580.1 for kernel 6.8.0-1-generic (x86_64)",
        "DKMS (nvidia-580.1) for kernel 6.8.0-1-generic (x86_64)",
        "DKMS make.log for nvidia-580.1 for kernel 6.8.0-1-generic (x86_64)Mon May 27 12:47:44",
    ],
)
def test_a_log_says_for_which_kernel(first: str) -> None:
    (log,) = parse_build_failures(f"{HEAD}first: {first}\nmake: *** x\nlast: # exit code: 2\n")
    assert (log.module, log.version, log.kernel) == ("nvidia", "580.1", "6.8.0-1-generic")
    assert log.last == "# exit code: 2"


def test_an_empty_log_is_a_log() -> None:
    (log,) = parse_build_failures(f"{HEAD}first: \nlast: \n")
    assert (log.kernel, log.last) == ("", "")


@pytest.mark.parametrize("text", [f"{HEAD}first: x\n", HEAD, "@/tmp/x\nfirst: \nlast: \n", "x\n"])
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_build_failures(text)


def test_a_log_for_root_alone_is_not_nothing() -> None:
    with pytest.raises(NeedsRoot):
        parse_build_failures(f"{HEAD}unreadable\n")


def test_a_log_by_itself_names_its_module_where_it_can() -> None:
    log = parse_make_log(
        "Error! Bad return status for module build on kernel: 6.14.0-1 (x86_64)\n"
        "Consult /var/lib/dkms/srp/4.9/build/make.log for more information.\n"
    )
    assert (log.module, log.version, log.kernel) == ("srp", "4.9", "6.14.0-1")
    assert parse_make_log("").last == ""


def test_modinfo_of_several_files() -> None:
    files = parse_modinfo_files(
        "filename:       /lib/modules/a/x.ko\nversion:        1\n"
        "filename:       /lib/modules/b/x.ko\n"
    )
    assert [(path, each.version) for path, each in files.items()] == [
        ("/lib/modules/a/x.ko", "1"), ("/lib/modules/b/x.ko", "")
    ]  # fmt: skip
    with pytest.raises(Unparsable):
        parse_modinfo_files("version: 1\n")


OFA = "/usr/src/ofa_kernel"
HAS = "ib_uverbs"


@pytest.mark.parametrize(
    ("sources", "symvers", "leftover", "arch", "expected"),
    [
        pytest.param("", {}, False, "x86_64", ("", "", False, False), id="nothing"),
        pytest.param("", {}, True, "x86_64",
                     ("", "/var/lib/dkms/mlnx-ofed-kernel", False, False), id="leftover"),
        pytest.param("", {f"{OFA}/x86_64/k/Module.symvers": HAS}, True, "x86_64",
                     (f"{OFA}/x86_64/k", f"{OFA}/x86_64/k", True, True), id="good"),
        pytest.param(f"{OFA}/x86_64/k\n{OFA}/default\n", {f"{OFA}/default/Module.symvers": HAS},
                     False, "x86_64", (f"{OFA}/default", f"{OFA}/x86_64/k", False, False),
                     id="empty-folder-first"),
        pytest.param("", {f"{OFA}/aarch64/k/Module.symvers": HAS}, False, "aarch64",
                     ("", f"{OFA}/aarch64/k", True, True), id="arm"),
        pytest.param("", {"/lib/modules/k/build/Module.symvers": HAS}, False, "x86_64",
                     ("/lib/modules/k/build", "", False, False), id="the-kernels-own"),
        pytest.param(f"{OFA}/default -> x86_64/gone\n", {}, False, "x86_64",
                     ("", "", False, False), id="dangling"),
        pytest.param(f"{OFA}/default -> /etc/alternatives/ofa\n/etc/alternatives/ofa -> x\n",
                     {f"{OFA}/default/Module.symvers": HAS}, False, "x86_64",
                     (f"{OFA}/default", f"{OFA}/default", True, True), id="alternatives"),
    ],
)  # fmt: skip
def test_both_searches_for_ofed(
    sources: str,
    symvers: dict[str, str],
    leftover: bool,
    arch: str,
    expected: tuple[str, str, bool, bool],
) -> None:
    found = parse_ofed_folders(sources, symvers, leftover=leftover).search("k", arch)
    said = (found.conftest, found.kbuild, found.kbuild_symvers, found.kbuild_symbol)
    assert said == expected


def test_units_and_openib_conf() -> None:
    assert parse_unit("ActiveState=active\nResult=\n") == {"ActiveState": "active", "Result": ""}
    with pytest.raises(Unparsable):
        parse_unit("LoadState=loaded\n")
    conf = parse_openib_conf('# ONBOOT=maybe\nONBOOT=no # x\nNAME="a"\n\nnothing\n')
    assert conf == {"ONBOOT": "no", "NAME": "a"}
