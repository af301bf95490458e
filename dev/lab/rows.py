"""The rows of vagrant/boxes.toml that are ours to make, and the page that tells of them."""

from __future__ import annotations

import tomllib

from dev.run import ROOT

_HEAD = """\
# Boxes that have something to say

One healthy node, and the same with one thing broken: for whoever tests a health checker, a
pipeline or a change of his own against machines that assert. This page is written from
`vagrant/boxes.toml`, which the Vagrantfile and our own tests read too.

    ./invokew vm.box --name acs       # as root; the first one takes minutes
    cd vagrant && vagrant up acs
    pytest --pyargs toolkit.suites --hosts vagrant://acs --gdr-profile peermem
    ./invokew vm.box --name acs --form oci --out acs.oci.tar      # or ova, or qcow2

| box | what is broken | profile | cases that fail, and no others |
|---|---|---|---|
"""
_TAIL = """
What is real on them: Debian 12, its kernel 6.1, boot loader, modules, DKMS and initramfs; a PCI
tree of two sockets, four GPUs and four HCAs that the kernel enumerates; QEMU's IOMMU; the vendor's
nvidia-peermem, built by DKMS from Debian's sources. Stand-ins of ours: the driver and OFED's
modules, which hold the functions and show themselves in /proc and /sys; nvidia-smi, ibv_devinfo
and ofed_info. Nothing is behind the registers: no memory, no DMA, no traffic, no verbs.

| form | for | what the machine must have |
|---|---|---|
| `vagrant` | vagrant-libvirt | what the Vagrantfile gives it |
| `qcow2` | QEMU, libvirt | a virtio disk, two NUMA nodes, 46 address bits, no hypervisor bit |
| `oci` | KubeVirt (containerDisk: the disk below /disk, user 107) | the same |
| `ova` | VirtualBox 6.1 or newer | virtio-scsi and virtio-net, as the OVF says; 42 address bits |

The key of the user `vagrant` is in a Vagrant box, at /key of an OCI image, and beside the others as
FILE.key. Tried: `podman load`, the image's disk read back from it; the disk of `ova` under QEMU
with virtio-scsi and virtio-net and no IOMMU. There it is known as a guest: 79 cases pass and none
fails. With `role = "bare-metal"` in `--gdr-site` 104 pass, and `host.virt` fails, for that is what
it is not. Not tried: VirtualBox, whose reader's source the OVF follows, KubeVirt, and the broken
boxes in these forms.

On a machine of `healthy` root breaks the same by `/usr/lib/gdr-box/defect NAME`; `acs` and `iommu`
take a reboot.
"""


def rows() -> dict[str, dict[str, str]]:
    """Those that can be made here, by name; all but debian12 say what must fail there."""
    table = tomllib.loads((ROOT / "vagrant/boxes.toml").read_text())
    return {name: row for name, row in table.items() if row["verified"] == "here"}


def page() -> str:
    """docs/boxes.md."""
    told = (
        f"| `{name}` | {row['broken']} | {row['profile']} | "
        f"{', '.join(f'`{each}`' for each in row['fails'].split()) or 'none'} |\n"
        for name, row in rows().items()
        if "fails" in row
    )
    return _HEAD + "".join(told) + _TAIL
