"""A ground: a machine, or a tree, in which modules are built; not always where they will run.

Read by ``toolkit/node/scripts/survey.sh``, which is asked once, as the probe is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from toolkit.errors import NoEvidence, Unparsable, Unsupported
from toolkit.evidence import Evidence, State
from toolkit.facts.boot.kernel import module_name, parse_config
from toolkit.facts.distros import Distro, parse_os_release
from toolkit.facts.lines import blocks, named_lines, rows
from toolkit.facts.modules.dkms import (
    DkmsBuild,
    DkmsPackage,
    parse_dkms_confs,
    parse_dkms_status,
    parse_dkms_version,
    parse_driver_sources,
)
from toolkit.facts.modules.kernel_modules import ModuleFile, parse_modinfo_files
from toolkit.facts.modules.module_file import Exports, parse_exports
from toolkit.facts.modules.ofed import LEFTOVER, OfedFolders, parse_ofed_folders
from toolkit.facts.modules.symvers import Export, parse_symvers

# The compiler that a kernel was built with, and those that a node has.
# Source: CONFIG_CC_VERSION_TEXT, which is the first line of ``$CC --version``;
# scripts/cc-version.sh.
# "x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0", "gcc (GCC) 11.5.0 2024 (Red Hat)"
_GCC = re.compile(r"(\S*g?cc\S*) \((?:[^()]|\([^()]*\))*\) (\d+)(?:\.\d+)*")
# "clang version 14.0.6", "Ubuntu clang version 18.1.3 (1ubuntu1)"
_CLANG = re.compile(r"(?:.* )?clang version (\d+)")


class Compiler(Struct, frozen=True):
    """One compiler, as far as builds of modules care."""

    command: str  # "x86_64-linux-gnu-gcc-12"; for clang always "clang"
    clang: bool
    major: int  # 12

    def __str__(self) -> str:
        return f"{'clang' if self.clang else 'gcc'} {self.major}"


def parse_cc_version(text: str) -> Compiler:
    """Read CONFIG_CC_VERSION_TEXT.

    :raises Unparsable: where neither gcc nor clang says its version there.
    """
    if found := _CLANG.match(text):
        return Compiler("clang", True, int(found[1]))
    if found := _GCC.match(text):
        return Compiler(found[1], False, int(found[2]))
    raise Unparsable("CONFIG_CC_VERSION_TEXT", text)


def parse_tools(text: str) -> frozenset[str]:
    """Read the probe's list of commands that builds need and the node has, one a line.

    :raises Unparsable: at a line that is no name of a command.
    """
    return frozenset(tool[0] for tool in rows(text, _TOOL, "commands in PATH"))


def parse_gcc_major(text: str) -> int:
    """``gcc -dumpfullversion -dumpversion``: "11.4.0" or "12".

    :raises Unparsable: where it begins with no number.
    """
    found = re.match(r"(\d+)(?:\.|$)", text.strip())
    if found is None:
        raise Unparsable("gcc -dumpversion", text.strip())
    return int(found[1])


REGISTER = "ib_register_peer_memory_client"
_TOOL = re.compile(r"[\w.+-]+")
_TREE = re.compile(r"([^ ]*) (.+)")
_SHA = re.compile(r"[0-9a-f]{64}")
_ENTERING = "mend that; what a build needs to enter a tree is told in docs/builds.md"
_LICENCE = re.compile(r"MODULE_LICENSE\(\s*\"([^\"]*)\"")


class Source(Struct, frozen=True):
    """One DKMS package below /usr/src, or the driver's source that is none: it builds nothing."""

    folder: str  # "nvidia-current-open-535.261.03", below /usr/src
    name: str  # DKMS name; of what is none, what stands before the version
    version: str
    builds: tuple[str, ...]  # module names, as its dkms.conf has them
    depends: tuple[str, ...]  # DKMS names
    digest: str  # SHA-256 over paths, modes and contents, fragments in /etc/dkms included
    peermem: bool = False  # it holds the source of nvidia-peermem
    peermem_licence: str = ""  # as that source declares it
    licence: str = ""  # of the driver's main module; "" for a package that is no driver


class Provider(Struct, frozen=True):
    """An installed module for one kernel, and what it exports of the shared symbols."""

    path: str  # "/lib/modules/KERNEL/updates/dkms/nvidia.ko"
    module: str  # "nvidia", whatever its packager calls the file; with underscores
    version: str  # "" where the module has none
    licence: str
    crcs: Mapping[str, int]  # checksum by symbol


