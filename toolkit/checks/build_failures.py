"""What a failed build says, what it means, and what mends it.

Sources: NVIDIA/open-gpu-kernel-modules conftest.sh and Makefiles; dkms; scripts/mod/modpost.c;
lab builds; issues of the projects named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cause:
    """One row: words of a log, what they mean, what to do."""

    pattern: str  # regular expression; quotes are plain in what it is held against
    cause: str
    action: str


# The first row that matches counts: causes before what follows from them.
CAUSES = (
    Cause(
        r"kernel headers for kernel \S+ cannot be found|kernel source.*cannot be found",
        "the headers of that kernel are missing",
        "install the headers of that kernel, then dkms autoinstall -k KERNEL",
    ),
    Cause(
        r"(?:g\+\+|c\+\+): (?:command )?(?:not found|No such file)",
        "g++ is missing",
        "install g++ (gcc-c++ on RHEL and SUSE)",
    ),
    Cause(
        r"unrecognized command[- ]line option|error: unknown argument: '-f",
        "the compiler is older than, or another than, the one that built the kernel",
        "install the compiler that CONFIG_CC_VERSION_TEXT names, and build with it",
    ),
    Cause(
        r"Unable to locate the compiler|gcc(?:-\d+)?: (?:command )?not found|cc: not found",
        "the compiler that built the kernel is missing",
        "install the compiler that CONFIG_CC_VERSION_TEXT names",
    ),
    Cause(
        r"Failed CC sanity check",
        "the compiler cannot compile: C library headers are missing, or plugins differ",
        "install gcc as CONFIG_CC_VERSION_TEXT names it, and the C library's headers",
    ),
    Cause(
        r"Failed PREEMPT_RT sanity check",
        "the kernel is a real-time one, which the driver refuses",
        "boot a kernel without PREEMPT_RT",
    ),
    Cause(
        r"Module\.symvers file is missing, or does not contain",
        "the headers of that kernel are incomplete: their Module.symvers is empty",
        "install the headers of that kernel anew",
    ),
    Cause(
        r"/var/lib/dkms/mlnx-ofed-kernel/Module\.symvers: No such file"
        r"|No rule to make target '/var/lib/dkms/mlnx-ofed-kernel/Module\.symvers'",
        "a leftover of OFED in /var/lib/dkms is taken for OFED",
        "rm -r /var/lib/dkms/mlnx-ofed-kernel, then build again",
    ),
    Cause(
        r"Module\.symvers: No such file or directory|No rule to make target '\S*/Module\.symvers'",
        "the OFED folder that the build chose has no Module.symvers",
        "see ofed.headers_link: build OFED for that kernel, or remove the empty folder",
    ),
    Cause(
        r"\bnvidia_p2p_\w+\W.* undefined!",
        "nvidia-peermem was built alone, without the driver's symbols",
        "build it with the driver, or with the driver's Module.symvers in KBUILD_EXTRA_SYMBOLS",
    ),
    Cause(
        r"\bib_(?:un)?register_peer_memory_client\W.* undefined!",
        "conftest found OFED in one folder, and the linker looked in another",
        "see ofed.headers_link, then build again",
    ),
    Cause(
        r"(?<!\w)/Kbuild: No such file|No rule to make target '/Kbuild'",
        "dkms.conf calls make without quotes, and DKMS rewrites that call",
        "write 'make' in quotes in dkms.conf",
    ),
    Cause(
        r"GPL-incompatible module|missing MODULE_LICENSE|modpost: GPL",
        "the module's licence does not go with the kernel's GPL-only symbols",
        "take a newer driver, or its open modules",
    ),
    Cause(
        r"dpll_\w+.*error|error:.*\bdpll_|struct dpll_",
        "OFED is older than the kernel's dpll interface (EL 9.8 with DOCA 3.2)",
        "install DOCA-OFED 3.5 or newer",
    ),
    Cause(
        r"implicit declaration of function|has no member named|too (?:few|many) arguments to"
        r"|incompatible pointer type|undeclared \(first use|conflicting types for",
        "the kernel is newer than this driver or OFED supports",
        "update the driver or OFED to one that supports the kernel, or stay on the old kernel",
    ),
    Cause(
        r"objtool:.*(?:naked return|modified stack).*error|OBJTOOL_WERROR",
        "objtool's warnings are errors on that kernel",
        "update the driver",
    ),
    Cause(
        r"Key was rejected by service|Required key not available",
        "the module is unsigned, or signed with a key that is not enrolled",
        "enrol the key: mokutil --import",
    ),
    Cause(
        r"Killed signal terminated program|fatal error: Killed|\bcc1\b.*\bKilled\b",
        "the compiler was killed: most likely the node ran out of memory",
        "free memory, or build with fewer jobs: dkms build -j 2 MODULE/VERSION -k KERNEL",
    ),
    Cause(r"No space left on device", "the disk is full", "make room in /var and /lib/modules"),
    Cause(
        r"Bad return status for module build on kernel",
        "the compilation failed; what DKMS printed does not say why",
        "read the make.log that it names; see dkms.last_failure on the node itself",
    ),
)
# Lines that stand in good logs too.
_NOISE = re.compile(
    r"compiler differs from the one used|You are using:|The kernel was built by:"
    r"|Skipping BTF generation|pahole|libkmod: ERROR|ignoring bad line|bad exit status: 0"
    r"|warning: |^make.*(?:Entering|Leaving) directory|apport|-Werror|dkms\.conf: .*No such"
)
_FAILED = re.compile(
    r"\berror\b|\*\*\*|undefined!|Error!|\bFATAL\b|fatal error|Bailing out|exit code: [1-9]",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"DKMS: (?:install|build) completed|^\s*LD \[M\]|Building module\(s\)\.* *done"
    r"|exit code: 0|depmod\.+ *(?:done\.?)?$",
    re.MULTILINE,
)


def cause_of(lines: Iterable[str]) -> tuple[Cause, str] | None:
    """The row that a log matches, and the line that does; None where none does."""
    kept = [_plain(line) for line in lines]
    kept = [line for line in kept if not _NOISE.search(line)]
    for row in CAUSES:
        for line in kept:
            if re.search(row.pattern, line):
                return row, line.strip()
    return None


def telling(lines: Iterable[str]) -> str:
    """The first line that speaks of an error, noise apart; "" for none."""
    plain = (_plain(line) for line in lines)
    return next(
        (one.strip() for one in plain if _FAILED.search(one) and not _NOISE.search(one)), ""
    )


def completed(lines: Iterable[str]) -> bool:
    """Whether the log says itself that something was built."""
    return _DONE.search("\n".join(lines)) is not None


def _plain(line: str) -> str:
    """gcc quotes typographically where the locale lets it."""
    return line.translate(str.maketrans("\u2018\u2019\u201c\u201d`", "''\"\"'"))
