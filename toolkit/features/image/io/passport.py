"""Read what an image's passport tells, and put it in its place: one round trip each."""

from __future__ import annotations

import shlex

from toolkit.errors import ApplyError
from toolkit.evidence import Evidence
from toolkit.node.scripts import FOLDER
from toolkit.ssh.transport import Transport

_END = "GDR_END"


def passport_script() -> str:
    """The script that reads what a passport tells, as one text."""
    files = ("frames.sh", "probe_elf.sh", "passport.sh")
    return "#!/bin/sh\n" + "\n".join((FOLDER / file).read_text("utf-8") for file in files)


def read_parts(transport: Transport, *, limit_s: float = 300) -> Evidence:
    """Kernels, modules and what we placed, of an image or of a node.

    :raises TransportError: the script did not run to its end.
    """
    return Evidence.parse(transport.run(passport_script(), limit_s=limit_s).stdout)


def place(transport: Transport, files: dict[str, str], *, limit_s: float = 60) -> None:
    """Put text files in place, each whole or not at all; owner root, mode 644.

    :param files: text by absolute path, of plain characters and with a newline at its end.
    :raises ApplyError: one could not be written.
    """
    lines = ["set -eu", "umask 022", "root=${GDR_ROOT:-}", "root=${root%/}"]
    for path, text in files.items():
        folder, _, name = path.rpartition("/")
        beside = f'"$root"{shlex.quote(f"{folder}/.{name}.gdr-toolkit-new")}'
        lines += [
            f'mkdir -p "$root"{shlex.quote(folder)}',
            f"cat >{beside} <<'{_END}'\n{text}{_END}",
            f"chmod 644 {beside}",
            f"sync {beside} 2>/dev/null || sync",
            f'mv -f {beside} "$root"{shlex.quote(path)}',
        ]
    done = transport.run("\n".join([*lines, "echo placed", ""]), limit_s=limit_s)
    if done.exit or "placed" not in done.stdout:
        said = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        raise ApplyError(
            f"{transport.name}: {', '.join(files)} could not be placed: {said[:200]}",
            hint="is the file system full, or mounted read-only?",
        )
