"""Is nvidia-peermem loaded at boot, by whatever a site does it with?"""

from __future__ import annotations

import pytest

from tests.evidence.frames import DENIED
from tests.evidence.judging import FAIL, PASS, UNKNOWN, Row, holds, name

ROWS = [
    Row("modules-load", "peermem.autoload", PASS, "/etc/modules-load.d/nvidia-peermem.conf"),
    Row(
        "etc-modules",
        "peermem.autoload",
        PASS,
        "/etc/modules",
        {"modules-load": "", "etc-modules": "# x\nnvidia_peermem peerdirect_support=0\n"},
    ),
    Row(
        "softdep",
        "peermem.autoload",
        PASS,
        "softdep nvidia",
        {"modules-load": "", "modprobe-config": "softdep nvidia post: nvidia-uvm nvidia-peermem\n"},
    ),
    Row(
        "softdep-before-is-another-thing",
        "peermem.autoload",
        FAIL,
        "nothing loads it",
        {"modules-load": "", "modprobe-config": "softdep nvidia pre: nvidia-peermem\n"},
    ),
    Row(
        "by-debians-name",
        "peermem.autoload",
        PASS,
        "a.conf",
        {"modules-load": "/etc/modules-load.d/a.conf:nvidia-current-peermem\n"},
    ),
    Row(
        "with-the-driver",
        "peermem.autoload",
        PASS,
        "install nvidia",
        {
            "modules-load": "",
            "modprobe-config": "install nvidia modprobe -i nvidia && modprobe nvidia-peermem\n",
        },
    ),
    Row(
        "debians-own-line-loads-nothing",
        "peermem.autoload",
        FAIL,
        "nothing loads it",
        {
            "modules-load": "",
            "modprobe-config": "install nvidia_peermem modprobe -i nvidia-current-peermem\n",
        },
    ),
    Row("nothing", "peermem.autoload", FAIL, "nothing loads it at boot", {"modules-load": ""}),
    Row(
        "commented-out",
        "peermem.autoload",
        FAIL,
        "nothing loads it",
        {"modules-load": "/etc/modules-load.d/a.conf:#nvidia-peermem\n"},
    ),
    Row(
        "hidden-by-a-file-in-etc",
        "peermem.autoload",
        FAIL,
        "nothing loads it",
        {
            "modules-load": "/etc/modules-load.d/a.conf:# off\n"
            "/usr/lib/modules-load.d/a.conf:nvidia-peermem\n"
        },
    ),
    Row("not-read", "peermem.autoload", UNKNOWN, "permission", {"modules-load": DENIED}),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_loading_at_boot(row: Row) -> None:
    holds(row)
