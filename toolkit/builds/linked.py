"""What a build is linked against, as symbol versions and as a hash that is known beforehand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256

from toolkit.builds.model import Inputs, Part
from toolkit.facts.ground import REGISTER, Ground, GroundKernel
from toolkit.facts.symvers import Export

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
        for path in (f"{ground.ofed.real(folder)}/Module.symvers", f"{folder}/Module.symvers"):
            rows = ground.peers.get(path, {})
            if REGISTER in rows:
                return {name: rows[name] for name in (REGISTER, _UNREGISTER) if name in rows}
    return {}


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
    anything is; one that is installed, by the symbol versions that it has.
    """
    said = [
        [each.part.value, each.symvers if each.part in given else each.digest] for each in upstream
    ]
    return sha256(json.dumps(sorted(said)).encode()).hexdigest() if said else ""
