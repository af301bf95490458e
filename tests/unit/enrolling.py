"""Nodes with firmware of our own making, asked by the real script; their mokutil says what the
real one (0.6) says, and keeps its state in the node's tree.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path

from toolkit.hosts.host import Host
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.verbs.access import Access, Fleet

# They begin as certificates do, which is all that anybody looks at here.
DER = bytes.fromhex("30053003020100")
OTHER = bytes.fromhex("30053003020101")
SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
MOKUTIL = r"""#!/bin/sh
state=$GDR_ROOT/mok
print_of() { sha1sum <"$1" | cut -c 1-40; }
shown() { echo "$1" | sed 's/../&:/g; s/:$//'; }
has() { grep -qs "$1" "$state/$2"; }
echo "$*" >>"$state/calls"
case $1 in
    --test-key)
        if has "$(print_of "$2")" new; then echo "$2 is already in the enrollment request"
        elif has "$(print_of "$2")" list; then echo "$2 is already enrolled"; exit 1
        else echo "$2 is not enrolled"; fi ;;
    --list-new)
        for each in $(cat "$state/new" 2>/dev/null); do
            echo "[key 1]"
            echo "SHA1 Fingerprint: $(shown "$each")"
        done ;;
    --generate-hash)
        echo 'input password: '
        read -r first; echo 'input password again: '; read -r second
        [ "$first" = "$second" ] && [ -n "$first" ] || exit 255
        echo "\$6\$hash-of-$first" ;;
    --import)
        if [ -e "$state/full" ]; then echo 'Failed to enroll new keys' >&2; exit 255; fi
        if [ "$3" = --root-pw ] && [ -e "$state/yescrypt" ]; then
            echo 'Failed to get root password hash' >&2; exit 255
        fi
        if [ "$3" = --hash-file ]; then cat "$4" >"$state/auth"; ls -l "$4" >"$state/mode"
        else echo root >"$state/auth"; fi
        [ -e "$state/lost" ] || print_of "$2" >>"$state/new" ;;
    --revoke-import) [ -e "$state/stuck" ] || rm -f "$state/new" ;;
    *) exit 64 ;;
esac
"""


def print_of(der: bytes) -> str:
    return sha1(der, usedforsecurity=False).hexdigest()


@dataclass(slots=True)
class FirmwareNode:
    """A tree that answers as a node; also the way to reach it."""

    root: Path
    shell: tuple[str, ...] = ("sh",)
    name: str = "gpu01"
    scripts: list[str] = field(default_factory=list)

    @classmethod
    def made(
        cls,
        root: Path,
        *,
        efi: bool = True,
        shim: bool = True,
        secure: bool = True,
        lockdown: str = "none [integrity] confidentiality",
        sig_enforce: str = "N",
        shell: tuple[str, ...] = ("sh",),
    ) -> FirmwareNode:
        node = cls(root, shell)
        node.put("bin/mokutil", MOKUTIL).chmod(0o755)
        node.put("mok/calls", "")
        node.put("sys/kernel/security/lockdown", f"{lockdown}\n")
        node.put("sys/module/module/parameters/sig_enforce", f"{sig_enforce}\n")
        if efi:
            node.put(f"sys/firmware/efi/efivars/SecureBoot-{GLOBAL}", b"\6\0\0\0" + bytes([secure]))
        if efi and shim:
            node.put(f"sys/firmware/efi/efivars/MokListRT-{SHIM}", b"\6\0\0\0")
        return node

    def put(self, path: str, content: str | bytes) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def read(self, path: str) -> str:
        target = self.root / path
        return target.read_text() if target.exists() else ""

    @property
    def calls(self) -> list[str]:
        """What mokutil was called with: its first word."""
        return [line.split()[0] for line in self.read("mok/calls").splitlines()]

    def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
        self.scripts.append(script)
        done = subprocess.run(
            [*self.shell, "-s"],
            input=script,
            env={
                "PATH": "/usr/bin:/bin",
                "GDR_ROOT": str(self.root),
                "GDR_BIN": f"{self.root}/bin",
            },
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def close(self) -> None:
        """Nothing is open."""


def fleet_of(**nodes: FirmwareNode) -> Fleet:
    for name, node in nodes.items():
        node.name = name
    return Fleet(tuple(Host(name) for name in nodes), lambda host: nodes[host.name], Access())
