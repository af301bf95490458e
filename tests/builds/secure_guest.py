"""One guest with Secure Boot, before and after its owner enrolled our key; run once a session."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.builds.efi import boot, enrol_at_the_console
from tests.builds.grounds import tree
from tests.builds.layers import stack
from tests.builds.sandbox import Sandbox
from toolkit.built.io.openssl import der_of
from toolkit.built.plan.model import Built, BuiltFile, Inputs, Part
from toolkit.built.plan.signature import unsigned
from toolkit.built.signing import Signing, open_signing
from toolkit.evidence import Evidence
from toolkit.features.enrol.run import script as enrol_script
from toolkit.node.collect import probe_script

PASSWORD = "bcdefghijklm"  # noqa: S105 for a guest that lives a minute
NAME = "Site modules"
_PLAIN = {"nvidia-current-open": "nvidia", "nvidia-current-open-peermem": "nvidia-peermem"}
# What the checks that are asked here rest on; one that rested on more would not know.
_KEYS = (
    "boot-id cmdline dmesg efi-secureboot exports kallsyms kernel-config kernel-release kernels "
    "lockdown modprobe-config module-deps module-state modules nvidia-modinfo peermem-elf "
    "peermem-files peermem-modinfo peermem-resolve peermem-verified rdma-modinfo sig-enforce "
    "tainted trusted-keys uid"
)
_SCRIPT = r"""
cd /gdr || exit 1
kernel=$(uname -r)
modprobe efivarfs
# By the system call itself, mount(2) on x86_64: the tree has no program for it.
perl -e 'my @w = ("none", "/sys/firmware/efi/efivars", "efivarfs");
    exit !!syscall(165, $w[0], $w[1], $w[2], 0, 0)' || exit 1
say() {
    read -r up _ </proc/uptime
    printf '\n%%%% up %s\n@@ %s\n' "$up" "$*"
}
try() { # try NAME: put that nvidia-peermem in place and load it
    cp "/gdr/$1/nvidia-peermem.ko" "/lib/modules/$kernel/updates/dkms/" || exit 1
    dmesg --clear
    say "modprobe $1"
    modprobe nvidia-peermem
    echo "status $?"
    say "dmesg $1"
    dmesg
    say "modules $1"
    cut -d ' ' -f 1-4 /proc/modules
    [ "$1" != before ] || return 0 # as that of a foreign key, and a probe takes long here
    say "evidence $1"
    sh probe.sh
}
if [ ! -e second ]; then
    try before
    for step in look import revoke again; do
        say "$step"
        sh "$step.sh"
        say "list-new $step"
        mokutil --list-new
    done
    : >second
    sync
    echo u >/proc/sysrq-trigger
    echo b >/proc/sysrq-trigger
    sleep 60
