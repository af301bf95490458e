"""How much memory may be locked, in all forms in which shells, tools and files say it."""

from __future__ import annotations

from random import Random

import pytest

from tests.checks.test_told_otherwise import CHECKS, TEXTS, read, status
from toolkit.checks.check import Status
from toolkit.facts.node.node import Node
from toolkit.want import Want

FAIL, UNKNOWN = Status.FAIL, Status.UNKNOWN


# bash builtins/ulimit.def of 4.2 and 5.2; zsh Src/Builtins/rlimits.c and rlimits.awk; busybox and
# dash; tcsh; fish; util-linux sys-utils/prlimit.c; Linux fs/proc/base.c, proc_pid_limits.
def limited(draw: Random, kib: int | None) -> str:
    value = "unlimited" if kib is None else str(kib)
    size = "unlimited" if kib is None else str(kib * 1024)
    csh = value if kib is None else draw.choice((f"{kib}kB", f"{kib} kbytes"))
    hard = draw.choice((size, "unlimited"))
    systemd = "infinity" if kib is None else size
    return draw.choice(
        (
            f"$ ulimit -{draw.choice(('l', 'Sl', 'Hl'))}\n{value}\n",
            f"$ docker run --rm --ulimit nofile=9 image bash -c 'ulimit -l'\n{value}\n",
            "pending signals                 (-i) 127368\n"
            f"max locked memory       (kbytes, -l) {value}\n"
            "max memory size         (kbytes, -m) unlimited\n",
            "file size                   (blocks, -f) 77\n"
            f"max locked memory           (kbytes, -l) {value}\n",
            f"-t: cpu time (seconds)         7\n-l: locked-in-memory size (kb) {value}\n",
            f"-l: locked-in-memory size (kbytes)  {value}\n-u: processes 9\n",
            f"-l: locked memory (kb)             {value}\n-p: processes 99\n",
            f"memory(kbytes)       77\nlocked memory(kbytes) {value}\nprocess              9\n",
            f"memoryuse       77kB\nmemorylocked    {csh}\n",
            f"Maximum size that may be locked into memory                 (kB, -l) {value}\n",
            "RESOURCE   DESCRIPTION                             SOFT      HARD UNITS\n"
            f"MEMLOCK    max locked-in-memory address space {size:>9} {hard:>9} bytes\n",
            "Limit                     Soft Limit           Hard Limit           Units     \n"
            f"Max locked memory         {size:<20} {hard:<20} bytes     \n",
            "$ grep memlock /etc/security/limits.conf\n"
            f"* {draw.choice(('soft', '-'))} memlock {value}\n",
            f"/etc/security/limits.d/rdma.conf:*\tsoft\tmemlock\t{value}\n",
            f"{draw.choice(('Default', ''))}LimitMEMLOCK={systemd}\n",
        )
    )


def test_a_limit_is_told_in_every_form() -> None:
    draw = Random(71)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        kib = draw.choice((None, 64, 8192, 65536, 1 << 21))
        text = limited(draw, kib)
        short = kib is not None and kib < 1 << 20
        assert status("rdma.memlock", text) is (FAIL if short else UNKNOWN), text
        assert "nvidia" not in str(read(text).frames), text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            "$ cat /etc/security/limits.conf\n#* soft memlock 64\n@rdma hard memlock unlimited\n",
            "logins of @rdma at most: unlimited; others are not told",
            id="a-comment-and-a-group",
        ),
        pytest.param(
            "$ ulimit -l\nunlimited\n$ ulimit -n\n1024\n",
            "a shell: unlimited; others are not told",
            id="another-limit-beside-it",
        ),
        pytest.param(
            "$ grep memlock /etc/security/limits.conf\n", "limits-said: not part", id="no-line"
        ),
    ],
)
def test_what_a_text_of_limits_leaves_open(text: str, told: str) -> None:
    if "not part" in told:
        assert status("rdma.memlock", text + "$ uname -r\n6.8.0-1-generic\n") is UNKNOWN
    else:
        assert CHECKS["rdma.memlock"](Node(read(text)), Want()).finding.found == told
