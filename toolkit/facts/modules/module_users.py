"""Who depends on what: what holding.sh read of processes, sessions, routes, mounts and disks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from toolkit.errors import NeedsRoot, Unparsable
from toolkit.evidence import Evidence
from toolkit.facts.lines import blocks, rows
from toolkit.facts.modules.kernel_modules import LoadedModule, parse_modules

# A name in /proc has at most 15 characters. They serve the node and no job.
DAEMONS = frozenset(
    {"opensm", "nvidia-persiste", "nv-hostengine", "dcgm-exporter", "nv-fabricmanage", "ibacm"}
    | {"nvidia-imex", "nvlsm", "srp_daemon", "rdma-ndd", "iwpmd", "nvidia-device-p", "nvidia-smi"}
    | {"gpu-feature-dis", "nvsm_core", "nvidia-powerd", "systemd-udevd", "(udev-worker)"}
)
# What jobs open; umad is for tools that look after the fabric.
WORK = re.compile(r"/dev/(infiniband/uverbs|nvidia|gdrdrv)")
FIRST_PERSON = 1000  # below are accounts of the system, see UID_MIN in login.defs(5)
_ESCAPED = re.compile(r"\\(n|\\|[0-7]{3})")
_JOB = re.compile(r"/job_([0-9]+)(?:/|$)")
_POD = re.compile(r"pod([0-9a-f]{8}[-_0-9a-f]{27,28})")


class User(Struct, frozen=True):
    """One process that has devices of RDMA or of a GPU open."""

    pid: int
    name: str  # as the kernel has it, printable: "python3", at most 15 characters
    uid: int
    account: str  # "alice"; the number where the node's own file does not know it
    devices: tuple[str, ...]  # "/dev/infiniband/uverbs0"
    group: str = ""  # its control group: "0::/system.slice/slurmstepd.scope/job_42/step_0"

    @property
    def daemon(self) -> bool:
        """Whether it serves the node; a user's own process of such a name does not."""
        return self.name in DAEMONS and self.uid < FIRST_PERSON

    @property
    def works(self) -> bool:
        """Whether it may be somebody's job, which a reboot would end."""
        return not self.daemon and any(WORK.match(device) for device in self.devices)

    @property
    def job(self) -> str:
        """ "job 42" of Slurm, "pod 1f3c..." of Kubernetes; "" where its group does not tell."""
        if (found := _JOB.search(self.group)) is not None:
            return f"job {found[1]}"
        found = _POD.search(self.group)
        return f"pod {found[1].replace('_', '-')}" if found is not None else ""

    def __str__(self) -> str:
        job = f", {self.job}" if self.job else ""
        return f"{self.name}, pid {self.pid} of {self.account}{job}"


class Net(Struct, frozen=True):
    """A net device, and what is below it."""

    name: str
    modules: tuple[str, ...]  # of the drivers of its device; "builtin" for one in the kernel
    lower: tuple[str, ...]  # net devices that a bond, a bridge or a VLAN stands on


class Way(Struct, frozen=True):
    """By which net device something is reached."""

    kind: str  # "session", "route" or "server"
    subject: str  # the client's address, "default", the server's address
    net: str  # "?" where nobody knows


class Mount(Struct, frozen=True):
    """A file system of a disk or of the network, or a swap space."""

    type: str
    point: str  # "/data"
    source: str  # "/dev/nvme0n1p2", "10.0.0.5:/export"
    options: str
    modules: tuple[str, ...] = ()  # what drives its disk, from the disk up to the bus


class RemoteDisk(Struct, frozen=True):
    """A disk of a server, mounted or not."""

    name: str  # "nvme1", "host3"
    module: str  # "nvme_rdma": what would end it
    server: str = ""  # its address, where it is told


class Holding(Struct, frozen=True):
    """What a node's modules carry."""

    boot_id: str
    modules: dict[str, LoadedModule]
    users: tuple[User, ...]
    nets: dict[str, Net]
    ways: tuple[Way, ...]
    mounts: tuple[Mount, ...]
    remote: tuple[RemoteDisk, ...]
    guests: tuple[str, ...]  # virtual functions lent to virtual machines
    files: dict[str, bool]  # by module: whether the file that modules.dep names is there


