"""MPI on the node, and whether it was built to take GPU memory.

Sources: Open MPI, ``ompi_info --parsable --all``; MVAPICH, ``mpiname -a``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.errors import Unparsable


@dataclass(frozen=True, slots=True)
class Mpi:
    name: str  # "Open MPI", "MVAPICH"
    version: str
    prefix: str  # where it is installed; "" where it does not tell
    cuda: bool

    @property
    def of_the_distribution(self) -> bool:
        """Whether it came as somebody's dependency: nobody asked it to carry GPU memory."""
        return self.prefix == "/usr" or self.prefix.startswith(("/usr/lib", "/usr/mpi"))


def parse_ompi_info(text: str) -> Mpi:
    """Read the lines that the probe keeps of ``ompi_info``.

    :raises Unparsable: where it does not say whether it was built with CUDA.
    """
    values = {}
    for line in text.split("\n"):
        key, _, value = line.rpartition(":")
        values[key] = value.strip()
    built = values.get("mca:mpi:base:param:mpi_built_with_cuda_support:value", "")
    if built not in {"true", "false"}:
        raise Unparsable("ompi_info", built or text.split("\n", 1)[0])
    return Mpi(
        "Open MPI",
        values.get("ompi:version:full", ""),
        values.get("path:prefix", ""),
        built == "true",
    )


def parse_mpiname(text: str) -> Mpi:
    """Read ``mpiname -a``: the first line names the version, one names configure's options.

    :raises Unparsable: where the first line is not MVAPICH's.
    """
    first = text.split("\n", 1)[0]
    found = re.match(r"(MVAPICH\S*)\s+(?:Version\s*:?\s*)?(\S+)", first)
    if found is None:
        raise Unparsable("mpiname -a", first)
    return Mpi(found[1], found[2], "", bool(re.search(r"--(enable|with)-cuda(?!=no)\b", text)))