class GroundKernel(Struct, frozen=True):
    """A kernel that modules can be built for, or cannot."""

    release: str
    headers: str  # SHA-256 over symbol versions, configuration, programs, ...; "" for none
    missing: tuple[str, ...]  # parts of the headers that are not there, or empty
    config: Mapping[str, str]  # options that decide about builds
    compiler: str  # first line of what it prints of itself; "" where there is none
    compiler_named: str  # command that the headers ask for: "gcc-12"
    symvers: Mapping[str, Export]  # rows of its own Module.symvers that builds here turn on
    providers: tuple[Provider, ...] = ()
    peermems: tuple[ModuleFile, ...] = ()  # nvidia-peermem as it is installed there

    @property
    def peermem(self) -> ModuleFile | None:
        """The nvidia-peermem that modprobe would take; None where none is installed."""
        return min(self.peermems, key=lambda each: _rank(each.filename), default=None)

    @property
    def inbox_peers(self) -> bool:
        """Whether the kernel itself exports the peer-memory interface."""
        return REGISTER in self.symvers

    def provider(self, symbol: str) -> Provider | None:
        """Who exports it there; of several, the one in the folder that depmod prefers."""
        found = self.exporters(symbol)
        return min(found, key=lambda each: _rank(each.path), default=None)

    def exporters(self, symbol: str) -> tuple[Provider, ...]:
        """All who export it there."""
        return tuple(each for each in self.providers if symbol in each.crcs)


def _rank(path: str) -> tuple[int, str]:
    """depmod.d(5), search; the path, so that the order of a listing decides nothing."""
    folders = ("/updates/", "/extra/", "/weak-updates/")
    place = next((n for n, each in enumerate(folders) if each in path), len(folders))
    return place + ("/kernel/" in path), path


class Ground(Struct, frozen=True):
    """What is there to build with."""

    arch: str  # as uname -m prints it
    distro: Distro
    dkms: str  # version; "" where there is no DKMS
    tools: frozenset[str]  # commands that builds need, as far as they are there
    kernels: tuple[GroundKernel, ...]  # those that were asked for
    releases: tuple[str, ...]  # of all that have headers
    sources: tuple[Source, ...]
    builds: tuple[DkmsBuild, ...]  # what DKMS has
    ofed: OfedFolders
    peers: Mapping[str, Mapping[str, Export]]  # rows of the interface, by OFED's Module.symvers
    room_mb: int  # free on the disk of /var/tmp
    tree: bool = False  # a tree that the operator named; nothing runs from it

    def kernel(self, release: str) -> GroundKernel | None:
        return next((each for each in self.kernels if each.release == release), None)


def parse_ground(evidence: Evidence, *, tree: bool = False) -> Ground:
    """Read a survey.

    :param tree: it was made in a tree that the operator named.
    :raises NoEvidence: where it was cut off, or a source that all rests on was not read.
    :raises Unparsable: at a source of an unknown shape.
    :raises Unsupported: where enter.sh could not enter it.
    """
    if not evidence.complete:
        raise NoEvidence("the survey of the ground was cut off", hint="ask again")
    if "prepare" in evidence.frames:
        why = "; ".join(evidence.text("prepare.output").strip().split("\n"))
        raise Unsupported(f"no build can be made there: {why}", hint=_ENTERING)
    text = evidence.text
    peers = {
        path: parse_symvers(path, "\n".join(lines))
        for path, lines in blocks(text("symvers"), "Module.symvers")
    }
    # As parse_ofed_folders wants it: who exports the interface in each file.
    exporters = {
        path: rows[REGISTER].module if REGISTER in rows else "" for path, rows in peers.items()
    }
    there = evidence.frame("dkms-version").state is not State.ABSENT
    folders = text("dkms-tree").split("\n")
    return Ground(
        arch=text("arch").strip(),
        distro=parse_os_release(text("os-release")),
        dkms=str(parse_dkms_version(text("dkms-version"))) if there else "",
        tools=parse_tools(text("ground-tools")),
        kernels=_kernels(evidence, peers),
        releases=tuple(text("releases").split()),
        sources=_sources(evidence),
        builds=parse_dkms_status(text("dkms-status")),
        ofed=parse_ofed_folders(text("sources"), exporters, leftover=LEFTOVER in folders),
        peers=MappingProxyType({path: rows for path, rows in peers.items() if "/ofa_k" in path}),
        room_mb=_room_mb(text("room")),
        tree=tree,
    )


