"""Whether something rebuilds nvidia-peermem when what it was built against changes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.evidence.board import BOARD, GPUS
from tests.evidence.build import DRIVER, KERNEL
from tests.evidence.frames import ABSENT, DENIED, MISSING, Override, failed
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Impact, Status
from toolkit.checks.kernel.rebuilding import HOOKS, PLUGIN
from toolkit.want import Modules, Want

PROGRAM = "runs /usr/lib/gdr-toolkit/rebuild\n"
AFTER = "text /etc/dkms/framework.conf.d/gdr-toolkit-rebuild.conf\n"
APT = "text /etc/apt/apt.conf.d/zz-gdr-toolkit\n"
DNF = "text /etc/dnf/plugins/post-transaction-actions.d/gdr-toolkit.action\n"
DNF_READS = "text /usr/lib/python3.9/site-packages/dnf-plugins/post-transaction-actions.py\n"
DNF5 = "runs /usr/bin/dnf5\ntext /etc/dnf/libdnf5-plugins/actions.d/gdr-toolkit.actions\n"
DNF5_READS = "runs /usr/lib64/libdnf5/plugins/actions.so\n"
ZYPPER = "runs /usr/lib/zypp/plugins/commit/gdr-toolkit\n"
POSTINST = "runs /etc/kernel/postinst.d/zz-gdr-toolkit\n"
KERNELS = f"{POSTINST}runs /etc/kernel/header_postinst.d/zz-gdr-toolkit\n"
INSTALL = "runs /etc/kernel/install.d/95-gdr-toolkit.install\n"
ROCKY = {"os-release": 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n'}
SUSE = {"os-release": 'ID="sles"\nVERSION_ID="15.6"\n'}
OLD_DKMS = {"dkms-version": "dkms-3.0.10\n"}
EVERYTHING = "an OFED update, a driver update, a new kernel"
UPDATES = "goes unnoticed: an OFED update, a driver update"
PREBUILT_OFED = {
    "dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n",
}


def there(*lines: str) -> dict[str, Override]:
    return {"rebuild-hooks": "".join(lines)}


NO_OWNER: dict[str, Override] = {
    "dkms-confs": f'nvidia-{DRIVER}/dkms.conf:PACKAGE_NAME="nvidia"\n'
    f'nvidia-{DRIVER}/dkms.conf:PACKAGE_VERSION="{DRIVER}"\n'
    f'nvidia-{DRIVER}/dkms.conf:BUILT_MODULE_NAME[0]="nvidia"\n'
}
NO_MODULE: dict[str, Override] = {
    "peermem-modinfo": "",
    "peermem-resolve": failed(1, "not found\n"),
}


def row(
    claim: str,
    status: Status,
    found: str,
    *frames: Mapping[str, Override],
    want: Want | None = None,
) -> Row:
    merged = {key: value for each in frames for key, value in each.items()}
    return Row(claim, "peermem.rebuild", status, found, merged, want=want or Want())


ROWS = [
    row("healthy", PASS, "/usr/lib/gdr-toolkit/rebuild, called by DKMS, new kernels"),
    row("old-dkms", PASS, "called by apt, new kernels", OLD_DKMS, there(PROGRAM, APT, KERNELS)),
    row(
        "ofed-not-by-dkms",
        PASS,
        "called by DKMS, apt, new kernels",
        PREBUILT_OFED,
        there(PROGRAM, AFTER, APT, KERNELS),
    ),
    row("rhel", PASS, "called by DKMS, new kernels", ROCKY, there(PROGRAM, AFTER, INSTALL)),
    row(
        "rhel-with-an-old-dkms",
        PASS,
        "called by dnf, new kernels",
        {**ROCKY, **OLD_DKMS},
        there(PROGRAM, DNF, DNF_READS, INSTALL),
    ),
    row(
        "fedora-with-dnf-5",
        PASS,
        "called by dnf5, new kernels",
        {**ROCKY, **OLD_DKMS},
        there(PROGRAM, DNF5, DNF5_READS, INSTALL),
    ),
    row(
        "dnf-5-does-not-read-the-hook-of-dnf",
        FAIL,
        UPDATES,
        {**ROCKY, **OLD_DKMS},
        there(PROGRAM, DNF, DNF_READS, "runs /usr/bin/dnf5\n", INSTALL),
    ),
    row(
        "dnf-5-without-its-plugin",
        FAIL,
        "dnf does not read its hook: no libdnf5-plugin-actions",
        {**ROCKY, **OLD_DKMS},
        there(PROGRAM, DNF5, INSTALL),
    ),
    row("suse", PASS, "called by zypper", {**SUSE, **OLD_DKMS}, there(PROGRAM, ZYPPER)),
    row("nothing-there", FAIL, f"goes unnoticed: {EVERYTHING}", there()),
    row("no-program", FAIL, EVERYTHING, there(AFTER, KERNELS)),
    row(
        "program-not-executable",
        FAIL,
        EVERYTHING,
        there(PROGRAM.replace("runs", "text"), AFTER, KERNELS),
    ),
    row("program-empty", FAIL, EVERYTHING, there(PROGRAM.replace("runs", "empty"), AFTER, KERNELS)),
    row("dkms-calls-nothing", FAIL, UPDATES, there(PROGRAM, KERNELS)),
    row(
        "dkms-would-call-nothing",
        FAIL,
        UPDATES,
        there(PROGRAM, AFTER.replace("text", "empty"), KERNELS),
    ),
    row("a-hook-of-the-newer-dkms", FAIL, UPDATES, OLD_DKMS, there(PROGRAM, AFTER, KERNELS)),
    row(
        "apt-does-not-see-a-prebuilt-ofed",
        FAIL,
        UPDATES,
        PREBUILT_OFED,
        there(PROGRAM, AFTER, KERNELS),
    ),
    row("no-kernel-hook", FAIL, "goes unnoticed: a new kernel", there(PROGRAM, AFTER)),
    row(
        "kernel-hook-not-executable",
        FAIL,
        "goes unnoticed: a new kernel",
        there(PROGRAM, AFTER, KERNELS.replace("runs", "text")),
    ),
    row("hooks-of-debian-on-rhel", FAIL, "a new kernel", ROCKY, there(PROGRAM, AFTER, KERNELS)),
    row("suse-without", FAIL, EVERYTHING, {**SUSE, **OLD_DKMS}, there(PROGRAM)),
    row(
        "dnf-without-its-plugin",
        FAIL,
        f"no {PLUGIN}",
        {**ROCKY, **OLD_DKMS},
        there(PROGRAM, DNF, INSTALL),
    ),
    row(
        "kept-from-building",
        FAIL,
        "/etc/dkms/no-autoinstall keeps them from building",
        {"dkms-tree": "/etc/dkms/no-autoinstall\n/var/lib/dkms/nvidia\n"},
    ),
    row("a-stub-that-dkms-is-to-take-over", FAIL, EVERYTHING, NO_OWNER, NO_MODULE, there()),
    row("could-not-look", UNKNOWN, "rebuild-hooks", {"rebuild-hooks": DENIED}),
    row("older-probe", UNKNOWN, "", {"rebuild-hooks": MISSING}),
    row("another-shape", UNKNOWN, "hooks: cannot read line 1", {"rebuild-hooks": "maybe /x\n"}),
    row("another-family", UNKNOWN, "alpine", {"os-release": "ID=alpine\nVERSION_ID=3.20\n"}),
    row("dkms-not-told", UNKNOWN, "", {"dkms-version": "no version\n"}),
    row("dmabuf", NA, "not part of the dmabuf path", there(), want=DMABUF),
    row("delivered", NA, "built elsewhere", there(), want=Want(modules=Modules.BUILT)),
    row(
        "inbox",
        NA,
        "inbox RDMA stack",
        {"ofed-info": ABSENT, "rdma-modinfo": "@ib_core\n", **PREBUILT_OFED},
        there(),
    ),
    row("no-dkms", NA, "no DKMS here", {"dkms-version": ABSENT, "dkms-status": ABSENT}, there()),
    row("prebuilt", NA, "comes as it was built, not by DKMS", NO_OWNER, there()),
    row("no-source", NA, "see peermem.file", {"dkms-confs": ""}, NO_MODULE, there()),
    Row("no-gpu", "peermem.rebuild", NA, "no NVIDIA GPU", there(), BOARD.without(*GPUS)),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_rebuilding(row: Row) -> None:
    holds(row)


def test_each_file_that_lacks_is_named() -> None:
    finding = judged(row("", FAIL, "", there(PROGRAM, POSTINST))).finding
    assert finding.details == (
        "/etc/dkms/framework.conf.d/gdr-toolkit-rebuild.conf: missing",
        "/etc/kernel/header_postinst.d/zz-gdr-toolkit: missing",
    )


def test_each_hook_is_asked_for_on_some_node() -> None:
    """Taken away from a node that has all of them, each is missed somewhere."""
    lines = f"{PROGRAM}{AFTER}{APT}{DNF}{DNF_READS}{ZYPPER}{KERNELS}{INSTALL}"
    nodes = [{**family, **old} for family in ({}, ROCKY, SUSE) for old in ({}, OLD_DKMS)]
    assert BY_ID["peermem.rebuild"].impact is Impact.FRAGILE
    for hook in HOOKS:
        has = f"{lines}{DNF5}{DNF5_READS}" if hook.id == "dnf5" else lines
        less = "".join(line for line in has.splitlines(keepends=True) if hook.path not in line)
        assert less != has
        assert FAIL in {judged(row("", FAIL, "", each, there(less))).status for each in nodes}
        assert {judged(row("", PASS, "", each, there(has))).status for each in nodes} == {PASS}
