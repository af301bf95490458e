"""What DKMS does by itself, and so why nodes rebuild in another way than it offers."""

from __future__ import annotations

import pytest

from tests.builds import stubs
from tests.builds.layers import stack
from tests.builds.nodeside import (
    AFTER,
    DRIVER,
    OFED,
    PEERMEM_SOURCE,
    REBUILD,
    TREES,
    VERSION,
    installed,
    kernel_of,
    loadable,
    module,
    node,
)
from toolkit.plan.templates import render_text

pytestmark = pytest.mark.builds
LONG = True


def test_dkms_itself_uninstalls_before_it_rebuilds_a_dependant() -> None:
    """The reason for not setting BUILD_DEPENDS_REBUILD: it costs the good module, and the
    update of OFED its success.
    """
    with node("trixie") as box:
        kernel = kernel_of(box)
        box.run("rm", "-f", AFTER)
        box.write("/etc/dkms/nvidia-peermem.conf", 'BUILD_DEPENDS_REBUILD="yes"\n')
        with box.path(PEERMEM_SOURCE).open("a") as source:
            source.write("#error this kernel is too new\n")
        stub = stubs.ofed(box, "26.01")
        box.run("dkms", "build", stub.name, "-k", kernel)
        assert box.run("dkms", "install", stub.name, "-k", kernel, check=False).status != 0
        assert (OFED, "26.01", kernel) in installed(box)
        assert ("nvidia-peermem", VERSION, kernel) not in installed(box)
        assert not loadable(box, kernel)


@pytest.mark.parametrize("name", TREES)
def test_what_dkms_makes_of_a_gate_that_says_no(name: str) -> None:
    """The reason for a gate within MAKE: 3.0 passes over POST_BUILD, 3.2 keeps what it built."""
    with node(name) as box:
        kernel = kernel_of(box)
        box.write("/usr/src/gated-1/Kbuild", "obj-m := gated.o\n")
        box.write(
            "/usr/src/gated-1/gated.c",
            '#include <linux/module.h>\nMODULE_LICENSE("GPL");\n',
        )
        box.write("/usr/src/gated-1/no.sh", "#!/bin/sh\nexit 1\n", 0o755)
        box.write(
            "/usr/src/gated-1/dkms.conf",
            'PACKAGE_NAME="gated"\nPACKAGE_VERSION="1"\nBUILT_MODULE_NAME[0]="gated"\n'
            'DEST_MODULE_LOCATION[0]="/updates"\nPOST_BUILD="no.sh"\n',
        )
        box.run("dkms", "add", "gated/1")
        done = box.run("dkms", "build", "gated/1", "-k", kernel, check=False)
        assert (done.status == 0) is (name == "bookworm")
        assert f"gated/1, {kernel}, x86_64: built" in box.run("dkms", "status").out


@pytest.mark.parametrize("name", TREES)
def test_a_stub_of_the_whole_driver_costs_neither_peermem_nor_the_driver(name: str) -> None:
    with stack(name, peermem=True) as box:
        kernel = box.kernel("6.1." if name == "bookworm" else "6.")
        box.write(REBUILD, render_text("dkms/rebuild.sh.j2", {}), 0o755)
        values = {"package": DRIVER, "ofed_dkms": OFED}
        box.write(f"/etc/dkms/{DRIVER}.conf", render_text("dkms/driver.conf.j2", values))
        before = module(box, kernel, f"{DRIVER}-peermem")
        assert before.crcs
        # OFED's folder is there, and what clients of peer memory need is not.
        symvers = stubs.exported(kernel)
        box.run("sed", "-i", "/ib_register_peer/d", symvers)
        for verb in ("build", "install"):
            box.run("dkms", verb, f"{DRIVER}/{VERSION}", "-k", kernel, "--force")
        after = module(box, kernel, f"{DRIVER}-peermem")
        assert after.sha256 == before.sha256
        assert (DRIVER, VERSION, kernel) in installed(box)
