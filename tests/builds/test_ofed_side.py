"""What we place about OFED, read by the real DKMS, depmod and systemd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.builds import stubs
from tests.builds.booted import Systemd
from tests.builds.sandbox import Sandbox
from toolkit.plan.artefacts_ofed import OFED, OFED_MODULES
from toolkit.plan.templates import render_path, render_text

pytestmark = pytest.mark.builds

TREES = ("bookworm", "trixie")  # DKMS 3.0 and 3.2
NONE: Mapping[str, str] = {}
MODULES = ["ib_core", "ib_uverbs", "irdma", "mlx_compat"]
# What DKMS looks at is its name and its version; what is in it is of no account here.
PEERMEM = ("nvidia-peermem", "535.261.03")


def place(box: Sandbox, artefact: str, values: Mapping[str, str] = NONE) -> None:
    """The file of an artefact, as a plan would place it."""
    row = next(each for each in OFED if each.id == artefact)
    text = render_text(row.template, values)
    box.write(render_path(row.path, values), text, row.mode)


@pytest.fixture(scope="module", params=TREES)
def prepared(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A tree with OFED, and our package, built for its kernel by DKMS, installed for none."""
    with Sandbox.of(request.param) as box:
        # Its thousands of modules are nobody's business here, and depmod reads them all.
        box.shell('rm -rf "/lib/modules/$K/kernel"', K=kernel_of(box))
        for package, version in (("mlnx-ofed-kernel", "25.10"), PEERMEM):
            ofed = stubs.ofed(box, version, package=package)
            conf = f"/usr/src/{package}-{version}/dkms.conf"  # new kernels do without it
            box.write(conf, box.read(conf).replace("AUTOINSTALL=yes\n", ""))
            box.run("dkms", "add", ofed.name)
            box.run("dkms", "build", ofed.name, "-k", kernel_of(box))
        yield box


@pytest.fixture
def box(prepared: Sandbox) -> Iterator[Sandbox]:
    with prepared.branch() as own:
        yield own


def kernel_of(box: Sandbox) -> str:
    return box.kernels[0]


def built(box: Sandbox, module: str) -> str:
    """Where DKMS keeps what it built."""
    at = "/var/lib/dkms/mlnx-ofed-kernel"
    return box.shell('find "$A" -path "*/module/$M.ko*"', A=at, M=module).out.strip()


def resolved(box: Sandbox, module: str) -> str:
    """The file that modprobe would load, below the kernel's folder."""
    told = box.run("modprobe", "-S", kernel_of(box), "--show-depends", module).out
    return told.strip().split("\n")[-1].split()[1].partition(f"/{kernel_of(box)}/")[2]


# --- depmod ---------------------------------------------------------------------------


@pytest.mark.parametrize("placed", [True, False], ids=["with-our-file", "without"])
def test_depmod_takes_ofed_before_inbox_by_our_file_alone(box: Sandbox, placed: bool) -> None:
    """In the order that some site has given depmod, the kernel's own would come first."""
    kernel = kernel_of(box)
    for module in ("ib_core", "ib_uverbs"):
        for folder in ("kernel/drivers/infiniband/core", "updates/dkms"):
            box.shell(
                'mkdir -p "/lib/modules/$K/$D" && rm -f "/lib/modules/$K/$D/$M".ko*'
                ' && cp "$F" "/lib/modules/$K/$D/"',
                K=kernel, D=folder, M=module, F=built(box, module),
            )  # fmt: skip
    box.write("/etc/depmod.d/site.conf", "search built-in updates\n")
    if placed:
        place(box, "ofed.depmod", {"folder": "updates/dkms", "modules": OFED_MODULES})
    box.run("depmod", "-a", kernel)
    first = "updates/dkms" if placed else "kernel/drivers/infiniband/core"
    assert resolved(box, "ib_core").startswith(f"{first}/ib_core.ko")
    assert resolved(box, "ib_uverbs").startswith(f"{first}/ib_uverbs.ko")