def parse_users(evidence: Evidence) -> tuple[User, ...]:
    """The processes with devices open.

    :raises NeedsRoot: for who is not root, those of others are not to be seen.
    :raises Unparsable: where a process has no name: it ended amid the look.
    """
    if evidence.text("uid").strip() != "0":
        raise NeedsRoot("/proc/*/fd: permission denied")
    accounts: dict[str, str] = {}
    for line in evidence.text("accounts").split("\n")[:-1]:
        name, _, uid = line.rpartition(":")
        accounts.setdefault(uid, name)
    found = []
    for pid, lines in blocks(evidence.text("users"), "/proc/*/fd"):
        pairs = [line.partition(":\t")[::2] for line in lines]
        told = {key: value for key, value in pairs if key != "Device"}
        uid = told.get("Uid", "-1").split("\t")[0]
        devices = tuple(value for key, value in pairs if key == "Device")
        account = accounts.get(uid, uid)
        name = _printable(told.get("Name", "?"))  # it ended meanwhile, or nobody may look
        found.append(User(int(pid), name, int(uid), account, devices, told.get("Cgroup", "")))
    return tuple(found)


def _printable(escaped: str) -> str:
    """A process's name. It is its owner's to choose, so it may hold anything."""
    plain = _ESCAPED.sub(lambda m: {"n": "\n", "\\": "\\"}.get(m[1], "?"), escaped)
    return "".join(char if char.isprintable() else "?" for char in plain)


def parse_holding(evidence: Evidence) -> Holding:
    """Read the frames of holding.sh.

    :raises NoEvidence: where something could not be read: then nobody knows what depends.
    :raises Unparsable: at a line of another shape.
    """
    disks = {
        (number, source): _list(modules)
        for number, source, modules in _fields(evidence.text("disks"), "/sys/dev/block", 3)
    }
    found: dict[str, bool] = {}
    for line in evidence.text("module-files").split("\n")[:-1]:
        path, _, gone = line.partition(" ")
        stem = path.rpartition("/")[2].split(".ko", 1)[0].replace("-", "_")
        # Debian's packages name the files nvidia-current-open-peermem.ko and the like.
        name = re.sub(r"^nvidia_(current|tesla)(_[0-9]+)?(_open)?", "nvidia", stem)
        found[name] = found.get(name, False) or not gone
    return Holding(
        boot_id=evidence.text("boot-id").strip(),
        modules={each.name: each for each in parse_modules(evidence.text("modules"))},
        users=parse_users(evidence),
        nets={each.name: each for each in _nets(evidence.text("nets"))},
        ways=tuple(Way(*each) for each in _fields(evidence.text("ways"), "ways", 3)),
        mounts=tuple(
            Mount(kind, _unescaped(point), source, options, disks.get((number, source), ()))
            for kind, number, point, source, options in _fields(
                evidence.text("mounts"), "/proc/self/mountinfo", 5
            )
        ),
        remote=tuple(_remote(evidence.text("remote-disks"))),
        guests=tuple(evidence.text("guests").split()),
        files=found,
    )


def _fields(text: str, source: str, count: int) -> Iterator[list[str]]:
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        fields = line.split(" ")
        if len(fields) != count:
            raise Unparsable(source, line, number)
        yield fields


def _nets(text: str) -> Iterator[Net]:
    for name, kind, modules, lower in _fields(text, "/sys/class/net", 4):
        found = _list(modules)
        # IP over InfiniBand: ARPHRD_INFINIBAND. Its device is the HCA, its driver is another.
        yield Net(name, (*found, "ib_ipoib") if kind == "32" else found, _list(lower))


def _list(word: str) -> tuple[str, ...]:
    return () if word == "-" else tuple(word.split(","))


def _unescaped(point: str) -> str:
    """A path of mountinfo: blanks stand there as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), point)


_OF_DISK = re.compile(r"([^/]+)/([a-z_]+):(.*)")
_SCSI = {"ib_srp": "ib_srp", "iser": "ib_iser", "iscsi_iser": "ib_iser", "iscsi_tcp": "iscsi_tcp"}


def _remote(text: str) -> Iterator[RemoteDisk]:
    """ "nvme1/transport:rdma", "host3/proc_name:ib_srp", "connection1:0/address:10.0.0.5"."""
    told: dict[str, dict[str, str]] = {}
    for found in rows(text, _OF_DISK, "/sys/class/nvme, scsi_host"):
        told.setdefault(found[1], {})[found[2]] = found[3]
    for name, has in told.items():
        if "transport" in has:
            server = re.search(r"traddr=([^,\s]+)", has.get("address", ""))
            yield RemoteDisk(name, f"nvme_{has['transport']}", server[1] if server else "")
        elif has.get("proc_name", "") in _SCSI:
            yield RemoteDisk(name, _SCSI[has["proc_name"]])
        elif name.startswith("connection"):
            yield RemoteDisk(name, "iscsi_tcp", has.get("address", ""))
