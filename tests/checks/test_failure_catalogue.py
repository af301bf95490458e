"""The catalogue of failures: each row by a line that was seen, or composed as its source has it."""

from __future__ import annotations

import pytest

from toolkit.checks.kernel.build_failures import cause_of, explain, telling
from toolkit.compat.reader import shipped

BUILD = "/var/lib/dkms/nvidia-current-open/535.261.03/build"
SEEN = (
    # resources
    ("no-space", "cp: error writing '/var/lib/dkms/x/build/nv.h': No space left on device"),
    ("no-space", "/tmp/ccUvvB6a.s: Fatal error: nv.o: No space left on device"),
    ("read-only", "mkdir: cannot create directory '/usr/src/x': Read-only file system"),
    ("killed-compiler", "gcc-12: fatal error: Killed signal terminated program cc1"),
    ("killed-compiler", "make[3]: *** [scripts/Makefile.build:250: /x/nv.o] Error 137"),
    ("killed-compiler", "cc1: out of memory allocating 65536 bytes after a total of 4096 bytes"),
    # headers
    ("headers-missing", "Error! Your kernel headers for kernel 6.8.0-1 cannot be found at /lib/m"),
    ("headers-missing", "make: *** /lib/modules/6.8.0-1/build: No such file or directory.  Stop."),
    ("headers-incomplete", "The Module.symvers file is missing, or does not contain any"),
    ("headers-incomplete", "  ERROR: Kernel configuration is invalid."),
    ("headers-incomplete", "/bin/sh: 1: scripts/basic/fixdep: not found"),
    ("headers-foreign", "scripts/mod/modpost: /lib/x86_64-linux-gnu/libc.so.6: version"
     " `GLIBC_2.38' not found (required by scripts/mod/modpost)"),
    ("headers-foreign", "/bin/sh: 1: scripts/mod/modpost: Exec format error"),
    # kernels
    ("excluded", "Error! The /var/lib/dkms/n/1/6.1.0-rt/x86_64/dkms.conf for module n includes a"
     " BUILD_EXCLUSIVE directive which does not match this kernel/arch/config."),
    ("excluded", "Warning: The /x/dkms.conf for module n/1 includes a BUILD_EXCLUSIVE directive"
     " which does not match this kernel/arch/config."),
    ("real-time", "*** Failed PREEMPT_RT sanity check. Bailing out! ***"),
    ("xen", "*** Failed Xen sanity check. Bailing out! ***"),
    ("dpll", "dpll.c:12:5: error: invalid use of undefined type 'struct dpll_pin'"),
    ("namespace", "ERROR: modpost: module nvidia uses symbol dma_buf_get from namespace DMA_BUF,"
     " but does not import it."),
    ("older-peer-memory", "a.c:7:1: error: variable 'nv_mem_client_ex' has incomplete type"),
    ("mlnxofedinstall", "Failed to build MLNX_OFED_LINUX for 6.14.0-37-generic"),
    ("newer-kernel", "nv-pci.c:223:10: error: too few arguments to function 'pci_resize_resource'"),
    ("newer-kernel", "nv.c:9:5: error: implicit declaration of function ‘follow_pfn’; did you"
     " mean ‘follow_pte’? [-Werror=implicit-function-declaration]"),
    ("newer-kernel", "a.c:1:1: error: 'struct mm_struct' has no member named 'mmap_sem'"),
    ("newer-kernel", "a.c:3:1: error: passing argument 2 of 'f' from incompatible pointer type"),
    ("newer-kernel", "a.c:1:10: fatal error: linux/of_gpio_old.h: No such file or directory"),
    ("ofed-other-kernel", "CONFIG_MLX5_ESWITCH not support kernel version 5.6 or higher (current:"
     " 5.15.0-48-generic)"),
    ("undefined", 'ERROR: modpost: "follow_pfn" [/x/nvidia.ko] undefined!'),
    ("objtool", "nvidia.o: error: objtool: nv_f+0x5: 'naked' return found in MITIGATION_RETHUNK"),
    ("undefined", 'ERROR: "follow_pfn" [/x/nvidia.ko] undefined!'),
    # compilers
    ("no-cplusplus", "make: g++: No such file or directory"),
    ("no-cplusplus", "sh: line 1: g++: command not found"),
    ("no-make", "/usr/sbin/dkms: line 1: make: command not found"),
    ("no-cc1", "gcc-12: fatal error: cannot execute 'cc1': execvp: No such file or directory"),
    ("no-cc1", "gcc-12: fatal error: cannot execute ‘as’: execvp: No such file or directory"),
    ("compiler-plugin", "cc1: error: cannot load plugin ./scripts/gcc-plugins/latent_entropy.so"),
    ("compiler-older", "gcc-12: error: unrecognized command-line option"
     " ‘-ftrivial-auto-var-init=zero’; did you mean ‘-ftrivial-auto-var-init=pattern’?"),
    ("compiler-older", "gcc: error: unrecognized command line option '-fmin-function-alignment'"),
    ("compiler-missing", "/bin/sh: 1: gcc-12: not found"),
    ("compiler-missing", "make[1]: x86_64-linux-gnu-gcc-14: No such file or directory"),
    ("compiler-missing", "/bin/sh: 1: cc: not found"),
    ("compiler-sanity", "*** Failed CC sanity check. Bailing out! ***"),
    ("compiler-check", "*** Failed CC version check. ***"),
    ("compiler-not-located", "Makefile:58: *** Unable to locate the compiler gcc-13. Stop."),
    # OFED and driver
    ("ofed-leftover", "/var/lib/dkms/mlnx-ofed-kernel/Module.symvers: No such file or directory"),
    ("ofed-leftover", "make: *** No rule to make target '/var/lib/dkms/mlnx-ofed-kernel/"
     "Module.symvers', needed by 'Module.symvers'.  Stop."),
    ("ofed-parent", "/usr/src/ofa_kernel/Module.symvers: No such file or directory"),
    ("ofed-symvers", "/usr/src/ofa_kernel/x86_64/6.8/Module.symvers: No such file or directory"),
    ("ofed-symvers", "make: *** No rule to make target '/usr/src/ofa_kernel/default/Module.symvers'"
     ", needed by 'modpost'.  Stop."),
    ("symvers", "/usr/src/driver/Module.symvers: No such file or directory"),
    ("no-driver-modules", "-E- Cannot locate nvidia modules!"),
    ("no-driver-symbols", f'ERROR: modpost: "nvidia_p2p_get_pages" [{BUILD}/x.ko] undefined!'),
    ("no-peer-symbols", 'ERROR: modpost: "ib_register_peer_memory_client" [x.ko] undefined!'),
    ("ofed-not-built", "nvidia-peermem: OFED has no symbols for kernel 6.8: build OFED first"),
    ("ofed-not-built", "nvidia-peermem: conftest would read /usr/src/a and Kbuild /usr/src/b"),
    ("driver-not-there", "nvidia-peermem: no module of driver 535.1 is installed for kernel 6.8"),
    # the gate
    ("stub", "gate: nvidia-peermem.ko: stub: it takes nothing from the RDMA core"),
    ("gate-provider", "gate: nvidia-peermem.ko: no-provider: nothing exports nvidia_p2p_put_pages"),
    ("gate-crc", "gate: nvidia-peermem.ko: crc: it has 0x1 for nvidia_p2p_put_pages"),
    ("gate-driver", "gate: nvidia-peermem.ko: other-driver: it is of driver 535.1"),
    ("gate-kernel", "gate: nvidia-peermem.ko: other-kernel: it is for kernel 6.1"),
    ("gate-damaged", "gate: nvidia-peermem.ko: damaged: it cannot be unpacked"),
    ("gate-signature", "gate: nvidia-peermem.ko: signature: it is not signed"),
    ("licence", "gate: nvidia-peermem.ko: licence: it is under 'Linux-OpenIB'"),
    ("licence", "FATAL: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'x'"),
    # recipes and DKMS
    ("bare-make", "Makefile:18: /Kbuild: No such file or directory"),
    ("bare-make", "make[1]: *** No rule to make target '/Kbuild'.  Stop."),
    ("dkms-depends", "Error! Aborting build of module nvidia-peermem/535.1 for kernel 6.12 (x86_64)"
     " due to missing BUILD_DEPENDS: mlnx-ofed-kernel."),
    ("dkms-depends", "nvidia-fs/2.13 autoinstall failed due to missing dependencies: nvidia."),
    ("dkms-deferred", "nvidia-peermem/535.1 autoinstall deferred: BUILD_DEPENDS not registered with"
     " DKMS: mlnx-ofed-kernel."),
    ("dkms-off", "Automatic installation of modules has been disabled."),
    ("dkms-off", "dkms: autoinstall for dkms modules has been disabled."),
    ("dkms-broken", "Error! mlnx-ofed-kernel/24.10 is broken!"),
    ("dkms-conf", "dkms.conf: Error! No 'DEST_MODULE_LOCATION' directive specified."),
    ("patch", "Error! Application of patch odd.patch failed."),
    ("no-module", "Error!  Build of nv_peer_mem.ko failed for: 6.1.0-56-amd64 (x86_64)"),
    ("script", "Error! pre_install failed, aborting install."),
    ("depmod", "Error! Problems with depmod detected.  Automatically uninstalling this module."),
    ("not-newer", "Error! Module version 24.10 for ib_core.ko is not newer than what is already"
     " found in kernel 6.8 (24.10)."),
    ("make-failed", "Error! Bad return status for module build on kernel: 6.8.0 (x86_64)"),
    # signing
    ("sign-key", "- SSL error:05800074:x509 certificate routines::key values mismatch: ../crypto"),
    ("sign-failed", "Warning: Failed to sign module '/var/lib/dkms/x/1/build/x.ko'!"),
    ("unsigned", "Binary /lib/modules/6.8/scripts/sign-file not found, modules won't be signed"),
    # loading
    ("load-rejected", "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"),
    ("load-lockdown", "Lockdown: modprobe: unsigned module loading is restricted; see man 7"),
    ("load-crc", "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory"),
    ("load-symbol", "nvidia_peermem: Unknown symbol nvidia_p2p_get_pages (err -2)"),
    ("load-format", "modprobe: ERROR: could not insert 'nvidia': Exec format error"),
    ("load-install", "modprobe: ERROR: command_do() Error running install command '/bin/false' for"
     " module a: retcode 1"),
    ("load-absent", "modprobe: FATAL: Module nvidia_peermem not found in directory /lib/modules/6"),
    ("load-no-gpu", "NVRM: No NVIDIA GPU found."),
    ("load-busy", "rmmod: ERROR: Module nvidia is in use by: nvidia_peermem"),
    ("load-duplicate", "nvidia_peermem: exports duplicate symbol nv_x (owned by nv_peer_mem)"),
    ("load-refused", "modprobe: ERROR: could not insert 'nvidia': Invalid argument"),
    ("load-invalid", "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument"),
)  # fmt: skip


