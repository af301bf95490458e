"""What a build is linked against, as symbol versions and as a hash that is known beforehand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256

from toolkit.built.plan.model import Inputs, Part
from toolkit.facts.modules.build_env import REGISTER, Ground, GroundKernel, Provider
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
    said = [_said(each, each.part in given) for each in upstream]
    return sha256(json.dumps(sorted(said)).encode()).hexdigest() if said else ""


def _said(above: Inputs, given: bool) -> list[str]:
    if not given:
        return [above.part, above.digest]
    more = [above.version, above.source] if above.part is Part.DRIVER else []
    return [above.part, above.symvers, *more]
