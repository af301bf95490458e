"""Collections that support tools make: sosreport, sysinfo-snapshot, the Network Operator's.

They name each file after what it holds, and hold thousands that tell nothing here: names say which
to read. sosreport writes "nvidia-smi topo -m" as sos_commands/nvidia/nvidia-smi_topo_-m; of a
sysinfo-snapshot names have lost their dashes (commands_txt_output/nvidiasmi_topo_m.txt), so that
there content tells. The Network Operator's is of a cluster, and has a node in each file's name.
Sources: sosreport/sos sos/report/plugins/__init__.py, _mangle_command;
Mellanox/linux-sysinfo-snapshot sysinfo-snapshot.py, add_txt_command_output, add_ext_file_handler;
Mellanox/network-operator scripts/sosreport/kubectl-netop_sosreport (August 2026),
run_diagnostic_command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from toolkit.facts.kinds import Kind, commanded

SOS, SNAPSHOT = "sos_commands", "commands_txt_output"  # folders that are in these alone
_FILES = {
    "proc/cmdline": "cat /proc/cmdline",
    "proc/version": "cat /proc/version",
    "proc/modules": "cat /proc/modules",
    "proc/driver/nvidia/version": "cat /proc/driver/nvidia/version",
    "etc/os-release": "cat /etc/os-release",
    "usr/lib/os-release": "cat /etc/os-release",
    "etc/default/grub": "cat /etc/default/grub",
    "var/log/fabricmanager.log": "cat /var/log/fabricmanager.log",
}
_OF_SNAPSHOT = re.compile(r"(?:commands_txt_output|pcie_files)/[^/]+|[^/]+")
_SECTIONS = re.compile(r"_-?d_")  # some sections of an answer
# Of one report, what only fills it: journals in binary form, sysfs, its own logs.
_BULK = re.compile(
    r"(?:^|/)sosreport[^/]*/(?:sys|sos_logs|sos_reports|sos_strings|var/log/(?!fab))"
)


# Of a cluster: what its driver pods said, each "NODE-NAME.txt"; the rest tells of Kubernetes.
_OF_CLUSTER = re.compile(
    r"(?P<root>(?:.*/)?)operator/components/[^/]+/diagnostics/(?P<node>.+)-"
    r"(?P<name>[a-z]+(?:_[a-z]+)*)\.txt"
)


_SOME_LINES = frozenset({"lsmod"})  # of modules with "mlx" in their names alone


def of_cluster(names: Iterable[str]) -> dict[str, str]:
    """Files of a Network Operator's report by their names, as folders of nodes have them.

    Of such a report the files that are left out tell nothing of a node: "" stands for them.
    """
    listed = list(names)
    found = {name: each for name in listed if (each := _OF_CLUSTER.fullmatch(name))}
    tops = {each["root"] for each in found.values()}
    placed = {
        name: "" if each["name"] in _SOME_LINES else f"{each['node']}/{each['name']}.txt"
        for name, each in found.items()
    }
    rest = (name for name in listed if name not in found and any(map(name.startswith, tops)))
    return placed | dict.fromkeys(rest, "") if tops else {}


def is_bulk(name: str) -> bool:
    """Whether a file of a sosreport is of those that are not read, whatever their size."""
    return _BULK.search(name) is not None


def roots(names: Iterable[str]) -> dict[str, str]:
    """Where collections begin among these paths ("" for the very top), and by what it is told."""
    found: dict[str, str] = {}
    for name in names:
        parts = name.split("/")
        marks = [mark for mark in (SOS, SNAPSHOT) if mark in parts[:-1]]
        if marks:
            found["/".join(parts[: parts.index(marks[0])])] = marks[0]
    return found


def below(root: str, name: str) -> str | None:
    """The path below a root; None for a file elsewhere."""
    if not root:
        return name
    return name[len(root) + 1 :] if name.startswith(f"{root}/") else None


def kind_of(path: str) -> Kind | None:
    """What a file of a collection holds, by its path below the root; None where that is untold."""
    if path in _FILES:
        return commanded(_FILES[path])
    folder, _, name = path.rpartition("/")
    if not folder.startswith((SOS, SNAPSHOT)) and folder not in {"", "pcie_files"}:
        return None
    words = name.removesuffix(".txt").split("_")
    for kept in range(1, min(len(words), 4) + 1):  # underscores of the command's own name
        command = " ".join(["_".join(words[:kept]), *words[kept:]])
        if (found := commanded(command)) is not None:
            return found
    return None


def may_tell(mark: str, path: str) -> bool:
    """Whether a file whose name says nothing may be known by its content."""
    return mark == SNAPSHOT and _OF_SNAPSHOT.fullmatch(path) is not None


def tells_more(path: str, length: int) -> tuple[bool, int]:
    """By which of two files of one kind the one is chosen that tells more."""
    return not _SECTIONS.search(path), length
