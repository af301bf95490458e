"""What identifies a site is hidden, and every parser still reads the rest."""

from __future__ import annotations

import re

import pytest

from tests.evidence.board import od
from tests.evidence.build import node
from tests.evidence.modules import ko, sent, signed
from tests.unit.judged import TODAY
from toolkit.checks.judged import judge_node
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.facts.text.scrub import Scrubber, scrub
from toolkit.want import Want


def scrubbed(text: str, host: str = "gpu07.site.example", *, hostname: str = "gpu07") -> str:
    frames = {
        "hostname": Frame("hostname", State.OK, "hostname", f"{hostname}\n"),
        "x": Frame("x", State.OK, "x", text),
    }
    return scrub(Evidence(frames, complete=True), host).frames["x"].text


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        pytest.param("mac 9c:63:c0:12:34:56\n", "9c:63", id="mac"),
        pytest.param("mac 9c:63:c0:03:00:f0:12:34\n", "f0:12", id="mac-of-eight-octets"),
        pytest.param("Node guid: 0x9C63C00300F01234\n", "C00300F0", id="guid-in-capitals"),
        pytest.param("Serial Number: 123\n", "123", id="serial-of-three-letters"),
        pytest.param("nfs ff02::2 2001:4860::8888 ro\n", "4860", id="ipv6-behind-a-group"),
        pytest.param("MAC:9c:63:c0:12:34:56\n", "9c:63", id="mac-behind-a-colon"),
        pytest.param("BOOTIF=01-9c-63-c0-12-34-56 ro\n", "63-c0", id="mac-of-a-network-boot"),
        pytest.param("enx9c63c0123456/mtu:1500\n", "9c63c0123456", id="interface-named-by-mac"),
        pytest.param("ib0 " + ":".join(["80", "9c"] * 10) + "\n", "80:9c", id="mac-of-ipoib"),
        pytest.param("mlx5_0/node_guid:9c63:c003:00f0:1234\n", "9c63", id="guid"),
        pytest.param("\tNode GUID: 0x9c63c00300f01234\n", "c00300f0", id="guid-of-ibstat"),
        pytest.param('<net name="mlx5_0" guid="0x3412f00003c0639c"/>\n', "12f0", id="guid-of-nccl"),
        pytest.param("Device Serial Number 9c-63-c0-03-00-f0-12-34\n", "9c-63", id="lspci-serial"),
        pytest.param(
            "mlx5_0/ports/1/gids/0:fe80:0000:0000:0000:9e63:c0ff:fe12:3456\n", "9e63", id="gid"
        ),
        pytest.param(
            "mlx5_0/ports/1/gids/3:0000:0000:0000:0000:0000:ffff:0a14:1e28\n",
            "0a14",
            id="gid-of-ipv4",
        ),
        pytest.param("GID[  0]:\t\tfe80::9e63:c0ff:fe12:3456, RoCE v2\n", "9e63", id="gid-short"),
        pytest.param("OOB eth0:fe80::9e63:c0ff:fe12:3456%eth0<0>\n", "9e63", id="gid-in-nccl-log"),
        pytest.param("root=UUID=1b4e28ba-2fa1-11d2-883f-0016d3cca427 ro\n", "1b4e28ba", id="uuid"),
        pytest.param("root=PARTUUID=1b4e28ba-02 ro\n", "1b4e28ba", id="partition"),
        pytest.param(
            "GPU UUID : GPU-1b4e28ba-2fa1-11d2-883f-0016d3cca427\n", "1b4e", id="gpu-uuid"
        ),
        pytest.param(
            "0123456789abcdef0123456789abcdef-5.14.0.conf:title x\n",
            "0123456789ab",
            id="machine-id",
        ),
        pytest.param("root=/dev/disk/by-id/nvme-X_S666NN0T1 ro\n", "S666NN0T1", id="disk"),
        pytest.param("ip 10.20.30.40 is up\n", "10.20.30.40", id="ipv4"),
        pytest.param("no answer from 10.20.30.40.\n", "10.20.30.40", id="ipv4-ends-a-sentence"),
        pytest.param("url=http://10.20.30.40/x\n", "10.20.30.40", id="ipv4-in-url"),
        pytest.param("inst.ks=https://ks.corp.test/x\n", "corp.test", id="server-in-url"),
        pytest.param("nfs 2001:4860:4860:0:0:0:0:8888 ro\n", "4860", id="ipv6"),
        pytest.param("nfs [2001:4860::8888]:/x\n", "4860", id="ipv6-short"),
        pytest.param("gpu07 kernel: hello\n", "gpu07", id="short-name"),
        pytest.param("root=/dev/mapper/gpu07--vg-root ro\n", "gpu07", id="name-of-a-volume-group"),
        pytest.param("from gpu07.site.example\n", "site.example", id="long-name"),
        pytest.param("mount storage.site.example:/home\n", "site.example", id="neighbour"),
        pytest.param("Serial Number: 1654022000123\n", "1654022000123", id="serial"),
        pytest.param("Serial Number: /7ABCD12/CNFCP0083/\n", "7ABCD12", id="serial-with-slashes"),
        pytest.param('"SerialNumber": "S1A2B3",\n', "S1A2B3", id="serial-in-json"),
        pytest.param("\tAsset Tag: DC4-R12-U07\n", "R12", id="asset-tag"),
        pytest.param('{"SKU": "B5XH3S3", "Model": "R750"}\n', "B5XH3S3", id="tag-as-a-bmc-has-it"),
        pytest.param("product_serial:B5XH3S3\n", "B5XH3S3", id="serial-as-dmi-has-it"),
        pytest.param("mlx5_0 (MT4123 - MT2146X00123)\n", "MT2146X", id="serial-of-an-hca"),
        pytest.param("path /home/alice/nccl\n", "alice", id="user"),
        pytest.param("server 10.20.30.40 is up\n", "10.20.30.40", id="ends-in-ver"),
        pytest.param("ip=10.9.8.7::10.9.8.1:255.0.0.0:x:eth0:none\n", "10.9.8.1", id="ip-gateway"),
    ],
)
def test_what_identifies_a_site_is_hidden(text: str, hidden: str) -> None:
    assert hidden not in scrubbed(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0000:19:00.0/vendor:0x10de\n", id="pci-address"),
        pytest.param("MLNX_OFED_LINUX-24.10-2.1.8.0:\n", id="ofed-version"),
        pytest.param("mlnx-ofed-kernel/24.10.OFED.24.10.2.1.8.1: added\n", id="dkms"),
        pytest.param("version:570.124.06\n", id="driver-version"),
        pytest.param("srcversion:4B1C2D3E4F5A6B7C8D9E0F1\n", id="srcversion"),
        pytest.param("gid fe80:0000:0000:0000:0000:0000:0000:0000\n", id="link-local-prefix"),
        pytest.param("ClusterUUID : 00000000-0000-0000-0000-000000000000\n", id="no-cluster"),
        pytest.param("sig_key:        1A:2B:3C:4D:5E:6F:70:81:92:A3:B4:C5:D6\n", id="key"),
        pytest.param("gdrdrv/version:2.4.4.1\n", id="version-of-four-numbers"),
        pytest.param("Serial Number: Not Specified\n", id="no-serial"),
        pytest.param("Serial Number: 12\n", id="too-short-for-a-serial"),
        pytest.param("sig_key: 1A:2B:3C:4D:5E:6F:70:81\n", id="key-as-long-as-a-guid"),
        pytest.param("mac ff:ff:ff:ff:ff:ff\n", id="mac-of-everybody"),
        pytest.param("guid 0000:0000:0000:0000\n", id="no-guid"),
        pytest.param(f"machine-id {'0' * 32}\n", id="no-machine-id"),
        pytest.param("a group: ff02::1 fe80::\n", id="groups-of-everybody"),
        pytest.param("10.20.30.256 10.20.030.40\n", id="no-addresses"),
        pytest.param("path /home/Ubuntu/nccl\n", id="a-user-of-everybody"),
        pytest.param("[12:30:45] ttyS0 at 10:20:30\n", id="times"),
        pytest.param("127.0.0.1 255.255.255.0 ::1\n", id="addresses-of-everybody"),
        pytest.param("libcublas.so.10 -> libcublas.so.10.2.3.254\n", id="library"),
        pytest.param("knem/1.1.4.90mlnx3 fw_ver:28.43.2026 FW ver 22.35.10.12\n", id="fw"),
        pytest.param("iommu.passthrough=1 pass=/x PWD=/root\n", id="no-password"),
        pytest.param('mok_signing_key="/var/lib/shim-signed/mok/MOK.priv"\n', id="where-a-key-is"),
        pytest.param("getty@tty1.service modprobe@dm_mod.service\n", id="units-are-no-mail"),
        pytest.param("issuer: C=US, O=NVIDIA, CN=kernel\n", id="a-maker-s-certificate"),
        pytest.param("ffff888103a28000 0x000001a000000000\n", id="addresses-of-memory"),
        pytest.param("000010 de 10 30 23 06 04 10 00 a1 00 02 03 00 00 80 00\n", id="config-space"),
    ],
)
def test_what_verdicts_rest_on_stays(text: str) -> None:
    assert scrubbed(text) == text


