"""What DKMS has built, from ``dkms status``, and what its packages say of themselves.

Source: dkms, functions do_status and show_status. The shapes of one line:

    nvidia/550.90.07: added
    nvidia/550.90.07, 6.8.0-45-generic, x86_64: installed (Differences between built ...)
    nvidia, 550.90.07, 5.14.0-427.el9, x86_64: installed-weak from 5.14.0-362.el9
    nvidia/550.90.07: broken

dkms up to 2.8.5 wrote a comma in place of the slash.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from toolkit.errors import NeedsRoot, Unparsable
from toolkit.facts.lines import blocks, named_lines
from toolkit.facts.versions import Version


class DkmsState(StrEnum):
    BROKEN = "broken"  # the source tree is gone
    ADDED = "added"  # source registered, nothing compiled
    BUILT = "built"  # compiled, not in /lib/modules
    INSTALLED = "installed"
    WEAK = "installed-weak"  # a link to the build for another kernel of the same kABI


class DkmsBuild(Struct, frozen=True):
    """One module, at one version, for one kernel."""

    module: str  # "nvidia"
    version: str  # "550.90.07", as its packager wrote it; not comparable across modules
    state: DkmsState
    kernel: str = ""  # kernel release; "" unless something was compiled
    arch: str = ""  # "x86_64"; likewise
    remark: str = ""  # what DKMS adds: a difference on disk, the origin of a weak module

    @property
    def usable(self) -> bool:
        return self.state in {DkmsState.INSTALLED, DkmsState.WEAK}


class DkmsPackage(Struct, frozen=True):
    """What a dkms.conf declares."""

    folder: str  # "nvidia-570.86.15", below /usr/src
    name: str
    version: str
    builds: tuple[str, ...]  # module names
    depends: tuple[str, ...]  # names of DKMS packages to be built before it


_STATES = "|".join(state.value for state in reversed(DkmsState))  # longer names first
_LINE = re.compile(
    r"([^/,:\s]+)(?:/|, )([^,:\s]+)(?:, ([^,\s]+), ([^,:\s]+))?"
    rf": ({_STATES})(?:(?: from ([^\s(]+))|(?: ?\((.*)\)))?(?:[ (].*)?"
)


# dkms 3 itself, beside its list: of confs with words that it no longer reads, of its key, and after
# the line of a module that it calls broken.
_BESIDE = re.compile(
    r"Deprecated feature: .*|Sign command: .*|\[sudo\] password for .*"
    r"|Error! .*: Missing the module source directory or .*|Manual intervention is required!"
)


def parse_dkms_version(text: str) -> Version:
    """``dkms --version``: "dkms-3.0.10", "dkms: 2.8.7", "dkms-3.2.2-1.el9".

    :raises Unparsable: where no version stands there.
    """
    found = re.search(r"(?<![\w.])(\d+(?:\.\d+)+)", text.replace("dkms-", " "))
    if found is None:
        raise Unparsable("dkms --version", text.strip().split("\n", 1)[0])
    return Version(found[1])


def parse_dkms_status(text: str) -> tuple[DkmsBuild, ...]:
    """Read ``dkms status``.

    :param text: zero or more lines; a node without DKMS modules prints none.
    :returns: one build per line, in the order printed.
    :raises Unparsable: at the first line of an unknown shape, with its number.
    """
    builds = []
    for number, line in enumerate(map(str.strip, text.split("\n")), start=1):
        if not line or _BESIDE.fullmatch(line):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise Unparsable("dkms status", line, number)
        module, version, kernel, arch, state, origin, remark = found.groups(default="")
        words = f"from {origin}" if origin else remark
        builds.append(DkmsBuild(module, version, DkmsState(state), kernel, arch, words))
    return tuple(builds)


# KEY="value", KEY[0]='value', KEY=value; a comment may follow.
_ASSIGNED = re.compile(r"(\w+)(?:\[\d+\])?=(\"[^\"]*\"|'[^']*'|[^\s#]*)")
_RELEASE = re.compile(r'NV_VERSION_STRING=\\"([0-9.]+)\\"')


def parse_dkms_confs(text: str) -> tuple[DkmsPackage, ...]:
    """Read the probe's extract of /usr/src/*/dkms.conf: "FOLDER/dkms.conf:KEY=value" lines.

    Values computed at run time (OFED's conf since 25.10) stay as they are written.
    """
    folders: dict[str, dict[str, list[str]]] = {}
    for name, line in named_lines(text, "dkms.conf"):
        if name.endswith("/Kbuild"):
            continue
        values = folders.setdefault(name.removesuffix("/dkms.conf"), {})
        if found := _ASSIGNED.match(line):
            values.setdefault(found[1], []).append(found[2].strip("\"'"))
    return tuple(
        DkmsPackage(
            folder,
            (values.get("PACKAGE_NAME") or [folder.rpartition("-")[0]])[-1],
            (values.get("PACKAGE_VERSION") or [folder.rpartition("-")[2]])[-1],
            tuple(values.get("BUILT_MODULE_NAME", ())),
            tuple(values.get("BUILD_DEPENDS", ())),
        )
        for folder, values in folders.items()
    )


def parse_driver_sources(text: str) -> dict[str, str]:
    """Of the same extract the driver's release by folder, as its Kbuild names it.

    A distribution's package of sources, and what the vendor's installer extracts, need not be
    DKMS packages.
    """
    lines = named_lines(text, "dkms.conf")
    found = {name: _RELEASE.search(line) for name, line in lines if name.endswith("/Kbuild")}
    return {name.partition("/")[0]: told[1] for name, told in found.items() if told}


# What is left of a build that failed.
# DKMS keeps /var/lib/dkms/MODULE/VERSION/build after a failure only. The log begins with
# "DKMS make.log for MODULE-VERSION for kernel RELEASE (ARCH)", "DKMS (MODULE-VERSION) for
# kernel RELEASE (ARCH)" since 3.1.
_PATH = re.compile(r"/var/lib/dkms/([^/]+)/([^/]+)/build/make\.log")
_FOR_KERNEL = re.compile(r"for (?:module build on )?kernel:? ([^\s(]+)")
_ON_KERNEL = re.compile(r"on kernel:? ([^\s(]+)")


class BuildLog(Struct, frozen=True):
    """One log: its telling lines, in order."""

    module: str  # DKMS name; "" in a log that does not say
    version: str
    kernel: str  # kernel release; "" in a log that does not say
    lines: tuple[str, ...]

    @property
    def last(self) -> str:
        return next((line for line in reversed(self.lines) if line.strip()), "")


def parse_build_failures(text: str) -> tuple[BuildLog, ...]:
    """Read the probe's extract of the logs that failed builds left.

    :raises NeedsRoot: where one of them is for root alone.
    :raises Unparsable: at a heading that is no such log, or a block of another form.
    """
    logs = []
    for path, lines in blocks(text, "make.log"):
        found = _PATH.fullmatch(path)
        if found is None:
            raise Unparsable("make.log", path)
        if lines == ["unreadable"]:
            raise NeedsRoot(f"{path}: permission denied")
        if len(lines) < 2 or not lines[0].startswith("first: ") or lines[-1][:6] != "last: ":
            raise Unparsable("make.log", path)
        told = (lines[0][7:], *lines[1:-1], lines[-1][6:])
        kernel = _FOR_KERNEL.search(told[0])
        logs.append(BuildLog(found[1], found[2], kernel[1] if kernel else "", told))
    return tuple(logs)


def parse_make_log(text: str) -> BuildLog:
    """A whole log, or what a package manager printed around a build. Any text is one."""
    lines = tuple(line.rstrip() for line in text.split("\n") if line.strip())
    where = _PATH.search(text)
    kernel = _FOR_KERNEL.search(text) or _ON_KERNEL.search(text)
    return BuildLog(
        where[1] if where else "", where[2] if where else "", kernel[1] if kernel else "", lines
    )
