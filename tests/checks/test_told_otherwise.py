"""The same fact in other words that tools' sources print: columns, orders, prefixes, versions.

A text is drawn from format strings, as the source writes them; the verdict is held. Each kind is
tried on ``TEXTS`` of them.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.laws import share
from toolkit.checks.all import ALL
from toolkit.checks.check import Status
from toolkit.errors import Unparsable
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.rdma_lists import parse_show_gids
from toolkit.facts.text.pasted_logs import evidence_of, frames_of
from toolkit.want import Want

TEXTS = share(1000)
CHECKS = {check.id: check for check in ALL}
PIDS = ("1234", "'<unknown>'")
HOSTS = ("gpu01", "dgx-h100-03.cluster.local", "ip-10-0-0-1")


def read(text: str) -> Evidence:
    return evidence_of(frames_of(text, "x"))


def status(check: str, text: str) -> Status:
    return CHECKS[check](Node(read(text)), Want()).status


# util-linux sys-utils/dmesg.c, print_record; systemd src/shared/logs-show.c, output_short;
# rsyslog's RSYSLOG_TraditionalFileFormat and RSYSLOG_FileFormat; kubectl logs --timestamps;
# Documentation/ABI/testing/dev-kmsg; CONFIG_PRINTK_CALLER.
def stamp(draw: Random) -> str:
    since = f"{draw.randrange(10**6):5d}.{draw.randrange(10**6):06d}"
    clock = f"{draw.randrange(24):02d}:{draw.randrange(60):02d}:{draw.randrange(60):02d}"
    day, month = draw.randrange(1, 29), draw.choice(("Jan", "Feb", "Oct", "M\u00e4r", "ao\u00fbt"))
    iso = f"2026-{draw.randrange(1, 13):02d}-{day:02d}T{clock}"
    host, micro = draw.choice(HOSTS), f"{draw.randrange(10**6):06d}"
    return draw.choice(
        (
            f"[{since}] ",
            f"<{draw.randrange(8)}>[{since}] ",
            f"[{since}][{'T' + str(draw.randrange(9999)):>6}] ",
            f"[{since} <{draw.randrange(99):5d}.000010>] ",
            f"[{draw.choice(('Mon', 'Fri', 'lun.'))} {month} {day:2d} {clock} 2026] ",
            f"[{month[:3]}{day:2d} {clock[:5]}] ",
            f"[  +0.{micro}] ",
            f"{iso},{micro}+00:00 ",
            f"kern  :{draw.choice(('err', 'warn', 'info', 'emerg'))} : [{since}] ",
            f"kern  :err   : {iso},{micro}+00:00 ",
            f"{draw.randrange(8)},{draw.randrange(9999)},{draw.randrange(10**9)},-;",
            f"{month} {day:2d} {clock} {host} kernel: ",
            f"{month} {day:2d} {clock} {host} kernel: [{since}] ",
            f"{month} {day:02d} {clock}.{micro} {host} kernel: ",
            f"{iso}+0000 {host} kernel: ",
            f"{iso}.{micro}+01:00 {host} kernel: [{since}] ",
            f"Mon 2026-02-{day:02d} {clock} UTC {host} kernel: ",
            f"{draw.randrange(10**9, 2 * 10**9)}.{micro} {host} kernel: ",
            f"[{since}] {host} kernel: ",
            f"[{since} <    0.00001{draw.randrange(10)}{draw.choice(' *')}>] {host} kernel: ",
            f"[{since}{'':16}] {host} kernel: ",
            f"{draw.choice((iso + '+01:00', f'{month} {day:02d} {clock}'))} kernel: ",
            f"{iso}.{micro}123Z [{since}] ",
        )
    )


def test_a_gpu_that_fell_off_is_told_behind_any_stamp() -> None:
    draw = Random(1)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        tell, before = stamp(draw), stamp(draw)
        address = f"0000:{draw.randrange(256):02x}:00"
        text = (
            f"{before}usb 1-1: new device\n{tell}NVRM: Xid (PCI:{address}): 79, pid="
            f"{draw.choice(PIDS)}, name=python, GPU has fallen off the bus.\n"
        )
        assert set(read(text).frames) == {"dmesg"}, text
        told = Node(read(text)).xids
        assert [(each.number, each.address) for each in told] == [(79, f"{address}.0")], text


# linux-rdma/rdma-core infiniband-diags/scripts/ibstatus; iproute2 rdma/link.c since 4.15.
STATES = {"ACTIVE": 4, "DOWN": 1, "INIT": 2, "ARMED": 3}
PHYSICAL = {"LinkUp": (5, "LINK_UP"), "Polling": (2, "POLLING"), "Disabled": (3, "DISABLED")}


def ibstatus(draw: Random, name: str, state: str, physical: str, layer: str) -> str:
    gid = ":".join(f"{draw.randrange(65536):04x}" for _ in range(8))
    return (
        f"Infiniband device '{name}' port 1 status:\n\tdefault gid:\t {gid}\n"
        f"\tbase lid:\t 0x{draw.randrange(999):x}\n\tsm lid:\t\t 0x{draw.randrange(9):x}\n"
        f"\tstate:\t\t {STATES[state]}: {state}\n"
        f"\tphys state:\t {PHYSICAL[physical][0]}: {physical}\n"
        f"\trate:\t\t {draw.choice(('400 Gb/sec (4X NDR)', '100 Gb/sec (2X HDR)'))}\n"
        f"\tlink_layer:\t {layer}\n\n"
    )


def rdma_link(draw: Random, name: str, state: str, physical: str, layer: str) -> str:
    old = draw.choice((True, False))
    head = f"{draw.randrange(9)}/1: {name}/1: " if old else f"link {name}/1 "
    lid = f"subnet_prefix fe80:0000:0000:0000 lid {draw.randrange(99)} sm_lid 1 lmc 0 "
    net = "netdev eth0 " + draw.choice(("", "netdev_index 3 "))
    tail = net if layer == "Ethernet" else ""
    caps = draw.choice(("", "\n    caps: <CM, IP_BASED_GIDS>"))
    body = f"state {state} physical_state {PHYSICAL[physical][1]} "
    return f"{head}{lid if layer == 'InfiniBand' else ''}{body}{tail}{caps}\n"


@pytest.mark.parametrize("form", [ibstatus, rdma_link])
def test_a_port_is_up_or_down_in_any_list(form: Callable[..., str]) -> None:
    draw = Random(2)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        names = [f"mlx5_{n}" for n in draw.sample(range(18), draw.randrange(1, 5))]
        draw.choice((names.sort, names.reverse))()
        down = draw.choice((None, draw.choice(names)))
        layer = draw.choice(("InfiniBand", "Ethernet"))
        ill = draw.choice((("DOWN", "Polling"), ("DOWN", "Disabled"), ("INIT", "LinkUp")))
        text = "".join(
            form(draw, name, *(ill if name == down else ("ACTIVE", "LinkUp")), layer)
            for name in names
        )
        want = Status.PASS if down is None else Status.FAIL
        assert status("rdma.port", text) is want, text


# systemd src/systemctl/systemctl-show.c, print_status_info, since 183.
UNITS = {"nvidia-fabricmanager": "nvidia.fabricmanager", "openibd": "ofed.openibd"}


def test_a_service_that_failed_is_told_in_any_version_of_systemd() -> None:
    draw = Random(5)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        unit, failed = draw.choice(list(UNITS)), draw.choice((True, False))
        dot = draw.choice(("\u25cf ", "* ", "\u00d7 ", "\u25cb ", ""))
        preset = draw.choice(("; vendor preset: enabled", "; preset: enabled", ""))
        wide = " " * draw.choice((3, 5))
        why = draw.choice(("exit-code", "timeout", "signal", "core-dump"))
        state = (
            f"failed (Result: {why})"
            if failed
            else draw.choice(
                ("active (running)", "active (exited)", "inactive (dead)", "activating (start)")
            )
        )
        drop = draw.choice(("", f"{wide} Drop-In: /etc/systemd/system/{unit}.service.d\n"))
        text = (
            f"{dot}{unit}.service{draw.choice((' - NVIDIA service', ''))}\n"
            f"{wide}Loaded: loaded (/lib/systemd/system/{unit}.service; enabled{preset})\n{drop}"
            f"{wide}Active: {state} since Mon 2026-02-10 16:28:06 UTC; 3 days ago\n"
            f"{wide}  Docs: man:x(8)\n   Main PID: 12 (code=exited, status=1/FAILURE)\n"
        )
        (service,) = Node(read(text)).services.values()
        assert (service.name, service.failed) == (unit, failed), text
        got = status(UNITS[unit], text)
        assert got is (Status.FAIL if failed else Status.UNKNOWN), text


# kernel/printk and coreutils uname.c: -a, -sr; linux/init/version.c for /proc/version.
def test_the_release_is_found_in_any_form_of_uname() -> None:
    draw = Random(6)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        release = draw.choice(("6.8.0-45-generic", "5.14.0-427.13.1.el9_4.x86_64", "6.6.31+rt-x"))
        build = draw.choice(("#45-Ubuntu SMP PREEMPT_DYNAMIC", "#1 SMP PREEMPT_DYNAMIC", "#1 SMP"))
        date, arch = "Fri Aug 30 12:02:04 UTC 2024", draw.choice(("x86_64", "aarch64"))
        text = draw.choice(
            (
                f"Linux {draw.choice(HOSTS)} {release} {build} {date} {arch} {arch} {arch} GNU",
                f"Linux {draw.choice(HOSTS)} {release} {build} {date} {arch} GNU/Linux",
                f"Linux version {release} (buildd@x) (gcc-13 (Ubuntu) 13.2.0) {build} {date}",
                f"$ uname -a\nLinux {draw.choice(HOSTS)} {release} {build} {date} {arch}",
                f"$ uname -r\n{release}",
            )
        )
        assert Node(read(f"{text}\n")).kernel == release, text


# Mellanox/mlnx-tools sbin/show_gids: tabs, an IPv4 column that is empty for others, a count.
def test_every_gid_of_show_gids_is_read_and_a_cut_is_known() -> None:
    draw = Random(7)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        rows, wanted = [], []
        for index in range(draw.randrange(1, 9)):
            name, four = f"mlx5_{draw.randrange(18)}", draw.random() < 0.5
            version, net = draw.choice("12"), draw.choice(("eth0", "ens1f0np0", ""))
            end = f"ffff:{draw.randrange(65536):04x}:0a01" if four else "ba59:9fff:fe01"
            gid = f"{'0000' if four else 'fe80'}:0000:0000:0000:0000:{end}"
            rows.append(
                f"{name}\t1\t{index}\t{gid}\t{'10.1.2.3  ' if four else ''}\tv{version}\t{net}"
            )
            wanted.append((name, index, f"{'RoCE v2' if version == '2' else 'IB/RoCE v1'}", net))
        head = "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n---\t----\t-----\t---\n"
        text = head + "\n".join(rows) + f"\nn_gids_found={len(rows)}\n"
        node = Node(read(text))
        assert [(e.device, e.index, e.type, e.netdev) for e in node.gids] == wanted, text
        with pytest.raises(Unparsable, match="may be cut"):
            parse_show_gids(head + "\n".join(rows[:-1]))


# kbuild's short commands; gcc's excerpts; NVIDIA/open-gpu-kernel-modules conftest.sh; dkms 2 and 3.
NOISE = (
    "  CC [M]  /var/lib/dkms/nvidia/580.1/build/nvidia-drm/nvidia-drm-error.o",
    "  CC [M] nv-error.o",
    " CONFTEST: drm_error",
    "/build/nv.c:12:9: warning: unused variable 'error' [-Wunused-variable]",
    "   12 |     int error = nv_error(0);",
    "      |         ^~~~~",
    "/build/nv.c: In function 'nv_open': error",
    "/build/nv.h:7:1: note: error was declared here",
    "warning: the compiler differs from the one used to build the kernel",
    "  The kernel was built by: x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0",
    "  You are using:           cc (Ubuntu 11.4.0-1ubuntu1~22.04.2) 11.4.0",
    "Skipping BTF generation for /build/nvidia.ko due to unavailability of vmlinux",
    "make[1]: Leaving directory '/usr/src/linux-headers-6.8.0-45-error'",
    "depmod: WARNING: could not open modules.builtin at /lib/modules: No such file",
)
TROUBLE = (
    "/build/nv.c:12:9: error: implicit declaration of function 'follow_pfn'",
    "/build/nv.c:12:9: fatal error: linux/x.h: No such file or directory",
    "make[2]: *** [scripts/Makefile.build:243: /build/nv.o] Error 1",
    'ERROR: modpost: "ib_register_peer_memory_client" [/build/nvidia-peermem.ko] undefined!',
    "Error! Bad return status for module build on kernel: 6.8.0-45-generic (x86_64)",
)
HEADS = (
    "DKMS make.log for nvidia-580.1 for kernel 6.8.0-45-generic (x86_64)",
    "DKMS (nvidia-580.1) for kernel 6.8.0-45-generic (x86_64)\nBuilding module:",
    "Building module:\nCleaning build area...",
)
ENDS = ("DKMS: install completed.", "DKMS: build completed.", "Building module(s)... done.")


def test_a_build_is_a_success_whatever_it_says_beside_and_a_failure_in_any_noise() -> None:
    draw = Random(8)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        lines = draw.sample(NOISE, draw.randrange(1, 9))
        ill = draw.choice((True, False))
        if ill:
            lines.insert(draw.randrange(len(lines) + 1), draw.choice(TROUBLE))
        end = [] if ill and draw.random() < 0.5 else [draw.choice(ENDS)]
        text = "\n".join((draw.choice(HEADS), *lines, *end)) + "\n"
        got = status("dkms.last_failure", text)
        assert got is (Status.FAIL if ill else Status.PASS), text


# kubernetes/kubectl pkg/describe/describe.go, describeNode: labels, resources in any order.
def test_a_gpu_that_kubernetes_no_longer_offers_is_lost_in_any_node() -> None:
    draw = Random(11)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        there = draw.randrange(1, 17)
        offered = draw.choice((there, draw.randrange(there)))
        others = [
            f"  {name}:  {draw.randrange(10**6)}{unit}"
            for name, unit in (
                ("cpu", ""),
                ("memory", "Ki"),
                ("pods", ""),
                ("rdma/hca_shared_devices_a", ""),
            )
        ]
        labels = draw.choice(("", f"Labels:             nvidia.com/gpu.count={there}\n"))

        def resources(count: int, others: list[str] = others) -> str:
            rows = [*draw.sample(others, len(others)), f"  nvidia.com/gpu:          {count}"]
            return "\n".join(draw.sample(rows, len(rows)))

        text = (
            f"Name:               {draw.choice(HOSTS)}\nRoles:              worker\n{labels}"
            f"Capacity:\n{resources(there)}\nAllocatable:\n{resources(offered)}\nSystem Info:\n"
        )
        want = Status.FAIL if offered < there else Status.UNKNOWN
        assert status("gpu.lost", text) is want, text
