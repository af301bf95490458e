"""Which parts take part for one kernel: built or as installed, from which package, and why.

And what a build is linked against, as symbol versions and as a hash that is known beforehand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from msgspec import Struct

from toolkit.built.plan.model import PEERMEM, Inputs, Part
from toolkit.facts.boot.kernel import module_name
from toolkit.facts.modules.build_env import REGISTER, Ground, GroundKernel, Provider, Source
from toolkit.facts.modules.symvers import Export

_UNREGISTER = "ib_unregister_peer_memory_client"
P2P = "nvidia_p2p_get_pages"


def given_exports(ground: Ground, kernel: GroundKernel, part: Part) -> Mapping[str, Export]:
    """What a part that is taken as it is installed exports for a kernel; nothing if it is not."""
    if part is Part.DRIVER:
        found = kernel.provider(P2P)
        if found is None:
            return {}
        p2p = {name: crc for name, crc in found.crcs.items() if name.startswith("nvidia_p2p_")}
        return {name: Export(crc, found.module, gpl=False) for name, crc in p2p.items()}
    if part is Part.OFED:
        folder = ground.ofed.search(kernel.release, ground.arch).kbuild
        real = ground.ofed.real(folder)
        for path in (f"{real}/Module.symvers", f"{folder}/Module.symvers"):
            rows = ground.peers.get(path, {})
            if REGISTER in rows:
                own = real.rpartition("/")[2] == kernel.release
                given = {name: rows[name] for name in (REGISTER, _UNREGISTER) if name in rows}
                return given if own or agrees(given, kernel) else {}
    return {}


def agrees(rows: Mapping[str, Export], kernel: GroundKernel) -> bool:
    """Whether the module of the interface that is installed for a kernel is the one of these rows.

    OFED's folder "default" is that of some kernel, and a folder outlives the modules beside it.
    """
    found = kernel.provider(REGISTER)
    return found is not None and all(found.crcs.get(n) == each.crc for n, each in rows.items())


def installed_ofed(kernel: GroundKernel) -> Provider | None:
    """Who exports the interface above the kernel's own modules; None where nobody does."""
    found = kernel.provider(REGISTER)
    return found if found is not None and "/kernel/" not in found.path else None


def rows_digest(rows: Mapping[str, Export]) -> str:
    """The hash of symbol versions."""
    said = [[name, f"{each.crc:08x}", each.module] for name, each in sorted(rows.items())]
    return sha256(json.dumps(said).encode()).hexdigest()


def rows_text(rows: Mapping[str, Export]) -> str:
    """The same as lines of a Module.symvers."""
    return "".join(
        f"0x{each.crc:08x}\t{name}\t{each.module}\tEXPORT_SYMBOL{'_GPL' if each.gpl else ''}\t\n"
        for name, each in sorted(rows.items())
    )


def linked_against(upstream: Sequence[Inputs], given: frozenset[Part]) -> str:
    """The hash of what a build is linked against; "" where that is the kernel alone.

    A part that is built goes in by its own digest, so that the hash is known before
    anything is; one that is installed, by the symbol versions that it has. The driver goes in by
    its version and source too: others compile against its headers, and a kernel that keeps
    no symbol versions would not tell two drivers apart.
    """
    said = []
    for each in upstream:
        more = [each.version, each.source] if each.part is Part.DRIVER else []
        known = [each.symvers, *more] if each.part in given else [each.digest]
        said.append([each.part, *known])
    return sha256(json.dumps(sorted(said)).encode()).hexdigest() if said else ""


OFED_NAMES = ("mlnx-ofed-kernel", "mlnx-ofa_kernel")  # deb, RPM
INBOX = "inbox"  # in place of a version of OFED: the kernel's own modules
_PACKAGES = {Part.NVIDIA_FS: "nvidia-fs", Part.GDRDRV: "gdrdrv"}


class ChosenPart(Struct, frozen=True):
    """One part, before it is known whether it can be built."""

    part: Part
    package: str  # DKMS name; of what is given without DKMS, the module
    version: str
    after: tuple[Part, ...]
    why: str
    given: bool = False
    source: Source | None = None
    left_out: tuple[str, ...] = ()
    asked: bool = False  # named by the operator


