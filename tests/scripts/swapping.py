"""A scratch node with DKMS's tree and installed modules, for the program that rebuilds.

Modules are lines of text, and kmod and DKMS are stand-ins; the real ones are in tests/builds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from toolkit.plan.templates import TEMPLATES, render_text

KERNEL, PACKAGE, VERSION = "6.8.0-45-generic", "nvidia-peermem", "580.1"
ARCH = "any64"  # so that no module is of another machine
MODULE = "nvidia-peermem.ko"
PARTS = ("gate.sh", "aside.sh", "swap.sh")
ROOTS = ("/var/lib/", "/lib/modules", "/usr/src", "/boot/")
CHANGERS = ("mv", "rm", "cp", "ln", "mkdir", "rmdir", "chmod", "depmod")
# Ends itself and all that called it, on the time that $AT says; else it does what it is named.
KILLER = """#!/bin/sh
n=0
{ read -r n <"$HOME/calls"; } 2>/dev/null
n=$((n + 1))
echo "$n" >"$HOME/calls"
[ "$n" != "$AT" ] || kill -9 0
exec REAL "$@"
"""
DEPMOD = """#!/bin/sh
[ ! -e "$HOME/depmod-fails" ] || exit 1
[ ! -e "$HOME/depmod-kills" ] || kill -9 0
find -L "$HOME/lib/modules/$2" -type f -name '*.ko' | sort >"$HOME/found" &&
    mv "$HOME/found" "$HOME/modules.dep"
"""
MODINFO = """#!/bin/sh
[ "$1" != -k ] || shift 2
found() { grep "/$1\\.ko$" "$HOME/modules.dep" | tail -n 1; }
case $1 in
    -n) file=$(found "$2") && [ -e "$file" ] && echo "$file" ;;
    -F) file=$3; [ -e "$file" ] || file=$(found "$3"); sed -n "s/^$2=//p" "$file" ;;
esac
"""
# Installs as DKMS does where nothing of that name is installed yet.
DKMS = """#!/bin/sh
echo "$*" >>"$HOME/said"
while [ $# -gt 0 ]; do
    case $1 in -m) name=$2 ;; -v) version=$2 ;; -k) kernel=$2 ;; -a) arch=$2 ;; esac
    shift
done
live=$HOME/var/lib/dkms/$name to=$HOME/lib/modules/$kernel/updates/dkms
mkdir -p "$to" && cp "$live/$version/$kernel/$arch/module"/*.ko "$to/" &&
    ln -sfn "$version/$kernel/$arch" "$live/kernel-$kernel-$arch" && depmod -a "$kernel"
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A folder that is the root of all that the program looks at."""

    root: Path
    shell: tuple[str, ...]

    @property
    def installed(self) -> Path:
        return self.root / f"lib/modules/{KERNEL}/updates/dkms/{MODULE}"

    @property
    def tree(self) -> Path:
        return self.root / "var/lib/dkms" / PACKAGE

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    @property
    def journals(self) -> Path:
        return self.root / "var/lib/gdr-toolkit/swaps"

    def command(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def build(self, tree: Path, version: str, text: str) -> Path:
        """A build as DKMS keeps it; returns its folder for that kernel."""
        at = self.add(tree, version)
        self.write(at / KERNEL / ARCH / "log/make.log", text)
        self.write(at / KERNEL / ARCH / "module" / MODULE, text)
        return at / KERNEL

    def add(self, tree: Path, version: str) -> Path:
        """As "dkms add" does; returns the folder of that version."""
        conf = self.write(self.root / f"usr/src/{PACKAGE}-{version}/dkms.conf", "")
        at = tree / version
        at.mkdir(parents=True, exist_ok=True)
        if not (at / "source").is_symlink():
            (at / "source").symlink_to(conf.parent)
        return at

    def install(self, version: str, text: str) -> None:
        """Have a build installed, as DKMS would."""
        self.build(self.tree, version, text)
        self.write(self.installed, text)
        link = self.tree / f"kernel-{KERNEL}-{ARCH}"
        link.unlink(missing_ok=True)
        link.symlink_to(f"{version}/{KERNEL}/{ARCH}")
        self.run("depmod", "-a", KERNEL)

    def state(self) -> dict[str, str]:
        """Every file and link of DKMS's tree and of the kernel's modules."""
        found = {}
        for top in (self.root / "var/lib/dkms", self.root / "lib/modules"):
            for path in top.rglob("*"):
                name = str(path.relative_to(self.root))
                if path.is_symlink():
                    found[name] = f"-> {path.readlink()}"
                elif path.is_file():
                    found[name] = path.read_text()
        return found

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            env={"PATH": f"{self.root}/bin:{os.environ['PATH']}", "HOME": str(self.root), **env},
            capture_output=True, text=True, check=False, start_new_session=True, timeout=60,
        )  # fmt: skip

    def call(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """One of the functions."""
        return self.run(*self.shell, str(self.root / "functions.sh"), *words, **env)

    def swap(self, **env: str) -> subprocess.CompletedProcess[str]:
        return self.call("swap", str(self.scratch), KERNEL, PACKAGE, VERSION, **env)

    def program(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """The whole program that rebuilds."""
        return self.run(*self.shell, str(self.root / "rebuild"), *words, **env)

    def may_be_killed(self) -> None:
        """From now on $AT says before which change to a file all of it is killed."""
        for name in CHANGERS:
            own, moved = self.root / "bin" / name, self.root / "bin" / f"real-{name}"
            if own.exists():
                own.rename(moved)
            real = moved if moved.exists() else shutil.which(name)
            self.command(name, KILLER.replace("REAL", str(real)))


def below(root: Path, text: str) -> str:
    """A script that takes that folder for the root of the machine."""
    for top in ROOTS:
        text = text.replace(top, f"{root}{top}")
    return text


def node(root: Path, shell: tuple[str, ...]) -> Node:
    """Nothing is installed yet; a new build lies aside, in the scratch folder."""
    made = Node(root, shell)
    for name, text in (("depmod", DEPMOD), ("modinfo", MODINFO), ("dkms", DKMS)):
        made.command(name, text)
    quiet = (("id", "echo 0"), ("uname", f"echo {ARCH}"), ("logger", ":"), ("modprobe", ":"))
    for name, body in quiet:
        made.command(name, f"#!/bin/sh\n{body}\n")
    texts = {
        "functions.sh": "\n".join((TEMPLATES / "dkms" / each).read_text() for each in PARTS)
        + '\n"$@"\n',
        "rebuild": render_text("dkms/rebuild.sh.j2", {}),
    }
    for name, text in texts.items():
        (root / name).write_text(below(root, text))
    (root / f"lib/modules/{KERNEL}").mkdir(parents=True)
    made.add(made.tree, VERSION)
    made.build(made.scratch / "dkms" / PACKAGE, VERSION, "new\n")
    return made