VERSIONED = ("dkms-status", "ofed-info", "libraries", "kernels", "registration", "all-modinfo")
BELOW = ("ofed-info", "libraries", "providers", "cuda-libraries", "mlx5-libraries",
         "verbs-libraries")  # fmt: skip


@pytest.mark.parametrize(
    ("key", "stays"),
    [
        *((key, True) for key in (*VERSIONED, *(f"inside/{each}" for each in BELOW))),
        *((key, False) for key in ("dmesg", "cmdline", "providers", "inside/dmesg")),
    ],
)
def test_four_numbers_are_a_version_where_versions_stand(key: str, *, stays: bool) -> None:
    frame = Frame(key, State.OK, key, "8.8.4.4 of 10.0.0.9\n")
    version, _, private = scrub(Evidence({key: frame}, True), "").frames[key].text.split()
    assert (version == "8.8.4.4") is stays
    assert private != "10.0.0.9"


def test_equal_things_stay_equal_and_different_ones_different() -> None:
    first, second, third = scrubbed("10.0.0.1\n10.0.0.2\n10.0.0.1\n").split()
    assert first == third != second


def test_scrubbed_evidence_is_judged_alike() -> None:
    whole = node()
    verdicts = judge_node("gpu07", whole, Want(), TODAY).verdicts
    hidden = judge_node("gpu07", scrub(whole, "gpu07"), Want(), TODAY).verdicts
    assert [each.finding for each in hidden] == [each.finding for each in verdicts]


