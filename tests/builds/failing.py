"""Ways in which a build fails for real: each is done to a sandbox where all was well."""

from __future__ import annotations

import re
import subprocess

from tests.builds.attempts import SCRATCH
from tests.builds.sandbox import Sandbox
from tests.builds.stubs import Stub, exported

DRIVER = Stub("nvidia-current-open", "535.261.03")  # with the vendor's nvidia-peermem
OURS = Stub("broken", "1")  # a package of ours, of which one thing is wrong
OFED = "/usr/src/ofa_kernel"


def ours(box: Sandbox, make: str, extra: str = "", **files: str) -> Stub:
    """A DKMS package of ours that builds broken.ko; ``make`` is its make line."""
    folder = f"/usr/src/{OURS.package}-{OURS.version}"
    box.write(
        f"{folder}/dkms.conf",
        f'PACKAGE_NAME="{OURS.package}"\nPACKAGE_VERSION="{OURS.version}"\n'
        'BUILT_MODULE_NAME[0]="broken"\nDEST_MODULE_LOCATION[0]="/updates/dkms"\nCLEAN="true"\n'
        f"MAKE[0]={make}\n{extra}",
    )
    box.write(f"{folder}/Kbuild", "obj-m := broken.o\n")
    for name, text in files.items():
        box.write(f"{folder}/{name.replace('__', '.')}", text)
    return OURS


IN_KERNEL = '"make -C ${kernel_source_dir} M=${dkms_tree}/${PACKAGE_NAME}/${PACKAGE_VERSION}/build"'


def module(body: str = "", licence: str = "GPL") -> str:
    """A module in C that does nothing but ``body``."""
    return f'#include <linux/module.h>\n{body}\nMODULE_LICENSE("{licence}");\n'


# --- headers and kernels


def headers_missing(box: Sandbox, kernel: str) -> Stub:
    box.path(f"usr/lib/modules/{kernel}/build").unlink()
    box.path(f"usr/lib/modules/{kernel}/source").unlink(missing_ok=True)
    return DRIVER


def headers_without_symbols(box: Sandbox, kernel: str) -> Stub:
    box.write(f"/usr/src/linux-headers-{kernel}/Module.symvers", "")
    return DRIVER


def headers_not_configured(box: Sandbox, kernel: str) -> Stub:
    box.path(f"usr/src/linux-headers-{kernel}/include/generated/autoconf.h").unlink()
    return DRIVER


def nothing(box: Sandbox, kernel: str) -> Stub:
    return DRIVER  # the kernel itself is the matter


def real_time_unnoticed(box: Sandbox, kernel: str) -> Stub:
    """dkms.conf does not exclude the kernel, so that the driver's conftest has to."""
    _edit(box, f"/usr/src/{DRIVER.package}-{DRIVER.version}/dkms.conf", "BUILD_EXCLUSIVE.*", "")
    return DRIVER


def point_release(box: Sandbox, kernel: str) -> Stub:
    """What broke 535.261 between 6.1.0-50 and 6.1.0-56: an argument more."""
    call = "int grow(struct pci_dev *dev);\nint grow(struct pci_dev *dev)\n{\n"
    call = f"#include <linux/pci.h>\n{call}\treturn pci_resize_resource(dev, 1, 8);\n}}"
    return ours(box, IN_KERNEL, broken__c=module(call))


# --- OFED


def ofed_for_other_kernels(box: Sandbox, kernel: str) -> Stub:
    """OFED from DKMS, and not for this kernel."""
    box.shell('rm -r "$AT"', AT=f"{OFED}/x86_64/{kernel}")
    return DRIVER


def ofed_packed_for_other_kernels(box: Sandbox, kernel: str) -> Stub:
    """OFED from ready-made packages, and not for this kernel."""
    box.shell("dkms remove mlnx-ofed-kernel/25.10 --all; rm -rf /var/lib/dkms/mlnx-ofed-kernel")
    return ofed_for_other_kernels(box, kernel)


def ofed_leftover(box: Sandbox, kernel: str) -> Stub:
    box.shell(f"rm -r {OFED}; dkms remove mlnx-ofed-kernel/25.10 --all")
    box.shell("mkdir -p /var/lib/dkms/mlnx-ofed-kernel")
    return DRIVER


def ofed_folder_empty(box: Sandbox, kernel: str) -> Stub:
    box.path(exported(kernel)).unlink()
    box.shell('rm -f "$AT"; mkdir -p "$AT"; cp -r "$FROM" "$AT"', AT=f"{OFED}/default",
              FROM="/var/lib/dkms/mlnx-ofed-kernel")  # fmt: skip
    return DRIVER


def stub(box: Sandbox, kernel: str) -> Stub:
    """OFED was removed altogether: all compiles, and nvidia-peermem does nothing."""
    box.shell(f"rm -r {OFED}; dkms remove mlnx-ofed-kernel/25.10 --all")
    return DRIVER


def without_driver_symbols(box: Sandbox, kernel: str) -> Stub:
    conf = f"/usr/src/{DRIVER.package}-{DRIVER.version}/dkms.conf"
    _edit(box, conf, r"(KERNEL_UNAME=\S+?)\"", r'\1 NV_KERNEL_MODULES=nvidia-peermem"')
    _edit(box, conf, r'BUILT_MODULE_NAME\[0\]="nvidia"', 'BUILT_MODULE_NAME[0]="nvidia-peermem"')
    return DRIVER


# --- compilers


