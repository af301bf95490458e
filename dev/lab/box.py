"""Vagrant boxes of our own: layers of the lab on a disk, with a login as Vagrant wants it.

Which there are is told by vagrant/boxes.toml: debian12, with nothing but Debian, and those whose
row says what must fail there: a healthy node, and the same with one thing broken.

A box for vagrant-libvirt is an archive of three files: box.img, metadata.json and a Vagrantfile
(vagrant-libvirt, "Creating boxes"). This one brings the key of its user along: whoever has
the box may log in to machines made of it, and nobody else. ``exported.py`` has the same disks in
other forms.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from dev.lab.disk import SIZE_MB, _fill
from dev.lab.healthy import LIBRARY, healthy
from dev.lab.trees import system
from tests.builds.grounds import kept
from tests.builds.sandbox import Sandbox

NAME = "debian12"  # its row in vagrant/boxes.toml, and the host's own name
KERNEL = "6.1"
_VAGRANTFILE = """\
Vagrant.configure("2") do |config|
  config.ssh.private_key_path = File.expand_path("key", __dir__)
  config.ssh.insert_key = false # it is this box's own already
end
"""
_NETWORK = """\
[Match]
Name=eth* en*

[Network]
DHCP=ipv4
LinkLocalAddressing=no
IPv6AcceptRA=no

[DHCPv4]
ClientIdentifier=mac
"""
# Each machine has host keys of its own, made when it boots for the first time.
_FIRST_KEY = """\
[Unit]
Description=Host key of this machine
ConditionPathExists=!/etc/ssh/ssh_host_ed25519_key
Before=ssh.service

[Service]
Type=oneshot
ExecStart=/usr/bin/ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key

[Install]
RequiredBy=ssh.service
"""


def login() -> Path:
    """The private key of whoever has a box; its public half lies beside it."""
    return kept("lab-box-key", _make_key) / "key"


def box(name: str = NAME, tell: Callable[[str], None] = lambda _: None) -> Path:
    """A box as one file, made once; to be read only.

    :raises NotToBeHad: where it cannot be made.
    """
    raw = box_disk(name, tell)

    def pack(folder: Path) -> None:
        tell("packing the box")
        _pack(folder / "box", raw, login())

    return kept(raw.parent.name.replace("-disk-", "-"), pack) / "box"


def box_disk(
    name: str,
    tell: Callable[[str], None] = lambda _: None,
    fit: Callable[[tuple[Path, ...]], tuple[Path, ...]] = lambda below: below,
) -> Path:
    """The raw disk of a box, made once; to be read only.

    :param fit: puts a layer over its system's, for a hypervisor that asks for more.
    :raises NotToBeHad: where it cannot be made.
    """
    below, public = fit(_below(name, tell)), login().with_name("key.pub").read_text()
    named = "\n".join((name, public, *(each.name for each in below), Path(__file__).read_text()))

    def make(folder: Path) -> None:
        tell(f"making the disk of {name}")
        with Sandbox(below) as box:
            _configure(box, name, public)
            if name not in (NAME, "healthy"):
                box.run(f"/{LIBRARY}/defect", name)
            _fill(folder / "disk.raw", box.root)

    digest = sha256(named.encode()).hexdigest()[:12]
    return kept(f"lab-box-disk-{name}-{digest}", make) / "disk.raw"


def _below(name: str, tell: Callable[[str], None]) -> tuple[Path, ...]:
    if name == NAME:
        return system(KERNEL, tell)
    tell("making a healthy node")
    return healthy()


def _make_key(folder: Path) -> None:
    words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "vagrant", "-f", folder / "key")
    subprocess.run(words, check=True, capture_output=True)


def _configure(box: Sandbox, name: str, public: str) -> None:
    """The user whom Vagrant expects, and nothing of the lab's own ways in."""
    box.run("useradd", "--create-home", "--shell", "/bin/bash", "vagrant")
    box.write("etc/sudoers.d/vagrant", "vagrant ALL=(ALL) NOPASSWD: ALL\n", 0o440)
    box.run("install", "-d", "-m", "700", "-o", "vagrant", "-g", "vagrant", "/home/vagrant/.ssh")
    box.write("home/vagrant/.ssh/authorized_keys", public, 0o600)
    box.run("chown", "vagrant:vagrant", "/home/vagrant/.ssh/authorized_keys")
    box.path("root/.ssh/authorized_keys").unlink(missing_ok=True)
    for path in box.path("etc/ssh").glob("ssh_host_*"):
        path.unlink()
    box.write("etc/systemd/system/first-host-key.service", _FIRST_KEY)
    box.run("systemctl", "enable", "first-host-key.service")
    box.run("systemctl", "disable", "lab-network.service")
    box.write("etc/systemd/network/50-box.network", _NETWORK)
    box.run("systemctl", "enable", "systemd-networkd.service")
    box.write("etc/hostname", f"{name}\n")
    box.write("etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
    box.write("etc/machine-id", "")


def _pack(target: Path, raw: Path, key: Path) -> None:
    gigabytes = -(-SIZE_MB // 1024)
    metadata = {"provider": "libvirt", "format": "qcow2", "virtual_size": gigabytes}
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        folder = Path(name)
        words = ("qemu-img", "convert", "-O", "qcow2", str(raw), str(folder / "box.img"))
        subprocess.run(words, check=True)
        (folder / "metadata.json").write_text(json.dumps(metadata) + "\n")
        (folder / "Vagrantfile").write_text(_VAGRANTFILE)
        # Level 1: a box is unpacked as often as it is packed, and better takes a minute.
        with tarfile.open(target, "w:gz", compresslevel=1) as archive:
            for each in ("metadata.json", "Vagrantfile", "box.img"):
                archive.add(folder / each, each)
            archive.add(key, "key")