@pytest.mark.parametrize(
    ("host", "hostname"),
    [
        pytest.param("10.20.30.40", "localhost", id="reached-by-address"),
        pytest.param("fe80::10", "node", id="reached-by-ipv6"),
        pytest.param("ubuntu", "ubuntu", id="the-distribution"),
        pytest.param("19", "c1", id="like-a-byte"),
        pytest.param("mlx5_0", "ib0", id="like-a-device"),
    ],
)
def test_a_name_that_many_things_bear_is_not_hidden(host: str, hostname: str) -> None:
    text = "ID=ubuntu 19 10 c1:00.0 mlx5_0 ib0 node 30 localhost\n"
    assert scrubbed(text, host, hostname=hostname) == text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("gpu08:123:456 [0] NCCL INFO Bootstrap\n", id="nccl"),
        pytest.param("Nov 21 10:00:00 gpu08 kernel: hello\n", id="syslog"),
        pytest.param("2026-11-21T10:00:00+0000 gpu08 kernel: hello\n", id="journal"),
    ],
)
def test_the_names_of_other_nodes_in_logs_are_hidden(text: str) -> None:
    frames = {"nccl-log": Frame("nccl-log", State.OK, "imported from gpu08.log", text * 2)}
    frame = scrub(Evidence(frames, complete=True), "").frames["nccl-log"]
    assert "gpu08" not in frame.text
    assert "gpu08" not in frame.source


