"""Forms of boxes: each is what its readers ask for, and whole."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from dev.lab import exported
from toolkit import __version__

OVF = "{http://schemas.dmtf.org/ovf/envelope/1}"
RASD = "{http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData}"
DISK, CONTROLLER, ADAPTER = "17", "20", "10"  # CIM_ResourceAllocationSettingData.ResourceType


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A disk that QEMU's program has only copied, and a key."""
    key, raw = tmp_path / "a-key", tmp_path / "disk.raw"
    key.write_text("secret")
    raw.write_bytes(b"system" * 100)
    monkeypatch.setattr(exported, "login", lambda: key)
    monkeypatch.setattr(exported, "_convert", lambda disk, target, *_: shutil.copy(disk, target))
    return raw


def test_the_disk_of_an_appliance_hangs_on_what_virtualbox_and_the_initramfs_know() -> None:
    """By the names that its reader takes: any other is an error there, or another card."""
    tree = ElementTree.fromstring(exported.ovf("acs", 7))
    items = [
        {each.tag[len(RASD) :]: each.text for each in item} for item in tree.iter(f"{OVF}Item")
    ]
    kinds = {each["ResourceType"]: each for each in items}
    assert len({each["InstanceID"] for each in items}) == len(items)
    assert kinds[DISK]["Parent"] == kinds[CONTROLLER]["InstanceID"]
    assert kinds[CONTROLLER]["ResourceSubType"] == "VirtioSCSI"
    assert kinds[ADAPTER]["ResourceSubType"] == "virtio-net"
    (drive,), (file,) = tree.iter(f"{OVF}Disk"), tree.iter(f"{OVF}File")
    assert kinds[DISK]["HostResource"] == f"ovf:/disk/{drive.get(f'{OVF}diskId')}"
    assert drive.get(f"{OVF}fileRef") == file.get(f"{OVF}id")
    assert (file.get(f"{OVF}href"), file.get(f"{OVF}size")) == ("acs.vmdk", "7")
    networks = [each.get(f"{OVF}name") for each in tree.iter(f"{OVF}Network")]
    assert networks == [kinds[ADAPTER]["Connection"]]


def test_what_an_item_says_stands_in_the_order_of_the_schema() -> None:
    tree = ElementTree.fromstring(exported.ovf("acs", 7))
    for item in tree.iter(f"{OVF}Item"):
        names = [each.tag for each in item]
        assert names == sorted(names)


def test_an_appliance_begins_with_its_descriptor_and_its_manifest_holds(
    disk: Path, tmp_path: Path
) -> None:
    exported._pack_ova(tmp_path / "made", "acs", disk, tmp_path)
    with tarfile.open(tmp_path / "made") as archive:
        assert archive.getnames() == ["acs.ovf", "acs.mf", "acs.vmdk"]
        data = {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr] # all are files
    sums = [line.split("= ") for line in data["acs.mf"].decode().splitlines()]
    assert {name[7:-1]: told for name, told in sums} == {
        name: hashlib.sha256(data[name]).hexdigest() for name in ("acs.ovf", "acs.vmdk")
    }


def test_a_containers_disk_is_a_layout_whose_every_blob_is_what_its_name_says(
    disk: Path, tmp_path: Path
) -> None:
    exported._pack_oci(tmp_path / "made", "acs", disk, tmp_path)
    with tarfile.open(tmp_path / "made") as archive:
        data = {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr] # all are files

    def blob(told: dict[str, Any]) -> bytes:
        algorithm, _, digest = told["digest"].partition(":")
        found = data.pop(f"blobs/{algorithm}/{digest}")
        assert (len(found), hashlib.sha256(found).hexdigest()) == (told["size"], digest)
        return found

    assert json.loads(data.pop("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
    (top,) = json.loads(data.pop("index.json"))["manifests"]
    assert list(top["annotations"].values()) == [f"localhost/gdr-toolkit/acs:{__version__}"]
    manifest = json.loads(blob(top))
    config, (layer,) = json.loads(blob(manifest["config"])), map(blob, manifest["layers"])
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert not data
    (tmp_path / "layer.tar").write_bytes(layer)
    with tarfile.open(tmp_path / "layer.tar") as files:
        assert {each.name: (each.uid, each.mode) for each in files} == {
            "disk": (107, 0o755),
            "disk/acs.qcow2": (107, 0o440),
            "key": (107, 0o440),
        }