@pytest.mark.parametrize(("row", "line"), SEEN, ids=[f"{row}:{line[:30]}" for row, line in SEEN])
def test_a_known_string_has_its_cause(row: str, line: str) -> None:
    after = "make: *** [Makefile:1: x] Error 2" if row != "excluded" else "Error! Its " + line
    found = cause_of(["  CC [M] nv.o", line, after])
    assert found is not None
    assert found[0].id == row
    assert found[0].cause
    assert found[0].action


def test_each_row_of_the_catalogue_is_matched_by_a_line_seen() -> None:
    assert {row for row, _ in SEEN} == {row.id for row in shipped().build_failures}


NOISE = (
    "warning: the compiler differs from the one used to build the kernel",
    "  Skipping BTF generation for nvidia.ko due to unavailability of vmlinux",
    "nv.c:1: warning: implicit declaration of function 'x'",
    "libkmod: ERROR libkmod-config.c:635 kmod_config_parse: blacklist.conf line 59: ignoring bad",
    "   gcc-12 -Wp,-MMD,x.d -Werror=implicit-int -Werror=incompatible-pointer-types",
    "NV_CONFTEST_CFLAGS=-Wall -Werror=implicit-function-declaration -Wno-error=undef",
    "make[1]: Leaving directory '/usr/src/linux-headers-6.1.0-56-common'",
    "Building module(s)... done.",
    "DKMS: install completed.",
    "checking if struct dpll_pin_ops has ffo_get... yes",
    "nvidia.o: warning: objtool: nv_f+0x5: 'naked' return found in MITIGATION_RETHUNK build",
    "cc1: note: unrecognized command-line option '-Wno-odd' may have been intended to silence"
    " earlier diagnostics",
    "WARNING: modpost: missing MODULE_LICENSE() in /x/conftest.o",
    "WARNING: modpost: module nvidia uses symbol dma_buf_get from namespace DMA_BUF, but does not"
    " import it.",
)


