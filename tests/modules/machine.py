"""A captured machine: a folder with the modules of a node, read by the real probe and kmod."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.evidence.board import BOARD
from tests.evidence.build import node
from tests.modules.building import run
from toolkit.evidence import Evidence, Frame
from toolkit.node.collect import probe_script

REGISTER = "ib_register_peer_memory_client"
# kmod is told where the machine lies, and the paths that it prints are the machine's own.
_WRAPPER = """\
#!/bin/sh
root=$GDR_ROOT
for word; do
    shift
    case $word in /lib/*) word=$root$word ;; esac
    set -- "$@" "$word"
done
said=$({call} "$@")
status=$?
printf '%s\\n' "$said" | sed "s|$root||g"
exit $status
"""


@dataclass(slots=True)
class Machine:
    """Files below a root that stands for a node's."""

    root: Path
    release: str
    loaded: dict[str, str] = field(default_factory=dict)  # srcversion by module
    symbols: dict[str, str] = field(default_factory=dict)  # live symbol, its module
    blocked: str = ""  # lines of modprobe.d
    enforce: str = "N"
    tainted: int = 4096
    keys: dict[str, str] = field(default_factory=dict)  # key id by common name
    enrolled: str = ""  # certificates as mokutil lists them; then the keys are in .machine

    def put(self, module: Path, name: str = "") -> None:
        """Install a module file; the name says how it is packed."""
        target = self.root / f"lib/modules/{self.release}/updates/dkms/{name or module.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".ko":
            shutil.copy(module, target)
            return
        tool = {".xz": ("xz", "--check=crc32"), ".zst": ("zstd", "-q"), ".gz": ("gzip",)}
        packed = subprocess.run(
            [*tool[target.suffix], "-c"], input=module.read_bytes(), capture_output=True, check=True
        )
        target.write_bytes(packed.stdout)

    def load(self, module: Path, *symbols: str) -> None:
        """Make the machine look as if the module were loaded."""
        name = module.name.split(".ko")[0].replace("-", "_")
        told = run("modinfo", "-F", "srcversion", module).strip()
        self.loaded[name] = told
        self.symbols |= dict.fromkeys(symbols, name)

    def _text(self, path: str, content: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)

    def _write(self) -> None:
        for name, srcversion in self.loaded.items():
            self._text(f"sys/module/{name}/initstate", "live\n")
            self._text(f"sys/module/{name}/srcversion", f"{srcversion}\n")
        self._text("sys/module/module/parameters/sig_enforce", f"{self.enforce}\n")
        self._text("proc/sys/kernel/tainted", f"{self.tainted}\n")
        self._text("proc/sys/kernel/osrelease", f"{self.release}\n")
        self._text("proc/sys/kernel/random/boot_id", "0b5c7f0e-3b1f-4a53-9d3e-5d9d8a1f2c11\n")
        self._text("proc/cmdline", "root=/dev/sda1 ro\n")
        self._text(f"boot/config-{self.release}", "CONFIG_MODVERSIONS=y\n")
        self._text("etc/modprobe.d/site.conf", self.blocked)
        rows = [f"{0:016x} T {name}\t[{owner}]\n" for name, owner in self.symbols.items()]
        self._text("proc/kallsyms", "".join(rows))
        row = "00000000 I------     1 perm 1f030000     0     0"
        lines = [f"{row} keyring   .builtin_trusted_keys: {len(self.keys)}\n"]
        lines += [
            f"{row} asymmetri {name}: {key}: X509.rsa {key[-8:]} []\n"
            for name, key in self.keys.items()
        ]
        self._text("proc/keys", "".join(lines))
        modules = self.root / f"lib/modules/{self.release}"
        for name in ("modules.order", "modules.builtin"):
            (modules / name).touch()
        run("depmod", "-b", self.root, self.release)

    def _tell_of_keys(self, folder: Path) -> None:
        """keyctl and mokutil, as on a machine that was booted by EFI."""
        (self.root / "sys/firmware/efi").mkdir(parents=True, exist_ok=True)
        rows = [f"1: ---lswrv 0 0 asymmetric: {name}: {key}\n" for name, key in self.keys.items()]
        said = {"keyctl": "".join(rows), "mokutil": self.enrolled}
        asked = {"keyctl": "%:.machine", "mokutil": "--list-enrolled"}
        for name, text in said.items():
            self._text(f"said/{name}", text)
            answer = f'cat "$GDR_ROOT/said/{name}"'
            line = f"case $* in *{asked[name]}*) {answer} ;; *) exit 1 ;; esac\n"
            (folder / name).write_text(f"#!/bin/sh\n{line}")
            (folder / name).chmod(0o755)

    def _commands(self, *, old_kmod: bool) -> Path:
        folder = self.root / "bin"
        folder.mkdir(exist_ok=True)
        if self.enrolled:
            self._tell_of_keys(folder)
        config = f'-C "$root/etc/modprobe.d" -d "$root" -S {self.release}'
        calls = {
            "modprobe": f"/usr/sbin/modprobe {config}",
            "modinfo": '/usr/sbin/modinfo -b "$root"',
        }
        for name, call in calls.items():
            text = _WRAPPER.format(call=call)
            if old_kmod:
                refusal = 'case " $* " in *" --show-exports "*) exit 1 ;; esac\n'
                text = text.replace("root=$GDR_ROOT\n", f"root=$GDR_ROOT\n{refusal}")
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        return folder

    def read(self, *shell: str, old_kmod: bool = False) -> Evidence:
        """What the probe reads here; PCI, which a folder has not, is that of a healthy node."""
        self._write()
        commands = self._commands(old_kmod=old_kmod)
        done = subprocess.run(
            [*(shell or ("sh",)), "-s"],
            input=probe_script(),
            env={
                "GDR_ROOT": str(self.root),
                "GDR_BIN": str(commands),
                "PATH": f"{commands}:/usr/bin:/bin",
            },
            capture_output=True,
            text=True,
            check=True,
        )
        assert not done.stderr, done.stderr
        probed = Evidence.parse(done.stdout)
        assert probed.complete
        healthy = node(board=BOARD)
        frames: dict[str, Frame] = dict(probed.frames)
        for key in (*BOARD.frames(), "cpu"):
            frames[key] = healthy.frames[key]
        return Evidence(frames, complete=True)