def test_names_and_addresses_mean_the_same_on_all_nodes_of_a_fleet() -> None:
    scrubber = Scrubber(["gpu07", "gpu08"])
    one, two = (
        scrubber.scrub(Evidence({"x": Frame("x", State.OK, "x", text)}, complete=True))
        for text in ("gpu08 10.0.0.9\n", "gpu07 10.0.0.8 10.0.0.9 gpu08\n")
    )
    name, address = one.frames["x"].text.split()
    assert "gpu" not in two.frames["x"].text
    assert two.frames["x"].text.split()[2:] == [address, name]


def test_a_thousand_addresses_stay_a_thousand() -> None:
    text = "".join(f"10.0.{n >> 8}.{n & 255} gid fd00::{n + 1:x}\n" for n in range(1000))
    assert len(set(scrubbed(text).split("\n"))) == 1001


def roce_gid(address: str) -> Node:
    key = "rdma-gids"
    text = f"mlx5_0/ports/1/gids/3:{address}\nmlx5_0/ports/1/gid_attrs/types/3:RoCE v2\n"
    frames = {key: Frame(key, State.OK, key, text)}
    return Node(scrub(Evidence(frames, complete=True), "gpu07"))


def test_a_gid_stays_what_it_was_link_local_or_of_an_address() -> None:
    assert not roce_gid("fe80:0000:0000:0000:9e63:c0ff:fe12:3456").gids[0].routable
    assert roce_gid("fd00:0000:0000:0000:9e63:c0ff:fe12:3456").gids[0].routable
    assert roce_gid("0000:0000:0000:0000:0000:ffff:0a14:1e28").gids[0].address.ipv4_mapped


def test_the_serial_number_in_a_config_space_is_hidden_and_nothing_else_of_it() -> None:
    space = bytearray(bytes(range(64)) + bytes(4096 - 64))
    space[0x06], space[0x34], space[0x40] = 0x10, 0x40, 0x10
    space[0x100:0x10C] = bytes.fromhex("03000100 3412f00003c0639c")
    text = "@0000:19:00.0\n" + od(bytes(space)) + "\n"
    frames = {"pci-config": Frame("pci-config", State.OK, "x", text)}
    hidden = scrub(Evidence(frames, complete=True), "gpu07").frames["pci-config"].text
    changed = [(a, b) for a, b in zip(text.split("\n"), hidden.split("\n"), strict=True) if a != b]
    assert changed == [
        (
            "000100 03 00 01 00 34 12 f0 00 03 c0 63 9c 00 00 00 00",
            "000100 03 00 01 00 01 00 00 00 00 00 00 02 00 00 00 00",
        )
    ]


@pytest.mark.parametrize("plain", [0, 1, 2])
def test_each_piece_of_a_dump_is_hidden_whatever_stands_before_it(plain: int) -> None:
    """Two pieces with a gap between them: in one, in the other, or in both stands a name."""
    name = b"gpu07 Secure Boot Module Signature key "
    pieces = [name if at != plain else b"\0" * len(name) for at in range(2)]
    rows = [
        f"{4096 * at + offset:06x} {piece[offset : offset + 16].hex(' ')}\n"
        for at, piece in enumerate(pieces)
        for offset in range(0, len(piece), 16)
    ]
    frames = {
        "hostname": Frame("hostname", State.OK, "hostname", "gpu07\n"),
        "peermem-elf": Frame("peermem-elf", State.OK, "x", "".join(rows)),
    }
    hidden = scrub(Evidence(frames, complete=True), "").frames["peermem-elf"].text
    assert b"gpu07" not in bytes.fromhex("".join(r[7:] for r in hidden.splitlines()))
    assert len(hidden) == len("".join(rows))


