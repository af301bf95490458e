"""Collections that support tools make of one node: sosreport, sysinfo-snapshot.

They name each file after what it holds, and hold thousands that tell nothing here: names say which
to read. sosreport writes "nvidia-smi topo -m" as sos_commands/nvidia/nvidia-smi_topo_-m; of a
sysinfo-snapshot names have lost their dashes (commands_txt_output/nvidiasmi_topo_m.txt), so that
there content tells. Sources: sosreport/sos sos/report/plugins/__init__.py, _mangle_command;
Mellanox/linux-sysinfo-snapshot sysinfo-snapshot.py, add_txt_command_output, add_ext_file_handler.
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