@pytest.mark.parametrize("line", NOISE)
def test_what_stands_in_good_logs_has_no_cause(line: str) -> None:
    assert cause_of([line]) is None


def test_causes_count_before_what_follows_from_them() -> None:
    log = [
        "Error! Bad return status for module build on kernel: 6.8.0 (x86_64)",
        'ERROR: modpost: "nvidia_p2p_get_pages" [nvidia-peermem.ko] undefined!',
        "WARNING: Unable to locate the compiler gcc-13 from CONFIG_CC_VERSION_TEXT",
        "/usr/src/ofa_kernel/Module.symvers: No such file or directory",
    ]
    found = cause_of(log)
    assert found is not None
    assert found[0].id == "ofed-parent"


def test_an_ofed_that_was_configured_for_another_kernel_is_not_called_old() -> None:
    log = [
        "CONFIG_NET_X not support kernel version 6.9 or higher (current: 6.18.5-amd64)",
        "a.c:1:1: error: 'struct mm_struct' has no member named 'mmap_sem'",
    ]
    why = explain(log, 10, kernel="6.1.0-56-amd64", module="mlnx-ofed-kernel/25.10")
    assert "the kernel is newer" not in why.found
    again = "KVERSION=6.1.0-56-amd64 dkms install mlnx-ofed-kernel/25.10 -k 6.1.0-56-amd64"
    assert again in why.action