def test_a_signer_named_after_the_host_is_hidden_in_the_modules_bytes_too() -> None:
    name = "gpu07 Secure Boot Module Signature key"
    path = "/lib/modules/x/nvidia-peermem.ko"
    module = ko({"license": "Dual BSD/GPL"}, {"module_layout": 1}, signature=signed(name))
    sent_text = sent(path, module)
    frames = {
        "hostname": Frame("hostname", State.OK, "hostname", "gpu07\n"),
        "peermem-elf": Frame("peermem-elf", State.OK, "x", sent_text),
        "peermem-modinfo": Frame("peermem-modinfo", State.OK, "x", f"signer: {name}\n"),
    }
    hidden = scrub(Evidence(frames, complete=True), "").frames
    stand_in = hidden["peermem-modinfo"].text.split()[1]
    assert stand_in != "gpu07"
    assert b"gpu07 Secure" in bytes_of(sent_text)
    assert f"{stand_in} Secure".encode() in bytes_of(hidden["peermem-elf"].text)
    assert b"gpu07" not in bytes_of(hidden["peermem-elf"].text)


def bytes_of(text: str) -> bytes:
    rows = [line.split()[1:] for line in text.split("\n") if re.match("[0-9a-f]{6} ", line)]
    return bytes.fromhex("".join("".join(row) for row in rows))


@pytest.mark.parametrize(
    ("said", "scrubbed"),
    [
        ("ro rd.iscsi.password=hunter2 iommu=pt\n", "ro rd.iscsi.password=hidden iommu=pt\n"),
        ("rd.iscsi.in.username=bob ro\n", "rd.iscsi.in.username=hidden ro\n"),
        ("SITE_PASSWORD=hunter2 TOKEN=abc\n", "SITE_PASSWORD=hidden TOKEN=hidden\n"),
        ('options foo token="a-b_c" size=2\n', 'options foo token="hidden" size=2\n'),
        ("iommu=pt intel_iommu=on\n", "iommu=pt intel_iommu=on\n"),
        # Tokens by the forms in which their makers give them out, wherever they stand.
        *(
            (f"a {form} b\n", "a hidden b\n")
            for form in (
                *(f"{each}{'Z' * 16}" for each in ("AKIA", "ASIA")),
                *(f"gh{each}_{'z' * 36}" for each in "pousr"),
                *(f"xox{each}-{'z' * 12}" for each in "abeprs"),
                *(
                    f"{each}{'z' * 24}"
                    for each in ("github_pat_", "glpat-", "hf_", "nvapi-", "sk-")
                ),
                *(f"hvs.{'z' * 24}", f"AIza{'z' * 35}", f"eyJ{'z' * 8}.z.z"),
            )
        ),
        *(
            (f"{program} -w hunter2 x\n", f"{program} -w hidden x\n")
            for program in (
                *("ipmitool", "sshpass", "curl", "wget", "mysql", "mysqldump", "snmpget"),
                "ldapsearch",
            )
        ),
        *(
            (f"{head}abcdefgh\n", f"{head}hidden\n")
            for head in (
                *("Authorization: Bearer ", "authorization: basic ", "X-Auth-Token: ", "Cookie: "),
                *("x-api-key=", "by bearer "),
            )
        ),
    ],
)
def test_what_opens_a_door_is_hidden(said: str, scrubbed: str) -> None:
    evidence = Evidence({"cmdline": Frame("cmdline", State.OK, "/proc/cmdline", said)}, True)
    assert scrub(evidence, "").frames["cmdline"].text == scrubbed
