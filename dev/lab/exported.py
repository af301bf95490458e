"""Boxes in other forms than Vagrant's: an appliance, a container's disk, a plain disk.

An appliance (.ova) is an OVF package in one tar: DMTF DSP0243 1.1, and of it what VirtualBox reads
(src/VBox/Main/xml/ovfreader.cpp). A container's disk is an OCI layout in a tar, whose image has the
disk below /disk for user 107, as KubeVirt's containerDisk has it.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from dev.lab.box import KERNEL, box_disk, login
from dev.lab.disk import SIZE_MB
from dev.lab.trees import _boot_loader, releases
from tests.builds.grounds import kept
from tests.builds.layers import layer
from tests.builds.sandbox import Sandbox
from tests.builds.sources import unpacked
from toolkit import __version__

FORMS = {"ova": ".ova", "oci": ".oci.tar", "qcow2": ".qcow2"}
_SCSI = ("scsi_common", "scsi_mod", "sd_mod", "virtio_scsi")
# VirtualBox gives a machine one node of memory, whatever the board's sockets say.
_NODES = 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX numa=fake=2"\n'
_CIM = "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_"
_ITEM = "      <Item>\n{}      </Item>\n"
_ITEMS: tuple[dict[str, str | int], ...] = (  # in the order of the schema within each: by name
    {"ElementName": "processor", "InstanceID": 1, "ResourceType": 3, "VirtualQuantity": 2},
    {
        "AllocationUnits": "byte * 2^20",
        "ElementName": "memory",
        "InstanceID": 2,
        "ResourceType": 4,
        "VirtualQuantity": 1024,
    },
    {
        "Address": 0,
        "ElementName": "controller",
        "InstanceID": 3,
        "ResourceSubType": "VirtioSCSI",
        "ResourceType": 20,
    },
    {
        "AddressOnParent": 0,
        "ElementName": "disk",
        "HostResource": "ovf:/disk/system",
        "InstanceID": 4,
        "Parent": 3,
        "ResourceType": 17,
    },
    {
        "AutomaticAllocation": "true",
        "Connection": "NAT",
        "ElementName": "network",
        "InstanceID": 5,
        "ResourceSubType": "virtio-net",
        "ResourceType": 10,
    },
)
_OVF = """\
<?xml version="1.0" encoding="UTF-8"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1"
    xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
    xmlns:rasd="{cim}ResourceAllocationSettingData"
    xmlns:vssd="{cim}VirtualSystemSettingData">
  <References>
    <File ovf:id="file" ovf:href="{name}.vmdk" ovf:size="{size}"/>
  </References>
  <DiskSection>
    <Info>The system, with its boot loader</Info>
    <Disk ovf:diskId="system" ovf:fileRef="file" ovf:capacity="{capacity}"
        ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/>
  </DiskSection>
  <NetworkSection>
    <Info>One that gives an address by DHCP</Info>
    <Network ovf:name="NAT"/>
  </NetworkSection>
  <VirtualSystem ovf:id="{name}">
    <Info>A box of gdr-toolkit</Info>
    <OperatingSystemSection ovf:id="96">
      <Info>Debian 12, 64 bits</Info>
    </OperatingSystemSection>
    <VirtualHardwareSection>
      <Info>What the disk's initramfs has drivers of</Info>
      <System>
        <vssd:ElementName>Virtual Hardware Family</vssd:ElementName>
        <vssd:InstanceID>0</vssd:InstanceID>
        <vssd:VirtualSystemIdentifier>{name}</vssd:VirtualSystemIdentifier>
        <vssd:VirtualSystemType>virtualbox-2.2</vssd:VirtualSystemType>
      </System>
{items}    </VirtualHardwareSection>
  </VirtualSystem>