# --- what no row explains


@pytest.mark.parametrize(
    ("lines", "status", "found", "action"),
    [
        pytest.param(
            ["CC x.o", "x.c:9: error: static assertion failed: \"odd\"", "make: *** Error 1"], 10,
            "the build stopped: x.c:9: error: static assertion failed: \"odd\"", "read /var/lib",
            id="the-first-error",
        ),
        pytest.param(
            ["make: *** [odd] Error 3",
             "Error! Bad return status for module build on kernel: 6.8.0 (x86_64)"], 10,
            "the build stopped: make: *** [odd] Error 3", "read the make.log",
            id="the-error-rather-than-that-there-is-one",
        ),
        pytest.param(
            ["Binary /dev/null not found, modules won't be signed",
             "Error! Bad return status for module build on kernel: 6.8.0 (x86_64)",
             "make: *** No targets.  Stop."], 10,
            "the build stopped: make: *** No targets.  Stop.", "read the make.log",
            id="neither-what-dkms-says-of-it-nor-a-remark",
        ),
        pytest.param(
            ["Running in chroot, modules won't be signed",
             "Error! Bad return status for module build on kernel: 6.8.0 (x86_64)"], 10,
            "the compilation failed; what DKMS printed does not say why", "read the make.log",
            id="that-it-failed-rather-than-a-remark",
        ),
        pytest.param(
            ["Binary /dev/null not found, modules won't be signed",
             "Error! Odd thing in odd.patch."], 6,
            "the build stopped: Error! Odd thing in odd.patch.",
            "look whether /lib/modules", id="our-own-remark-is-none",
        ),
        pytest.param(["Building...", ""], 10, "make failed; its last words: Building...",
                     "read /var/lib", id="the-status-and-the-last-words"),
        pytest.param([], 21, "the headers of that kernel are missing; it printed nothing",
                     "install the headers", id="the-status-alone"),
        pytest.param(["odd"], 99, "the build ended with status 99; its last words: odd", "",
                     id="a-status-that-nobody-knows"),
        pytest.param([], 0, "the build stopped; it printed nothing", "", id="nothing-at-all"),
    ],
)  # fmt: skip
def test_a_failure_that_no_row_explains_is_no_bare_number(
    lines: list[str], status: int, found: str, action: str
) -> None:
    why = explain(lines, status, "3.2.2")
    assert why.found == found
    assert why.action.startswith(action)


def test_what_a_package_does_not_want_is_excluded_by_log_or_status() -> None:
    assert explain([], 77, "3.2.2").excluded
    line = "Error! The dkms.conf for module n includes a BUILD_EXCLUSIVE directive which does not"
    assert explain([line], 9, "3.0.3").excluded
    assert not explain([], 10, "3.2.2").excluded
    assert not explain([], 9, "3.0.3").excluded


NOT_WANTED = (
    "Warning: The /x/dkms.conf for module r8125/9.1 includes a BUILD_EXCLUSIVE directive which"
    " does not match this kernel/arch/config."
)


@pytest.mark.parametrize(
    ("failure", "found"),
    [
        ("nv.c:9:5: error: 'struct mm_struct' has no member named 'mmap_sem'", "newer"),
        ("Error! Bad return status for module build on kernel: 6.8 (x86_64)", "compilation failed"),
        ("a.c:9: error: odd", "the build stopped: a.c:9: error: odd"),
    ],
)
def test_a_module_that_is_not_wanted_does_not_excuse_another_that_failed(
    failure: str, found: str
) -> None:
    why = explain([NOT_WANTED, failure])
    assert not why.excluded
    assert found in why.found
    assert explain([NOT_WANTED, "Running in chroot, modules won't be signed"]).excluded


def test_an_action_names_kernel_and_module_where_they_are_known() -> None:
    killed = ["gcc-12: fatal error: Killed signal terminated program cc1"]
    why = explain(killed, 10, kernel="6.8.0-1", module="nvidia-peermem/535.1")
    assert why.action.endswith("dkms build -j 2 nvidia-peermem/535.1 -k 6.8.0-1")
    assert explain(killed, 10).action.endswith("dkms build -j 2 MODULE/VERSION -k KERNEL")
    other = ["/usr/src/ofa_kernel/Module.symvers: No such file or directory"]
    action = explain(other, 10, kernel="6.8.0-1", module="nvidia-peermem/535.1").action
    assert action.endswith("dkms install mlnx-ofed-kernel/VERSION -k 6.8.0-1")


def test_the_first_error_is_no_noise() -> None:
    assert telling([*NOISE, "a.c:1: error: odd", "a.c:2: error: later"]) == "a.c:1: error: odd"
    assert telling(NOISE) == ""
