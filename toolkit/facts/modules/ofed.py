"""How OFED lies on disk for those who build against it, and the service that loads it.

Sources: NVIDIA/open-gpu-kernel-modules kernel-open/conftest.sh (ib_peer_memory_symbols) and
nvidia-peermem.Kbuild; mlnx-ofa_kernel ofed_scripts/openibd; systemctl(1), show.
"""

from __future__ import annotations

import re
from posixpath import dirname, join, normpath

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.lines import rows

OFA = "/usr/src/ofa_kernel"
_PROPERTY = re.compile(r"([^=]*)=(.*)")
LEFTOVER = "/var/lib/dkms/mlnx-ofed-kernel"


class OfedSearch(Struct, frozen=True):
    """What a build of the driver finds for one kernel. Its two searches do not agree."""

    conftest: str  # the Module.symvers by which the module gets a body; "" for none: a stub
    kbuild: str  # the folder whose Module.symvers is linked against; "" for none
    kbuild_symvers: bool  # whether that folder has one
    kbuild_symbol: bool  # whether the peer-memory interface is in it


class OfedFolders(Struct, frozen=True):
    """/usr/src/ofa_kernel and what else the searches look at."""

    folders: frozenset[str]  # that exist, each by its full path
    links: dict[str, str]  # link below OFA, and the full path that it points at
    symvers: dict[str, str]  # path of a Module.symvers, exporter of the interface; "" for none
    leftover: bool  # LEFTOVER exists

    def search(self, kernel: str, arch: str) -> OfedSearch:
        """Do both searches.

        :param kernel: kernel release.
        :param arch: as ``uname -m`` prints it: "x86_64", "aarch64".
        """
        # conftest has the name that Kbuild knows, so it misses what OFED makes on arm64.
        conftest_arch = "arm64" if arch == "aarch64" else arch
        asked = (
            f"/lib/modules/{kernel}/build",
            f"{OFA}/{conftest_arch}/{kernel}",
            f"{OFA}/{kernel}",
            f"{OFA}/default",
        )
        hit = next((each for each in asked if self._exporter(each)), "")
        tried = [f"{OFA}/{arch}/{kernel}", f"{OFA}/{kernel}", f"{OFA}/default"]
        kbuild = next((each for each in tried if self._exists(each)), "")
        if not kbuild and self.leftover:
            kbuild = LEFTOVER
        symvers = f"{self.real(kbuild)}/Module.symvers" in self.symvers
        symvers = symvers or f"{kbuild}/Module.symvers" in self.symvers
        return OfedSearch(hit, kbuild, symvers, bool(self._exporter(kbuild)))

    def real(self, path: str) -> str:
        return self.links.get(path, path)

    def _exists(self, path: str) -> bool:
        real = self.real(path)
        if real in self.folders:
            return True
        return any(f"{each}/Module.symvers" in self.symvers for each in (path, real))

    def _exporter(self, folder: str) -> str:
        asked = (f"{folder}/Module.symvers", f"{self.real(folder)}/Module.symvers")
        return next((self.symvers[each] for each in asked if self.symvers.get(each)), "")


def parse_ofed_folders(sources: str, symvers: dict[str, str], *, leftover: bool) -> OfedFolders:
    """Read the probe's list of /usr/src, links with what they point at."""
    folders, links = set(), {}
    for line in sources.split("\n"):
        path, arrow, target = line.partition(" -> ")
        if not path.startswith(OFA):
            continue
        if not arrow:
            folders.add(path)
        else:
            links[path] = normpath(join(dirname(path), target))
    folders |= {path.rpartition("/")[0] for path in symvers if path.startswith(f"{OFA}/")}
    # A link's own Module.symvers is found through it: it names no folder of its own.
    # A link to a link, as update-alternatives makes them, ends where the last one points.
    ends = {}
    for link, target in links.items():
        end = target
        for _ in range(8):
            end = links.get(end, end)
        ends[link] = end
    return OfedFolders(frozenset(folders - set(links)), ends, symvers, leftover)


def parse_unit(text: str) -> dict[str, str]:
    """``systemctl show UNIT -p ...``: "ActiveState=active" lines.

    :raises Unparsable: at a line that is none, or without ActiveState.
    """
    values = {row[1]: row[2] for row in rows(text, _PROPERTY, "systemctl show")}
    if "ActiveState" not in values:
        raise Unparsable("systemctl show", "no ActiveState")
    return values


def parse_openib_conf(text: str) -> dict[str, str]:
    """/etc/infiniband/openib.conf, which sh reads: KEY=value lines; others are passed over."""
    pairs = (line.strip().partition("=") for line in text.split("\n") if "=" in line)
    return {
        key: value.split("#")[0].strip().strip("\"'") for key, _, value in pairs if key[:1] != "#"
    }
