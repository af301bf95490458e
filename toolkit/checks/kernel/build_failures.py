"""What a failed build says, what it means, and what mends it.

The rows are data: toolkit/compat/data/build_failures.toml for what logs say, toolkit/compat/data/
dkms_exits.toml for how dkms ends; a site's file replaces them by id, or adds some.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from toolkit.compat.reader import Compat, DkmsExit, Failure, shipped
from toolkit.facts.modules.refusals import parse_refusals
from toolkit.facts.node.node import Node

# Lines that stand in good logs too.
_NOISE = re.compile(
    r"compiler differs from the one used|You are using:|The kernel was built by:"
    r"|Skipping BTF generation|pahole|libkmod: ERROR|ignoring bad line|bad exit status: 0"
    # Names of files in kbuild's short commands, and what gcc quotes below a warning.
    r"|^\s*(?:CC|LD|AR|AS|MODPOST|BTF|STRIP|INSTALL|SIGN|DEPMOD|HOSTCC|HOSTLD|SYMLINK|XZ|ZSTD|GZIP)"
    r" +(?:\[M\] +)?\S+$|^\s*CONFTEST: |^\s*\d*\s+\|(?: |$)|: note: |: In function '"
    r"|warning: |^make.*(?:Entering|Leaving) directory|apport|dkms\.conf: .*No such"
    r"|ERROR: Cannot create report: |^dpkg: error processing "
    r"|package (?:pre|post)-\w+ script subprocess "
    # Commands as "make V=1" shows them: their options speak of errors.
    r"|^\s*(?:\S*/)?(?:[\w.]+-)*(?:gcc|g\+\+|cc|clang|ld|objtool|objcopy)(?:-[\d.]+)? +-"
    r"|^\s*\w*(?:FLAGS|INCLUDE|CMD)="
    r"|^\s*(?:# command: |set -e|if \[|for |make -[fC] |\(cat |echo |env )"
)
_FAILED = re.compile(
    r"\berror\b|\*\*\*|undefined!|Error!|\bFATAL\b|fatal error|Bailing out|exit code: [1-9]"
    r"|autoinstall on \S+ failed for",
    re.IGNORECASE,
)
# By which DKMS says that make failed; make's own line says more, and may come behind it.
_OF_DKMS = re.compile(r"^Error! Bad return status for module build")
_AT_LAST = re.compile(r"NVRM: loading NVIDIA UNIX")
_LONGEST = 1000  # characters of a line that are looked at
_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d`", "''\"\"'")
_DONE = re.compile(
    r"DKMS: (?:install|build) completed|^\s*LD \[M\]|Building module\(s\)\.* *done"
    r"|already installed on kernel \S+ \(\w+\), skip"
    r"|exit code: 0|depmod\.+ *(?:done\.?)?$",
    re.MULTILINE,
)


class Explained(Struct, frozen=True):
    """Why a build failed, as far as it can be told."""

    found: str  # one sentence; never a bare exit status
    cause: str  # of the catalogue; "" where no row tells one
    action: str  # what to do about it; "" where nothing is known
    line: str  # the line of the log that says it; "" where none does
    excluded: bool = False  # the package does not want that kernel: no failure


def cause_of(lines: Iterable[str], compat: Compat | None = None) -> tuple[Failure, str] | None:
    """The row that a log matches, and the line that does; None where none does."""
    kept = [_plain(line) for line in lines]
    kept = [line for line in dict.fromkeys(kept) if not _NOISE.search(line)]
    for row in _ordered((compat or shipped()).build_failures):
        pattern = re.compile(row.pattern)
        found = next((line for line in kept if pattern.search(line)), None)
        # What a package manager prints is of many modules: one that is not wanted for this
        # kernel does not excuse another that failed.
        others = (line for line in kept if not pattern.search(line))
        if found is None or (row.excluded and telling(others)):
            continue
        return row, found.strip()
    return None


@lru_cache(maxsize=4)
def _ordered(rows: tuple[Failure, ...]) -> tuple[Failure, ...]:
    """Rows that tell why before those that tell only that; a site's own stand behind ours.

    That a module is not wanted comes between: any failure counts before it.
    """
    return tuple(sorted(rows, key=lambda row: (row.last, row.excluded)))


def explain(
    lines: Sequence[str],
    status: int = 0,
    dkms: str = "",
    *,
    kernel: str = "",
    module: str = "",
    compat: Compat | None = None,
) -> Explained:
    """Why a build failed: by its log, else by how dkms ended.

    :param lines: what the build printed, the make.log included.
    :param status: what dkms ended with; 0 where that is not known.
    :param dkms: its version; "" where that is not known.
    :param kernel: kernel release, for the action; "" where that is not known.
    :param module: "MODULE/VERSION" as DKMS calls it, likewise.
    """
    why = _explained(lines, status, dkms_exit(status, dkms, compat), cause_of(lines, compat))
    action = re.sub(r"\bKERNEL\b", lambda _: kernel or "KERNEL", why.action)
    return replace(why, action=action.replace("MODULE/VERSION", module or "MODULE/VERSION"))


def _explained(
    lines: Sequence[str], status: int, ended: DkmsExit | None, matched: tuple[Failure, str] | None
) -> Explained:
    said = telling(lines)
    excluded = ended is not None and ended.excluded
    if matched is not None and not (matched[0].last and said not in ("", matched[1])):
        row, line = matched
        return Explained(row.cause, row.cause, row.action, line, row.excluded or excluded)
    action = matched[0].action if matched is not None else ended.action if ended else ""
    if said:
        return Explained(f"the build stopped: {said}", "", action, said, excluded)
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    bare = f"the build ended with status {status}" if status else "the build stopped"
    found = ended.found if ended is not None else bare
    heard = f"its last words: {last}" if last else "it printed nothing"
    cause = ended.found if ended is not None else ""
    return Explained(f"{found}; {heard}", cause, action, last, excluded)


def dkms_exit(status: int, version: str = "", compat: Compat | None = None) -> DkmsExit | None:
    """What an exit status of dkms means.

    :param version: of dkms; where it is not known, what the status means today.
    :returns: None for a status that no version of dkms is known to end with, and for 0.
    """
    rows = [row for row in (compat or shipped()).dkms_exits if row.status == status]
    if not version:
        return rows[-1] if rows else None
    return next((row for row in rows if row.covers(version)), None)


def why_not_inserted(node: Node, modules: Collection[str]) -> tuple[str, Failure] | None:
    """What the last loader that was refused one of these modules was told, and what it means.

    :returns: None where none was, or where the kernel's own words are judged by other checks:
        signatures by module.signed, symbols by peermem.unknown_symbol; or where the log shows it
        at work, whatever was refused before.
    """
    told = [each for each in node.not_inserted if each.module in modules]
    if not told:
        return None
    last = told[-1]
    row = loading_cause([last.line])
    if row is None or row.id == "load-rejected":
        return None
    if node.has_log:
        log = parse_refusals(node.dmesg)
        since = any(_AT_LAST.search(line) for line in node.dmesg) and "nvidia" in modules
        if log.any or log.at_work or since:
            return None
    if last.words.startswith("depmod: "):
        return f"{last.module} would be refused: {last.words}", row
    return f"{last.module} could not be inserted: {last.words}", row


def loading_cause(lines: Iterable[str]) -> Failure | None:
    """What the words of the kernel or of a loader of modules mean: one row a cause."""
    rows = [row for row in _ordered(shipped().build_failures) if row.kind == "loading"]
    kept = [_plain(line).rstrip() for line in lines]
    return next((row for row in rows if any(re.search(row.pattern, e) for e in kept)), None)


def telling(lines: Iterable[str]) -> str:
    """The first line that speaks of an error, noise apart; "" for none."""
    plain = (_plain(line) for line in lines)
    told = [one.strip() for one in plain if _FAILED.search(one) and not _NOISE.search(one)]
    return next((one for one in told if not _OF_DKMS.search(one)), told[0] if told else "")


def completed(lines: Iterable[str]) -> bool:
    """Whether the log says itself that something was built."""
    return _DONE.search("\n".join(lines)) is not None


def _plain(line: str) -> str:
    """gcc quotes typographically where the locale lets it; commands of make fill megabytes."""
    return line[:_LONGEST].translate(_QUOTES)
