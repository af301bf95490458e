"""The files that reports are written to, that of node_exporter's textfile collector too."""

from __future__ import annotations

from pathlib import Path

from toolkit.errors import UsageError
from toolkit.safe_file import Beside, open_beside

SUFFIX = ".prom"


def textfile_at(path: str) -> Path:
    """The place of the file, looked at before any node is asked.

    :raises UsageError: where the collector would not read it, or nothing can be written there.
    """
    file = Path(path)
    if file.suffix != SUFFIX:
        raise UsageError(
            f"--textfile {path}: node_exporter reads *{SUFFIX} alone",
            hint=f"name it so: nodes{SUFFIX}",
        )
    if not file.parent.is_dir():
        raise UsageError(
            f"--textfile {path}: there is no folder {file.parent}",
            hint="make it, and name it to node_exporter: --collector.textfile.directory",
        )
    if file.exists() and not file.is_file():
        raise UsageError(f"--textfile {path}: is not a file", hint="name an ordinary file")
    return file


def read_textfile(file: Path) -> str:
    """What an earlier run wrote; "" where there is nothing to be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def open_textfile(file: Path) -> Beside:
    """Begin to write the file, readable for the collector whatever the umask.

    :raises UsageError: it cannot be written; the file that was there stays.
    """
    try:
        return open_beside(file, 0o644, exact=True)  # its name has no .prom at its end until then
    except OSError as why:
        raise UsageError(f"--textfile {file}: {why.strerror}", hint="name another file") from why


def open_report(option: str, path: str) -> Beside:
    """The file of a report, opened before any node is asked; to be dropped if nothing comes.

    :raises UsageError: no file can be there.
    """
    if option == "textfile":
        return open_textfile(textfile_at(path))
    file = Path(path)
    if file.is_dir():
        raise UsageError(f"{file} is a folder", hint=f"name a file: --{option} nodes.{option}")
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent}: no such folder", hint="make it, or name another")
    try:
        return open_beside(file)
    except OSError as why:
        raise UsageError(
            f"--{option} {file}: {why.strerror}", hint="name a file that can be written"
        ) from why
