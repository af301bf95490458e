"""A file for node_exporter's textfile collector: whole or not at all."""

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