def compiler_older(box: Sandbox, kernel: str) -> Stub:
    """gcc 11 under the name of gcc 12, for a kernel that gcc 12 built."""
    box.shell("ln -sf gcc-11 /usr/bin/gcc-12; ln -sf gcc-11 /usr/bin/x86_64-linux-gnu-gcc-12")
    return DRIVER


def compiler_missing(box: Sandbox, kernel: str) -> Stub:
    box.shell("rm -f /usr/local/bin/*gcc-12 /usr/bin/gcc-12 /usr/bin/x86_64-linux-gnu-gcc-12")
    return ours(box, IN_KERNEL, broken__c=module())


def compiler_without_assembler(box: Sandbox, kernel: str) -> Stub:
    """The driver's own first test of the compiler fails."""
    box.shell("rm /usr/bin/as")
    return without_driver_symbols(box, kernel)  # nvidia-peermem alone: conftest comes first


def compiler_in_part(box: Sandbox, kernel: str) -> Stub:
    box.shell("rm /usr/lib/gcc/x86_64-linux-gnu/12/cc1")
    return ours(box, IN_KERNEL, broken__c=module())


def compiler_killed(box: Sandbox, kernel: str) -> Stub:
    """cc1 gets signal 9 when it comes to nvidia-peermem.c, as from a kernel short of memory."""
    cc1 = "/usr/lib/gcc/x86_64-linux-gnu/12/cc1"
    box.shell(f"mv {cc1} {cc1}.real")
    kill = 'case "$*" in *nvidia-peermem.c*) kill -9 $$ ;; esac'
    box.write(cc1, f'#!/bin/sh\n{kill}\nexec {cc1}.real "$@"\n', 0o755)
    return DRIVER


def without_cplusplus(box: Sandbox, kernel: str) -> Stub:
    box.shell("rm -f /usr/bin/g++* /usr/bin/x86_64-linux-gnu-g++* /usr/bin/c++*")
    return ours(
        box,
        "\"'make' tool\"",
        broken__c=module(),
        Makefile="tool: tool.cc\n\tg++ -o tool tool.cc\n",
        tool__cc="int main() { return 0; }\n",
    )


# --- recipes


def bare_make(box: Sandbox, kernel: str) -> Stub:
    conf = f"/usr/src/{DRIVER.package}-{DRIVER.version}/dkms.conf"
    _edit(box, conf, r"MAKE\[0\]=.*", 'MAKE[0]="make modules KERNEL_UNAME=${kernelver}"')
    return DRIVER


def other_module_name(box: Sandbox, kernel: str) -> Stub:
    ours(box, IN_KERNEL, broken__c=module())
    _edit(box, f"/usr/src/{OURS.package}-{OURS.version}/dkms.conf",
          r'(BUILT_MODULE_NAME\[0\])=.*', r'\1="nv_peer_mem"')  # fmt: skip
    return OURS


def patch_that_does_not_fit(box: Sandbox, kernel: str) -> Stub:
    return ours(
        box,
        IN_KERNEL,
        'PATCH[0]="odd.patch"\n',
        broken__c=module(),
        **{"patches/odd__patch": "--- a/broken.c\n+++ b/broken.c\n@@ -1 +1 @@\n-no\n+yes\n"},
    )


def conf_that_names_nothing(box: Sandbox, kernel: str) -> Stub:
    ours(box, IN_KERNEL, broken__c=module())
    box.write(f"/usr/src/{OURS.package}-{OURS.version}/dkms.conf", "AUTOINSTALL=yes\n")
    return OURS


def symvers_not_there(box: Sandbox, kernel: str) -> Stub:
    make = f'{IN_KERNEL[:-1]} KBUILD_EXTRA_SYMBOLS=/usr/src/driver/Module.symvers"'
    return ours(box, make, broken__c=module())


def licence(box: Sandbox, kernel: str) -> Stub:
    body = "#include <linux/kobject.h>\nvoid make(void);\nvoid make(void)\n{\n"
    body += '\tkobject_create_and_add("broken", NULL);\n}'
    return ours(box, IN_KERNEL, broken__c=module(body, "Linux-OpenIB"))


# --- resources


def disk_full(box: Sandbox, kernel: str) -> Stub:
    _room(box, 300)
    return DRIVER


def disk_full_late(box: Sandbox, kernel: str) -> Stub:
    """There is room for the source, and not for what is compiled from it."""
    _room(box, 1600)
    return DRIVER


def _room(box: Sandbox, kilobytes: int) -> None:
    """The scratch folder on a file system of its own; the sandbox unmounts it at its end."""
    at = box.path(SCRATCH)
    at.mkdir(parents=True, exist_ok=True)
    words = ("mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "gdr-full", str(at))
    subprocess.run(words, check=True)


# --- DKMS and signing


def dependency_missing(box: Sandbox, kernel: str) -> Stub:
    return ours(box, IN_KERNEL, 'BUILD_DEPENDS[0]="mlnx-ofa_kernel"\n', broken__c=module())


def keys_do_not_match(box: Sandbox, kernel: str) -> Stub:
    made = "openssl req -new -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=Site -outform DER"
    for name in ("one", "two"):
        box.shell(f"{made} -keyout /root/{name}.key -out /root/{name}.der 2>/dev/null")
    box.write(
        "/etc/dkms/framework.conf.d/site.conf",
        "mok_signing_key=/root/one.key\nmok_certificate=/root/two.der\n",
    )
    return ours(box, IN_KERNEL, broken__c=module())


def _edit(box: Sandbox, path: str, pattern: str, new: str) -> None:
    text, count = re.subn(pattern, new, box.read(path))
    assert count, (pattern, text)
    box.write(path, text)