def test_a_kernel_without_ofed_keeps_its_own(box: Sandbox) -> None:
    kernel = kernel_of(box)
    box.shell(
        'mkdir -p "/lib/modules/$K/kernel/x" && rm -rf "/lib/modules/$K/updates"'
        ' && find "/lib/modules/$K" -name "ib_core.ko*" -delete'
        ' && cp "$F" "/lib/modules/$K/kernel/x/"',
        K=kernel, F=built(box, "ib_core"),
    )  # fmt: skip
    place(box, "ofed.depmod", {"folder": "updates/dkms", "modules": OFED_MODULES})
    box.run("depmod", "-a", kernel)
    assert resolved(box, "ib_core").startswith("kernel/x/ib_core.ko")


# --- DKMS -----------------------------------------------------------------------------


def installed(box: Sandbox) -> list[str]:
    """Which of OFED's modules lie where DKMS installs them."""
    at = f"/lib/modules/{kernel_of(box)}/updates/dkms"
    told = box.shell('[ ! -d "$A" ] || ls "$A"', A=at).out.split()
    return sorted(name.partition(".")[0] for name in told)


def fragment(package: str = "mlnx-ofed-kernel", patches: str = "") -> dict[str, str]:
    vendor, _, rest = package.partition("-of")
    return {"vendor": vendor, "rest": rest, "ofed_dkms": package, "patches": patches}


def heeds_fragments(box: Sandbox) -> bool:
    """DKMS 3.0 does not look into /etc/dkms when it decides what a new kernel gets."""
    return "dkms-3.0." not in box.run("dkms", "--version").out


@pytest.mark.parametrize("placed", [True, False], ids=["with-our-file", "without"])
def test_dkms_builds_ofed_for_new_kernels_by_our_fragment(box: Sandbox, placed: bool) -> None:
    if placed:
        place(box, "ofed.dkms", fragment())
    box.run("dkms", "autoinstall", "-k", kernel_of(box), check=False)
    built = placed and heeds_fragments(box)
    assert installed(box) == (MODULES if built else [])
    if placed:  # asked for by name, every DKMS reads it
        box.run("dkms", "install", "mlnx-ofed-kernel/25.10", "-k", kernel_of(box), check=built)
        assert installed(box) == MODULES


def test_before_3_4_dkms_has_no_place_for_the_sites_patches(box: Sandbox) -> None:
    """So the fragment names none there: DKMS would stop at a patch that it does not find."""
    box.write("/etc/dkms/mlnx-ofed-kernel/patches/site.patch", "--- a\n+++ b\n")
    place(box, "ofed.dkms", fragment(patches="yes"))
    rebuilt = ("dkms", "build", "--force", "mlnx-ofed-kernel/25.10", "-k", kernel_of(box))
    refused = box.run(*rebuilt, check=False)
    assert refused.status == 5, refused.out
    assert "site.patch" in refused.out
    place(box, "ofed.dkms", fragment())
    assert box.run(*rebuilt).status == 0


@pytest.mark.parametrize("placed", [True, False], ids=["with-our-file", "without"])
def test_a_precompiled_module_of_the_same_version_gives_way(box: Sandbox, placed: bool) -> None:
    """DKMS takes both for the same: it ends well, says "installed", and has left the other."""
    kernel, own = kernel_of(box), "/".join(PEERMEM)
    box.shell(
        'mkdir -p "/lib/modules/$K/kernel/y" && cd "/lib/modules/$K/kernel/y"'
        ' && cp "/var/lib/dkms/$P/$K"/*/module/ib_core.ko* .',
        K=kernel, P=own,
    )  # fmt: skip
    if placed:
        place(box, "ofed.force")
    done = box.run("dkms", "install", own, "-k", kernel, check=False)
    assert ("ib_core" in installed(box)) is placed, done.out
    assert done.status == 0
    told = box.run("dkms", "status", own).out
    assert ": installed" in told
    assert ("Diff" in told) is not placed


# --- systemd ----------------------------------------------------------------------------

LOG = "/run/openibd.log"
UNIT = f"""\
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'echo openibd start >>{LOG}'
ExecStop=/bin/sh -c 'echo openibd stop >>{LOG}'
"""


@pytest.fixture
def machine() -> Iterator[Sandbox]:
    """A tree with systemd, a stand-in for openibd, and commands that only take notes."""
    with Sandbox.of("trixie") as box:
        box.write("/etc/systemd/system/openibd.service", UNIT)
        for name in ("rmmod", "modprobe"):
            text = f'#!/bin/sh\necho {name} "$@" >>{LOG}\n! [ -e /run/refuse-{name} ]\n'
            box.write(f"/usr/local/sbin/{name}", text, 0o755)
        # What no test needs would take seconds to start.
        for name in ("sysinit", "basic"):
            box.shell('rm -rf "/usr/lib/systemd/system/$N.target.wants"', N=name)
            box.write(f"/etc/systemd/system/{name}.target", "[Unit]\nDefaultDependencies=no\n")
        yield box


