"""The key that opens every guest, and the one that every guest shows: made once, kept."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.builds.grounds import kept


@dataclass(frozen=True, slots=True)
class Keys:
    """Two pairs; no guest is reachable but through loopback."""

    folder: Path

    @property
    def private(self) -> Path:
        """For ssh -i."""
        return self.folder / "user"

    @property
    def public(self) -> str:
        return (self.folder / "user.pub").read_text()

    @property
    def host(self) -> Path:
        """The guests' own private key; its public half lies beside it."""
        return self.folder / "host"

    def known_host(self, port: int) -> str:
        """A line of known_hosts."""
        kind, key, *_ = (self.folder / "host.pub").read_text().split()
        return f"[127.0.0.1]:{port} {kind} {key}\n"


def keys() -> Keys:
    """Those of this machine's cache."""
    return Keys(kept("lab-keys", _make))


def _make(folder: Path) -> None:
    for name in ("user", "host"):
        subprocess.run(
            ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", folder / name),
            check=True,
            capture_output=True,
        )
