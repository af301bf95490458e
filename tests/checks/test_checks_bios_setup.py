"""The checks on how firmware left links and processors, by the running system alone."""

from __future__ import annotations

import pytest

from tests.evidence.board import BOARD, GPUS, HCAS, PORTS, Registers
from tests.evidence.build import CPU
from tests.evidence.frames import ABSENT, DENIED, MISSING, Override
from tests.evidence.healthy_firmware import X2APIC_OPT_OUT, dmar, setup
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, name
from toolkit.want import Want


def registers() -> list[Row]:
    order, tags, size = "bios.relaxed_ordering", "bios.ten_bit_tag", "bios.payload"
    strict = BOARD.but(HCAS[0], express=Registers(relaxed_ordering=False))
    all_strict = strict
    for each in (*GPUS, HCAS[1]):
        all_strict = all_strict.but(each, express=Registers(relaxed_ordering=False))
    amd: dict[str, Override] = {"cpu": CPU.replace("GenuineIntel", "AuthenticAMD")}
    asking = BOARD.but(GPUS[0], express=Registers(tags_10bit=True))
    forced = asking.but(HCAS[0], express=Registers(completer=False))
    slow = BOARD.but(GPUS[0], express=Registers(payload=128))
    bus = {"cmdline": "BOOT_IMAGE=/vmlinuz pci=pcie_bus_peer2peer iommu=pt\n"}
    short = BOARD.but(GPUS[0], readable=64)
    return [
        Row("on", order, PASS, "on for 4 endpoints"),
        Row("off-on-all", order, FAIL, "off on 4 endpoints", amd, all_strict),
        Row("off-on-all-where-it-is-no-matter", order, PASS, "no matter", {}, all_strict),
        Row("off-on-one-hca", order, PASS, "off on 1 endpoint, theirs alone", amd, strict),
        Row("64-bytes", order, UNKNOWN, "only 64", {}, short),
        Row("off", tags, PASS, "off; pcie.tags tells"),
        Row("on-and-answered", tags, PASS, "on for 1", {}, asking),
        Row("forced", tags, FAIL, "forced on 1 function whose", {}, forced),
        Row(
            "unable-and-not-asked", tags, PASS, "off", {}, forced.but(GPUS[0], express=Registers())
        ),
        Row("64-bytes", tags, UNKNOWN, "only 64", {}, short),
        Row("usual", size, PASS, "256 bytes on 12"),
        Row("small", size, FAIL, "128 bytes on 1 of 12 functions, and all can 512", {}, slow),
        Row(
            "small-because-one-cannot-more",
            size,
            PASS,
            "all can 128",
            {},
            slow.but(HCAS[0], express=Registers(payload=128, payload_max=128)),
        ),
        Row("small-by-the-kernel", size, NA, "pcie_bus_peer2peer", bus, slow),
        Row("64-bytes", size, UNKNOWN, "only 64", {}, short),
    ]


def links() -> list[Row]:
    rest, speed = "bios.aspm", "bios.link_speed"
    held = BOARD.but(PORTS[0], express=Registers(target="8.0"))
    old = held.but(GPUS[0], best=("8.0 GT/s PCIe", 16))
    performance: dict[str, Override] = {"setup": setup(policy="default [performance]")}
    short = BOARD.but(PORTS[0], readable=64)
    return [
        Row("off", rest, PASS, "off on 12 functions"),
        Row("off-by-the-kernel", rest, PASS, "policy is performance", performance),
        Row("on", rest, FAIL, "on for 1 of 12", {}, BOARD.but(GPUS[0], express=Registers(aspm=2))),
        Row("64-bytes", rest, UNKNOWN, "only 64", {}, short),
        Row("old-evidence", rest, UNKNOWN, "not part of", {"setup": MISSING}),
        Row("full", speed, PASS, "on 6 links"),
        Row("held", speed, FAIL, "1 port is told to run slower", {}, held),
        Row("held-at-what-the-card-can", speed, PASS, "no target below", {}, old),
        Row("64-bytes", speed, UNKNOWN, "only 64", {}, short),
    ]