def choose(
    ground: Ground,
    kernel: GroundKernel | None,
    parts: Sequence[Part],
    *,
    driver: str = "",
    ofed: str = "",
) -> tuple[ChosenPart, ...]:
    """The parts for one kernel, each behind those that it rests on.

    A part that is missing altogether stands there too, without a version: something rests
    on it, and somebody has to say so.
    """
    wanted = set(parts) or _all(ground)
    asked = frozenset(parts)
    peers = _ofed(ground, kernel, asked, ofed, needed=bool(wanted - {Part.DRIVER}))
    main = _driver(ground, kernel, asked, driver, peers)
    found = [each for each in (peers, main) if each is not None]
    if wanted == {Part.OFED}:
        return tuple(each for each in found if each.part is Part.OFED)
    if Part.PEERMEM in wanted:
        found += _peermem(kernel, main, peers, asked)
    for part in (Part.NVIDIA_FS, Part.GDRDRV):
        if part in wanted:
            found.append(_other(ground, part, main, asked))
    if Part.OFED not in wanted and not any(Part.OFED in each.after for each in found):
        found = [each for each in found if each.part is not Part.OFED]
    return tuple(found)


def _all(ground: Ground) -> set[Part]:
    """All that the ground has sources for; nvidia-peermem's are the driver's."""
    wanted = {Part.PEERMEM, Part.DRIVER}
    if _named(ground.sources, OFED_NAMES):
        wanted.add(Part.OFED)
    wanted |= {part for part, name in _PACKAGES.items() if _named(ground.sources, (name,))}
    return wanted


def _named(sources: Iterable[Source], names: Sequence[str]) -> tuple[Source, ...]:
    return tuple(each for each in sources if each.name in names)


def _newest(sources: Iterable[Source]) -> Source | None:
    """By all numbers: OFED's DKMS packages have versions like 24.10.OFED.24.10.2.1.8.1."""

    def numbers(source: Source) -> list[int]:
        return [int(run) for run in re.findall(r"\d+", source.version)]

    return max(sources, key=numbers, default=None)


def _ofed(
    ground: Ground,
    kernel: GroundKernel | None,
    asked: frozenset[Part],
    version: str,
    *,
    needed: bool,
) -> ChosenPart | None:
    """OFED; None where the kernel exports the interface itself, or nothing needs it."""
    sources = _named(ground.sources, OFED_NAMES)
    if version == INBOX:
        if kernel is not None and kernel.inbox_peers:
            return None
        why = "the kernel's own RDMA modules are wanted"
        return ChosenPart(Part.OFED, OFED_NAMES[0], INBOX, (), why, asked=Part.OFED in asked)
    source = _newest(each for each in sources if version in {"", each.version})
    release = kernel.release if kernel else ""
    by_dkms = (e for e in ground.builds if e.usable and e.module in OFED_NAMES)
    installed = next((each.version for each in by_dkms if each.kernel == release), "")
    if Part.OFED not in asked and kernel is not None:
        # OFED that is installed takes the place of the kernel's own modules, and of their symbols.
        if kernel.inbox_peers and installed_ofed(kernel) is None:
            return None
        if given_exports(ground, kernel, Part.OFED) and version in {"", installed}:
            name = source.name if source else OFED_NAMES[0]
            why = "as it is installed"
            return ChosenPart(Part.OFED, name, installed, (), why, given=True)
    if source is None and not (needed or Part.OFED in asked):
        return None
    why = "asked for" if Part.OFED in asked else "nothing is installed for this kernel"
    return ChosenPart(
        Part.OFED,
        source.name if source else OFED_NAMES[0],
        source.version if source else version,
        (),
        why,
        source=source,
        asked=Part.OFED in asked,
    )