</Envelope>
"""


def exported(name: str, form: str, tell: Callable[[str], None] = lambda _: None) -> Path:
    """A box in one of FORMS, made once; to be read only.

    :raises NotToBeHad: where it cannot be made.
    """
    disk = virtualbox_disk(name, tell) if form == "ova" else box_disk(name, tell)
    own = sha256(Path(__file__).read_bytes()).hexdigest()[:8]

    def make(folder: Path) -> None:
        tell(f"making the {form} of {name}")
        with tempfile.TemporaryDirectory(dir=folder) as at:
            _PACKED[form](folder / "made", name, disk, Path(at))

    return kept(f"{disk.parent.name.replace('-disk-', '-')}-{form}-{own}", make) / "made"


def virtualbox_disk(name: str, tell: Callable[[str], None] = lambda _: None) -> Path:
    """The raw disk of a box, with drivers of VirtualBox's disk; to be read only.

    :raises NotToBeHad: where it cannot be made.
    """
    own = sha256(repr((_SCSI, _NODES)).encode()).hexdigest()[:8]
    return box_disk(name, tell, lambda below: layer(f"virtualbox-{own}", below, _fit))


def _fit(box: Sandbox) -> None:
    kernel = releases()[KERNEL]
    there = f"lib/modules/{kernel}/kernel/drivers/scsi"
    whole = unpacked("bookworm", f"linux-image-{kernel}")
    for name in _SCSI:
        box.write(f"{there}/{name}.ko", (whole / there / f"{name}.ko").read_bytes())
    box.run("depmod", kernel)
    with box.path("etc/initramfs-tools/modules").open("a") as file:
        file.write("sd_mod\nvirtio_scsi\n")
    box.write("etc/default/grub.d/60-virtualbox.cfg", _NODES)
    box.run("update-initramfs", "-u", "-k", kernel)
    _boot_loader(box)


def ovf(name: str, size: int) -> str:
    """What tells a hypervisor of the machine that the disk is for.

    :param size: bytes of NAME.vmdk.
    """
    items = "".join(
        _ITEM.format("".join(f"        <rasd:{key}>{value}</rasd:{key}>\n" for key, value in each))
        for each in map(dict.items, _ITEMS)
    )
    return _OVF.format(cim=_CIM, name=name, size=size, capacity=SIZE_MB << 20, items=items)


def _convert(disk: Path, target: Path, *how: str) -> None:
    subprocess.run(("qemu-img", "convert", *how, str(disk), str(target)), check=True)


def _pack_ova(target: Path, name: str, disk: Path, at: Path) -> None:
    vmdk, text = at / f"{name}.vmdk", at / f"{name}.ovf"
    _convert(disk, vmdk, "-O", "vmdk", "-o", "subformat=streamOptimized")
    text.write_text(ovf(name, vmdk.stat().st_size))
    sums = "".join(f"SHA256({each.name})= {_digest(each)}\n" for each in (text, vmdk))
    manifest = at / f"{name}.mf"
    manifest.write_text(sums)
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as archive:
        for each in (text, manifest, vmdk):  # the descriptor first, as the standard has it
            archive.add(each, each.name)


def _pack_oci(target: Path, name: str, disk: Path, at: Path) -> None:
    files, qcow2 = at / "layer", at / f"{name}.qcow2"
    _convert(disk, qcow2, "-c", "-O", "qcow2")
    with tarfile.open(files, "w") as archive:
        folder = tarfile.TarInfo("disk")
        folder.type, folder.mode, folder.uid, folder.gid = tarfile.DIRTYPE, 0o755, 107, 107
        archive.addfile(folder)
        for path, place in ((qcow2, f"disk/{name}.qcow2"), (login(), "key")):
            told = archive.gettarinfo(path, place)
            told.mode, told.uid, told.gid, told.mtime = 0o440, 107, 107, 0
            told.uname = told.gname = ""
            with path.open("rb") as file:
                archive.addfile(told, file)
    base = "application/vnd.oci.image."
    made = _digest(files)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Labels": {"org.opencontainers.image.version": __version__}},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{made}"]},
        }
    ).encode()
    layers = [_blob(f"{base}layer.v1.tar", made, files.stat().st_size)]
    told_config = _blob(f"{base}config.v1+json", sha256(config).hexdigest(), len(config))
    manifest = json.dumps({"schemaVersion": 2, "config": told_config, "layers": layers}).encode()
    top = _blob(f"{base}manifest.v1+json", sha256(manifest).hexdigest(), len(manifest))
    named = {"org.opencontainers.image.ref.name": f"localhost/gdr-toolkit/{name}:{__version__}"}
    index = json.dumps({"schemaVersion": 2, "manifests": [top | {"annotations": named}]}).encode()
    with tarfile.open(target, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(archive, "index.json", index)
        for data in (config, manifest):
            _add(archive, f"blobs/sha256/{sha256(data).hexdigest()}", data)
        archive.add(files, f"blobs/sha256/{made}")


def _pack_qcow2(target: Path, _: str, disk: Path, at: Path) -> None:
    _convert(disk, at / "disk", "-c", "-O", "qcow2")
    (at / "disk").rename(target)


_PACKED = {"ova": _pack_ova, "oci": _pack_oci, "qcow2": _pack_qcow2}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _blob(kind: str, digest: str, size: int) -> dict[str, str | int]:
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": size}


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    told = tarfile.TarInfo(name)
    told.size = len(data)
    archive.addfile(told, io.BytesIO(data))