def _kernels(
    evidence: Evidence, symvers: Mapping[str, Mapping[str, Export]]
) -> tuple[GroundKernel, ...]:
    configs = {
        release: parse_config("\n".join(lines))
        for release, lines in blocks(evidence.text("kernel-configs"), "/boot/config-*")
    }
    exports = parse_exports(_optional(evidence, "exports"))
    files = parse_modinfo_files(_optional(evidence, "installed"))
    kernels = []
    for release, lines in blocks(evidence.text("kernels"), "/lib/modules"):
        told: dict[str, list[str]] = {"missing": [], "headers": [], "named": [], "compiler": []}
        for line in lines:
            word, _, rest = line.partition(" ")
            if word not in told:
                raise Unparsable(f"/lib/modules/{release}", line)
            told[word].append(rest)
        missing = tuple(told["missing"])
        kernels.append(
            GroundKernel(
                release,
                "" if missing else _sha(release, (told["headers"] or [""])[0]),
                missing,
                MappingProxyType(configs.get(release, {})),
                "".join(told["compiler"]),
                "".join(told["named"]),
                symvers.get(f"/lib/modules/{release}/build/Module.symvers", MappingProxyType({})),
                _providers(release, exports, files),
                tuple(
                    file
                    for path, file in files.items()
                    if path.startswith(f"/lib/modules/{release}/") and file.name == "nvidia_peermem"
                ),
            )
        )
    return tuple(kernels)


def _providers(
    release: str, exports: tuple[Exports, ...], files: Mapping[str, ModuleFile]
) -> tuple[Provider, ...]:
    unknown = ModuleFile("")
    return tuple(
        Provider(each.path, module_name(each.path), file.version, file.license, each.crcs)
        for each in exports
        if each.path.startswith(f"/lib/modules/{release}/")
        for file in (files.get(each.path, unknown),)
    )


def _sources(evidence: Evidence) -> tuple[Source, ...]:
    trees = rows(evidence.text("trees"), _TREE, "/usr/src/*/dkms.conf")
    digests = {tree[2]: _sha(tree[2], tree[1]) for tree in trees}
    licences: dict[str, tuple[str, str]] = {}  # of the driver, of nvidia-peermem
    for path, line in named_lines(evidence.text("licences"), "MODULE_LICENSE"):
        folder, _, rest = path.partition("/")
        found = _LICENCE.search(line)
        driver, peermem = licences.get(folder, ("", ""))
        word = found[1] if found else "?"
        is_peermem = "nvidia-peermem/" in rest
        licences[folder] = (driver, word) if is_peermem else (driver or word, peermem)
    packages = list(parse_dkms_confs(evidence.text("dkms-confs")))
    dkms = {each.folder for each in packages}
    for folder, version in parse_driver_sources(evidence.text("dkms-confs")).items():
        if folder not in dkms:
            name = folder.rpartition("-")[0] or folder
            packages.append(DkmsPackage(folder, name, version, (), ()))
    sources = []
    for each in packages:
        if each.folder in digests:
            licence, peermem = licences.get(each.folder, ("", ""))
            packed = (each.folder, each.name, each.version, each.builds, each.depends)
            sources.append(Source(*packed, digests[each.folder], bool(peermem), peermem, licence))
    return tuple(sources)


def _optional(evidence: Evidence, key: str) -> str:
    """What a tool said that the ground may lack; then nothing is installed that is known of."""
    return evidence.text(key) if evidence.frame(key).state is not State.ABSENT else ""


def _sha(of: str, word: str) -> str:
    if not _SHA.fullmatch(word):
        raise Unparsable(f"hash of {of}", word)
    return word


def _room_mb(text: str) -> int:
    """``df -Pk``: the fourth field of the last line, in KiB; nothing where there is no /var/tmp."""
    if not text.strip():
        return 0
    fields = text.strip().rpartition("\n")[2].split()
    if len(fields) < 6 or not fields[3].isdigit():
        raise Unparsable("df -Pk", text.strip())
    return int(fields[3]) // 1024