def with_peers(box: Sandbox) -> None:
    for artefact in ("openibd.peers", "openibd.unit", "openibd.drop-in"):
        place(box, artefact)


def test_the_units_are_what_systemd_takes(machine: Sandbox) -> None:
    with_peers(machine)
    units = ("openibd.service", "gdr-toolkit-peers.service")
    done = machine.run("systemd-analyze", "verify", "--man=no", *units, check=False)
    assert done.status == 0, done.out
    assert "gdr-toolkit" not in done.out, done.out


def log_of(systemd: Systemd) -> list[str]:
    return systemd.run("cat", LOG, check=False).out.strip().split("\n")


def loaded(systemd: Systemd, *modules: str) -> None:
    for module in modules:
        systemd.run("mkdir", "-p", f"/sys/module/{module}")


def test_a_restart_of_openibd_takes_its_peers_out_and_brings_them_back(machine: Sandbox) -> None:
    with_peers(machine)
    with Systemd(machine) as systemd:
        systemd.run("systemctl", "start", "openibd")
        systemd.wait_for(lambda: "modprobe nvidia-peermem" in log_of(systemd), "never loaded")
        loaded(systemd, "nvidia_peermem", "nvidia_fs")
        systemd.run("rm", LOG)
        systemd.run("systemctl", "restart", "openibd")
        systemd.wait_for(lambda: len(log_of(systemd)) >= 6, "not all brought back")
        assert log_of(systemd) == [
            "rmmod nvidia_fs",
            "rmmod nvidia_peermem",
            "openibd stop",
            "openibd start",
            "modprobe nvidia-fs",
            "modprobe nvidia-peermem",
        ]


def test_a_peer_in_use_stays_and_openibd_goes_on(machine: Sandbox) -> None:
    with_peers(machine)
    with Systemd(machine) as systemd:
        systemd.run("systemctl", "start", "openibd")
        systemd.wait_for(lambda: "modprobe nvidia-peermem" in log_of(systemd), "never loaded")
        loaded(systemd, "nvidia_peermem")
        systemd.run("touch", "/run/refuse-rmmod", "/run/refuse-modprobe")
        systemd.run("rm", LOG)
        assert systemd.run("systemctl", "restart", "openibd").status == 0
        systemd.wait_for(lambda: len(log_of(systemd)) >= 4, "not all tried")
        assert log_of(systemd) == [
            "rmmod nvidia_peermem",
            "openibd stop",
            "openibd start",
            "modprobe nvidia-peermem",
        ]
        assert systemd.run("systemctl", "is-active", "openibd").out.strip() == "active"


def test_without_them_openibd_is_stopped_under_its_peers(machine: Sandbox) -> None:
    with Systemd(machine) as systemd:
        systemd.run("systemctl", "start", "openibd")
        loaded(systemd, "nvidia_peermem")
        systemd.run("systemctl", "restart", "openibd")
        assert log_of(systemd) == ["openibd start", "openibd stop", "openibd start"]


def test_the_link_for_arm_is_made_and_nothing_is_overwritten(machine: Sandbox) -> None:
    place(machine, "ofed.links", {"kernels": "6.8.0-1-arm64 6.8.0-2-arm64"})
    machine.write("/usr/src/ofa_kernel/aarch64/6.8.0-1-arm64/Module.symvers", "x\n")
    machine.write("/usr/src/ofa_kernel/6.8.0-2-arm64/Module.symvers", "somebody else's\n")
    machine.run("systemd-tmpfiles", "--create", "/etc/tmpfiles.d/gdr-toolkit.conf", check=False)
    assert machine.read("/usr/src/ofa_kernel/6.8.0-1-arm64/Module.symvers") == "x\n"
    assert machine.path("/usr/src/ofa_kernel/6.8.0-1-arm64").is_symlink()
    kept = machine.read("/usr/src/ofa_kernel/6.8.0-2-arm64/Module.symvers")
    assert kept == "somebody else's\n"