fi
say enrolled
sh look.sh
for each in unsigned foreign tampered ours; do try "$each"; done
say 'unload nvidia'
modprobe -r nvidia 2>&1
say 'unload nvidia-peermem'
modprobe -r nvidia-peermem && cut -d ' ' -f 1-4 /proc/modules
"""


@dataclass(frozen=True, slots=True)
class Story:
    """What was said, by what was done."""

    parts: Mapping[str, str]
    certificate: bytes  # ours, DER
    seconds: float

    def evidence(self, name: str) -> Evidence:
        return Evidence.parse(self.parts[f"evidence {name}"])


def story(folder: Path) -> Story:
    """Run the guest, or take what another worker of this session has run.

    :param folder: shared by the workers.
    """
    kept = folder / "secure-guest.json"
    with _alone(folder / "secure-guest.lock"):
        if not kept.exists():
            kept.write_text(json.dumps(_run(folder)))
        found = json.loads(kept.read_text())
    return Story(found["parts"], bytes.fromhex(found["certificate"]), found["seconds"])


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(folder: Path) -> dict[str, object]:
    ours, der = _signing(folder / "ours", NAME)
    theirs, _ = _signing(folder / "theirs", "Somebody else")
    at = folder / "guest"
    at.mkdir()
    with Sandbox.of("guest") as box:
        kernel = _lay(box, ours, theirs)
        scripts = {
            "probe": _short_probe(),
            "look": enrol_script("look", der, ""),
            "import": enrol_script("import", der, PASSWORD),
            "again": enrol_script("import", der, PASSWORD),
            "revoke": enrol_script("revoke", der, ""),
        }
        for name, text in scripts.items():
            box.write(f"gdr/{name}.sh", text)
        told = boot(
            box.root,
            kernel,
            _SCRIPT,
            append="module.sig_enforce=1",
            folder=at,
            operator=lambda console: enrol_at_the_console(console, PASSWORD),
        )
    shutil.rmtree(at)
    found = re.split(r"^@@ (.+)\n", told.out, flags=re.MULTILINE)
    return {
        "parts": dict(zip(found[1::2], found[2::2], strict=True)),
        "certificate": der.hex(),
        "seconds": told.seconds,
    }


def _short_probe() -> str:
    """The probe, which reads only the sources in ``_KEYS``: all of it takes half a minute here.

    What a command would have told counts as not answered, so that no check rests on its absence.
    """
    text, *last = probe_script().rstrip("\n").rsplit("\n", 2)  # "probe", and its brace
    for name, otherwise in (("take", ":"), ("file", ":"), ("cmd", 'frame "$1" timeout "$2"')):
        assert text.count(f"\n{name}() {{") == 1
        text = text.replace(f"\n{name}() {{", f"\n{name}_all() {{")
        chosen = f'*" $1 "*) {name}_all "$@" ;; *) {otherwise} ;;'
        text += f"\n{name}() {{ case ' {_KEYS} ' in {chosen} esac; }}"
    return "\n".join([text, *last, ""])


def _lay(box: Sandbox, ours: Signing, theirs: Signing) -> str:
    """The stack, signed by our key; and nvidia-peermem in every state that it can be in."""
    with stack("bookworm", peermem=True) as built:
        kernel = built.kernel("6.1.")
        names = sorted(built.path(f"lib/modules/{kernel}/updates/dkms").glob("*.ko"))
        files = {
            _PLAIN.get(each.stem, each.stem): unsigned(each.name, each.read_bytes())
            for each in names
        }
        config = {"CONFIG_MODULE_SIG_HASH": "sha256"}
    inputs = Inputs(Part.PEERMEM, "p", "1", kernel, "x86_64", *[""] * 6)
    plain = Built(inputs, tuple(BuiltFile(f"{name}.ko", data) for name, data in files.items()))
    signed = {each.name: each.data for each in ours.signed(plain, config).modules}
    foreign = {each.name: each.data for each in theirs.signed(plain, config).modules}
    _only(box, kernel)
    for name, data in signed.items():
        box.write(f"lib/modules/{kernel}/updates/dkms/{name}", data)
    peermem = "nvidia-peermem.ko"
    whole = bytearray(signed[peermem])
    at = whole.index(b"Yishai")  # a word of the module's own, in what the kernel would show
    whole[at] ^= 1
    variants = {
        "before": signed[peermem],
        "ours": signed[peermem],
        "foreign": foreign[peermem],
        "unsigned": files["nvidia-peermem"],
        "tampered": bytes(whole),
    }
    for name, data in variants.items():
        box.write(f"gdr/{name}/{peermem}", data)
    # Nodes that build by DKMS have it, and the small tree has not.
    box.write("usr/bin/openssl", (tree("bookworm") / "usr/bin/openssl").read_bytes(), 0o755)
    box.run("depmod", kernel)
    return kernel


def _only(box: Sandbox, kernel: str) -> None:
    """A small disk: of the kernels this one, of its modules those that are needed."""
    for other in box.path("lib/modules").iterdir():
        if other.name != kernel:
            shutil.rmtree(other)
            box.path(f"boot/vmlinuz-{other.name}").unlink()
    for path in box.path(f"lib/modules/{kernel}/kernel").rglob("*.ko"):
        keep = ("fs/efivarfs", "fs/ext4", "fs/jbd2", "fs/mbcache", "lib", "crypto", "virtio")
        if not any(f"/{each}" in str(path) for each in keep):
            path.unlink()


def _signing(folder: Path, name: str) -> tuple[Signing, bytes]:
    folder.mkdir()
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ("openssl", "req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30",
         "-subj", f"/CN={name}/", "-addext", "extendedKeyUsage=codeSigning",
         "-keyout", key, "-out", certificate), check=True, capture_output=True,
    )  # fmt: skip
    key.chmod(0o600)
    found = open_signing(str(key), str(certificate), None, now=datetime.now(UTC))
    assert found is not None
    return found, der_of(certificate)