def _driver(
    ground: Ground,
    kernel: GroundKernel | None,
    asked: frozenset[Part],
    version: str,
    peers: ChosenPart | None,
) -> ChosenPart:
    sources = tuple(each for each in ground.sources if each.licence or each.peermem)
    installed = kernel.provider(P2P) if kernel else None
    wanted = version or (installed.version if installed else "")
    fitting = [each for each in sources if wanted in {"", each.version}]
    source = _newest(each for each in fitting if each.builds) or _newest(fitting)
    if source is None and not version:
        source = _newest(sources)  # no source of the installed one, and nobody named it
    if Part.DRIVER not in asked and installed is not None and version in {"", installed.version}:
        why = "as it is installed"
        name = source.name if source else installed.module
        return ChosenPart(
            Part.DRIVER, name, installed.version, (), why, given=True,
            source=source if source and source.version == installed.version else None,
        )  # fmt: skip
    if source is None:
        return ChosenPart(Part.DRIVER, "nvidia", version, (), "", asked=Part.DRIVER in asked)
    ordered = peers is not None and _builds_peermem(source, peers)
    why = "asked for" if Part.DRIVER in asked else "not installed for this kernel"
    if installed is not None and installed.version != source.version:
        why = f"{installed.version} is installed, {source.version} is wanted"
    return ChosenPart(
        Part.DRIVER,
        source.name,
        source.version,
        (Part.OFED,) if ordered else (),
        f"{why}; builds nvidia-peermem too" if ordered else why,
        source=source,
        left_out=() if ordered else _own_peermem(source),
        asked=Part.DRIVER in asked,
    )


def _builds_peermem(source: Source, peers: ChosenPart) -> bool:
    """Whether the driver's own package builds it, and behind OFED: then nobody else should."""
    return peers.package in source.depends and bool(_own_peermem(source))


def _own_peermem(source: Source) -> tuple[str, ...]:
    """The file names of its own nvidia-peermem: as built, and as Debian has DKMS rename it."""
    own = [each for each in source.builds if module_name(f"{each}.ko") == "nvidia_peermem"]
    return tuple(name for each in own for name in (each, each.replace("nvidia", source.name, 1)))


def _peermem(
    kernel: GroundKernel | None, main: ChosenPart, peers: ChosenPart | None, asked: frozenset[Part]
) -> list[ChosenPart]:
    """Ours; none where the driver's own package builds it in the right order: one owner only.

    Where that package is as installed and its nvidia-peermem is not there, or is a stub, ours
    is built all the same: nobody may take it for done.
    """
    source = main.source
    after = (*((Part.OFED,) if peers else ()), Part.DRIVER)
    why = "asked for" if Part.PEERMEM in asked else f"rests on {' and '.join(after)}"
    if source is not None and peers is not None and _builds_peermem(source, peers):
        lacks = _lacks(kernel)
        if not main.given:
            return []
        if not lacks:
            why = f"built by {source.name} itself, after {peers.package}"
            return [ChosenPart(Part.PEERMEM, source.name, main.version, (), why, given=True)]
        why = f"that of {source.name} {lacks}"
    return [
        ChosenPart(
            Part.PEERMEM, PEERMEM, main.version, after, why,
            source=source, asked=Part.PEERMEM in asked,
        )
    ]  # fmt: skip


def _lacks(kernel: GroundKernel | None) -> str:
    """What modinfo tells against the nvidia-peermem that is installed; "" for nothing."""
    file = kernel.peermem if kernel else None
    if file is None:
        return "is not installed"
    others = {module_name(f"{each}.ko") for each in file.depends} - {"nvidia"}
    real = len(others) < len(file.depends) and (others or (kernel and kernel.inbox_peers))
    return "" if real else "is a stub"


def _other(ground: Ground, part: Part, main: ChosenPart, asked: frozenset[Part]) -> ChosenPart:
    source = _newest(_named(ground.sources, (_PACKAGES[part],)))
    return ChosenPart(
        part,
        _PACKAGES[part],
        source.version if source else "",
        (Part.DRIVER,),
        "asked for" if part in asked else f"rests on {main.part}",
        source=source,
        asked=part in asked,
    )
