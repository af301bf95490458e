"""The libraries that would use GPUDirect RDMA, and the settings that everybody gets.

Sources: file names of the libraries, ``ucx_info -v``,
/etc/nccl.conf (NVIDIA/nccl src/misc/param.cc), /etc/environment, /etc/profile.d.
"""

from __future__ import annotations

import re

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.lines import named_lines, rows
from toolkit.facts.rdma.ucx import parse_ucx_info


class Library(Struct, frozen=True):
    """One library on disk."""

    # "nccl", "nvshmem", "ucx", "nixl", or "nccl-plugin" for one that replaces NCCL's own IB
    name: str
    version: str  # "2.27.3"; "" where neither its name nor its metadata tells
    path: str


# "libnccl.so.2.27.3", "libnvshmem_host.so.3", "libnccl-net-ofi.so", "libucp.so.0"
_FILE = re.compile(r"lib(nccl|nccl-net[\w-]*|nvshmem_host|ucp)\.so((?:\.\d+)*)")
# RAPIDS' ucxx (Dask) takes UCX from the wheel libucx; NIXL's own has a UCX inside.
_WHEEL = re.compile(
    r"(?:nvidia_)?(nccl|nvshmem|libucx|nixl)_cu\d+-(\d+(?:\.\d+)+?)(?:\.post\d+)?(?:\+\S*)?\.dist-info"
)
_NAMES = {"nccl": "nccl", "nvshmem_host": "nvshmem", "ucp": "ucx", "libucx": "ucx"}


def parse_libraries(text: str) -> tuple[Library, ...]:
    """Read the probe's paths, links with " -> TARGET"; each library once a folder and version.

    :raises Unparsable: at a line that is no path of such a library.
    """
    found: dict[tuple[str, str], list[Library]] = {}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        path, _, target = line.partition(" -> ")
        folder, _, base = path.rpartition("/")
        names = [name for name in (base, target.rpartition("/")[2]) if name]
        each = [_library(path, name) for name in names]
        if not path.startswith("/") or not each or each[0] is None:
            raise Unparsable("libraries", line, number)
        best = max((one for one in each if one), key=lambda one: len(one.version))
        found.setdefault((folder, best.name), []).append(best)
    told: list[Library] = []
    for libraries in found.values():  # each version once; without one only where none has one
        versions = {each.version: each for each in libraries if each.version}
        told += list(versions.values()) or libraries[:1]
    return tuple(told)


def _library(path: str, name: str) -> Library | None:
    wheel = _WHEEL.fullmatch(name)
    if wheel is not None:
        return Library(_NAMES.get(wheel[1], wheel[1]), wheel[2], path)
    file = _FILE.fullmatch(name)
    if file is None:
        return None
    version = file[2].removeprefix(".")
    # "libnccl.so.2" and "libucp.so.0.0.0" name an interface, not a release.
    told = version if version.count(".") >= 2 and file[1] != "ucp" else ""
    return Library(_NAMES.get(file[1], "nccl-plugin"), told, path)


class Verbs(Struct, frozen=True):
    """One libibverbs."""

    path: str
    dmabuf: bool | None  # has ibv_reg_dmabuf_mr, since rdma-core 34; None: not readable


_VERBS = re.compile(r"(/.*) (yes|no|unreadable)")
_ANSWERS = {"yes": True, "no": False, "unreadable": None}


def parse_verbs(text: str) -> tuple[Verbs, ...]:
    """Read "PATH yes|no|unreadable" lines.

    :raises Unparsable: at a line of another shape.
    """
    return tuple(Verbs(row[1], _ANSWERS[row[2]]) for row in rows(text, _VERBS, "libibverbs"))


class Perftest(Struct, frozen=True):
    """What ib_write_bw was built with; None where its file could not be read."""

    path: str
    cuda: bool | None
    dmabuf: bool | None


def parse_perftest(text: str) -> Perftest:
    """Read the three lines "path", "cuda" and "dmabuf".

    :raises Unparsable: where one is missing or of another shape.
    """
    values = dict(line.split(" ", 1) for line in text.split("\n")[:-1] if " " in line)
    answers = (values.get("cuda", ""), values.get("dmabuf", ""))
    if not values.get("path", "").startswith("/") or not all(each in _ANSWERS for each in answers):
        raise Unparsable("perftest", text.split("\n", 1)[0])
    return Perftest(values["path"], *(_ANSWERS[each] for each in answers))


class Ucx(Struct, frozen=True):
    """The UCX that ucx_info belongs to."""

    version: str  # "1.17.0"; "" where only its devices are listed (ucx_info -d)
    cuda: bool | None  # built with CUDA; None where the answer does not tell


def parse_ucx(text: str) -> Ucx:
    """Read ``ucx_info -v``, or ``ucx_info -d``, which lists what it can use and no version.

    :raises Unparsable: where it is neither.
    """
    told = parse_ucx_info(text)
    cuda: bool | None = None
    if told.configured:
        words = told.configured.replace("'", "").split()
        cuda = any(w.startswith("--with-cuda") and not w.endswith("=no") for w in words)
    elif told.domains:
        cuda = told.knows_cuda
    return Ucx(told.version, cuda)


class Setting(Struct, frozen=True):
    """One variable that libraries read, with the file that sets it."""

    name: str  # "NCCL_NET_GDR_LEVEL"
    value: str
    file: str  # "/etc/nccl.conf"

    @property
    def number(self) -> int:
        """What NCCL reads it as: a word is 0 to it, "yes" as well as "no".

        Source: NVIDIA/nccl src/misc/param.cc, ncclLoadParam: strtoll with base 0.
        """
        found = _NUMBER.match(self.value)
        if found is None:
            return 0
        digits = found[2].lower()
        base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
        return int(found[1] + digits, base)


_NUMBER = re.compile(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9]\d*)")
_SETS = re.compile(r"\s*(?:export\s+)?([A-Za-z][A-Za-z0-9_]*)=(.*)")


def parse_settings(conf: str, environment: str) -> tuple[Setting, ...]:
    """Read /etc/nccl.conf, then the lines of /etc/environment and /etc/profile.d.

    What the environment says counts before nccl.conf, as in NCCL.
    """
    told = [
        *(("/etc/nccl.conf", line) for line in conf.split("\n")),
        *named_lines(environment, "/etc/environment"),
    ]
    settings = {}
    for file, line in told:
        found = None if line.lstrip().startswith("#") else _SETS.fullmatch(line)
        if found is not None:
            value = re.sub(r"\s+#.*", "", found[2]).strip().strip("\"'")
            # Of a container it may be no file below /etc.
            place = file if file.startswith(("/", "its ")) else f"/etc/{file}"
            settings[found[1]] = Setting(found[1], value, place)
    return tuple(settings.values())


# MPI on the node, and whether it was built to take GPU memory.
# Sources: Open MPI, ``ompi_info --parsable --all``; MVAPICH, ``mpiname -a``.
class Mpi(Struct, frozen=True):
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
