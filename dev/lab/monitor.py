"""QEMU's monitor: what it is told over its socket (QMP), and what it answers."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from toolkit.errors import ExitCode, ToolkitError


class LabError(ToolkitError):
    """A guest did not do what every guest does; it may still be running."""

    exit_code = ExitCode.UNREACHABLE


def ask(control: Path, verb: str, given: Mapping[str, object], *, limit_s: float) -> object:
    """One command; what it returns.

    :param control: the monitor's socket; nobody else may be talking to it.
    :param limit_s: for each answer.
    :raises LabError: the command was refused.
    :raises OSError: the guest has ended.
    """
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(limit_s)
        _connect(line, control)
        with line.makefile("rw") as file:
            file.readline()  # its greeting
            told: dict[str, object] = {}
            for asked in ({"execute": "qmp_capabilities"}, {"execute": verb, "arguments": given}):
                file.write(json.dumps(asked) + "\n")
                file.flush()
                told = json.loads(file.readline())
                while "event" in told:
                    told = json.loads(file.readline())
    if "error" in told:
        raise LabError(f"QEMU refused {verb}: {told['error']}")
    return told["return"]


def _connect(line: socket.socket, control: Path) -> None:
    """By way of the folder's descriptor: a socket's name has room for 107 bytes alone."""
    folder = os.open(control.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        line.connect(f"/proc/self/fd/{folder}/{control.name}")
    finally:
        os.close(folder)