def processors() -> list[Row]:
    clusters, idle, power = "bios.numa_clustering", "bios.c_states", "bios.power_profile"
    interleaved: dict[str, Override] = {"setup": setup(packages="0:0"), "numa-nodes": "0\n"}
    lost = BOARD.but(GPUS[0], numa=-1)
    site = Want(bios=(("c-states", "off"),))
    shallow = setup(cpu0_cpuidle_state2_latency="2")
    return [
        Row("one-a-socket", clusters, PASS, "one node a socket, 2 sockets"),
        Row(
            "four-a-socket",
            clusters,
            PASS,
            "4 nodes a socket (NPS4, SNC4), 1 socket",
            {"setup": setup(packages="0:0 1:0 2:0 3:0"), "numa-nodes": "0-3\n"},
        ),
        Row("memory-of-gpus-is-no-socket", clusters, PASS, "2 sockets", {"numa-nodes": "0-33\n"}),
        Row(
            "interleaved",
            clusters,
            FAIL,
            "1 NUMA nodes on 2 sockets",
            {"setup": setup(packages="0:0+1"), "numa-nodes": "0\n"},
        ),
        Row("one-socket", clusters, PASS, "1 socket", interleaved, lost),
        Row("no-proximity", clusters, FAIL, "1 of 4 GPUs and HCAs belong to no node", {}, lost),
        Row("untold", clusters, UNKNOWN, "not told", {"setup": setup(packages="")}),
        Row("deep", idle, PASS, "down to C6"),
        Row("shallow", idle, PASS, "none deeper", {"setup": shallow}),
        Row("no-driver", idle, PASS, "no idle states: no driver", {"setup": ""}),
        Row("deep-against-the-site", idle, FAIL, "on: down to C6", want=site),
        Row("as-the-site-wants", idle, PASS, "off, as the site", {"setup": shallow}, want=site),
        Row("not-read", idle, UNKNOWN, "denied", {"setup": DENIED}),
        Row("performance", power, PASS, "intel_pstate, governor performance, energy bias 0, turbo"),
        Row(
            "saving",
            power,
            FAIL,
            "energy bias 15",
            {"setup": setup(cpu0_power_energy_perf_bias="15")},
        ),
        Row(
            "of-the-firmware",
            power,
            NA,
            "keeps the clocks to itself",
            {"setup": setup(cpu0_cpufreq_scaling_driver="")},
        ),
        Row("not-read", power, UNKNOWN, "denied", {"setup": DENIED}),
    ]


def modes() -> list[Row]:
    smt, many, secure = "bios.smt", "bios.x2apic", "bios.secure_boot"
    opt_out: dict[str, Override] = {"acpi-bytes": dmar(X2APIC_OPT_OUT)}
    huge = setup(online="0-511")
    on: dict[str, Override] = {"efi-secureboot": "   1\n"}
    return [
        Row("on", smt, PASS, "on"),
        Row("off-by-the-kernel", smt, PASS, "by the kernel", {"setup": setup(smt_control="off")}),
        Row("none", smt, PASS, "off in the BIOS", {"setup": setup(smt_control="notsupported")}),
        Row("by-the-processor", smt, PASS, "on", {"setup": setup(smt_control="")}),
        Row("untold", smt, NA, "tells", {"setup": setup(smt_control=""), "cpu": CPU}),
        Row("site-wants-none", smt, FAIL, "on: on", want=Want(bios=(("smt", "off"),))),
        Row("not-read", smt, UNKNOWN, "denied", {"setup": DENIED}),
        Row("free", many, PASS, "free to be used by 224"),
        Row("refused-to-many", many, FAIL, "with 512 processors", {**opt_out, "setup": huge}),
        Row("refused-to-few", many, PASS, "do without", opt_out),
        Row("not-shown-to-many", many, FAIL, "shows no x2APIC", {"cpu": CPU, "setup": huge}),
        Row("not-shown-to-few", many, PASS, "do without", {"cpu": CPU}),
        Row("arm", many, NA, "no x86", {"cpu": "CPU part\t: 0xd4f\n"}),
        Row("not-read", many, UNKNOWN, "denied", {"acpi-bytes": DENIED}),
        Row("count-not-told", many, UNKNOWN, "online: not told", {"setup": setup(online="")}),
        Row("off", secure, PASS, "off"),
        Row("on", secure, PASS, "on", on),
        Row(
            "no-efi",
            secure,
            PASS,
            "not booted by EFI",
            {"efi-secureboot": ABSENT, "mokutil": ABSENT},
        ),
        Row(
            "against-the-site",
            secure,
            FAIL,
            "on: on",
            on,
            want=Want(bios=(("secure-boot", "off"),)),
        ),
        Row("not-read", secure, UNKNOWN, "denied", {"efi-secureboot": DENIED}),
    ]


ROWS = [*registers(), *links(), *processors(), *modes()]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_setup(row: Row) -> None:
    holds(row)
