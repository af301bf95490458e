"""Prometheus' own promtool, out of Debian's package: unpacked, since installing starts a server."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.builds.grounds import kept


def _fetch(folder: Path) -> None:
    get = ("apt-get", "-q", "-o", "APT::Sandbox::User=")
    download = (*get, "download", "prometheus")
    if subprocess.run(download, cwd=folder, capture_output=True, check=False).returncode:
        # What the lists name may have been superseded since they were read: read some of our own.
        lists = ("-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache")
        subprocess.run((*get, *lists, "update"), check=True, timeout=300)
        subprocess.run(
            (*get, *lists, "download", "prometheus"), cwd=folder, check=True, timeout=300
        )
    (archive,) = folder.glob("*.deb")
    subprocess.run(("dpkg-deb", "-x", str(archive), str(folder / "unpacked")), check=True)


def promtool(*words: str, given: str = "") -> tuple[int, str]:
    """Run it on the text given.

    :returns: the status, and what was said.
    """
    program = kept("promtool", _fetch) / "unpacked" / "usr" / "bin" / "promtool"
    done = subprocess.run(
        (str(program), *words), input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout
