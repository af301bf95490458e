"""Module.symvers: what a kernel, or a build of modules, exports, and in which version.

Source: kernel scripts/mod/modpost.c, write_dump, and Documentation/kbuild/modules.rst. A row::

    0xd89b2a1c<TAB>nvidia_p2p_get_pages<TAB>/var/lib/dkms/.../nvidia<TAB>EXPORT_SYMBOL<TAB>NAMESPACE

Kernels before 5.4 had no namespace at the end, and 5.4 to 5.8 had it in the third place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from toolkit.errors import Unparsable

_CRC = re.compile(r"0x[0-9a-f]{1,16}")


class Export(Struct, frozen=True):
    """One symbol that others may use."""

    crc: int  # 0 where the kernel keeps no versions
    module: str  # file name without ending: "ib_uverbs"; "vmlinux" for the kernel itself
    gpl: bool  # for modules of a licence that goes with the GPL alone


def parse_symvers(path: str, text: str) -> Mapping[str, Export]:
    """Read one Module.symvers; an empty one has no rows.

    :raises Unparsable: at a line of another shape.
    """
    found = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line:
            continue
        row = line.split("\t")
        kinds = [each for each in row if each.startswith(("EXPORT_SYMBOL", "EXPORT_UNUSED"))]
        if len(row) < 4 or len(kinds) != 1 or not _CRC.fullmatch(row[0]) or not row[1]:
            raise Unparsable(path, line, number)
        where = row[row.index(kinds[0]) - 1]
        module = where.rpartition("/")[2].removesuffix(".ko")
        found[row[1]] = Export(int(row[0], 16), module, "_GPL" in kinds[0])
    return MappingProxyType(found)
