"""Folders, modes and lists of firmware, in all words of their tools.

Texts are drawn from the sources that stand above each; each form is tried on ``TEXTS`` of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from time import process_time

import pytest

from tests.checks.test_told_modules import MISSING, UP, config_lines, found, quoted, step
from tests.checks.test_told_otherwise import CHECKS, TEXTS, read, status
from tests.checks.test_told_setpci import LOOP, register
from toolkit.checks.all import ALL
from toolkit.checks.check import Status
from toolkit.errors import Unparsable
from toolkit.facts.gpu.gdrcopy import parse_sanity
from toolkit.facts.gpu.smi_query import parse_smi_query
from toolkit.facts.kinds import recognise
from toolkit.facts.modules.pasted_modules import parse_openibd
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.verbs_log import by_tcp
from toolkit.facts.text.tool_reports import cuda_not_ready, driver_container
from toolkit.want import PeerPath, Want

FAIL, PASS, UNKNOWN = Status.FAIL, Status.PASS, Status.UNKNOWN


# iproute2 rdma/sys.c, sys_show_parse_cb, of 5.1 to 7.1: one line, or two, or JSON.
@pytest.mark.parametrize(
    "form", ["netns {}\n", "netns {} copy-on-fork on\n", "netns {}\ncopy-on-fork on\n",
             '[{{"netns":"{}","copy-on-fork":true}}]\n'],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_the_mode_of_network_namespaces_is_told_and_fails_nothing_by_itself(
    form: str, mode: str
) -> None:
    text = form.format(mode)
    assert set(read(text).frames) == {"rdma-system"}
    assert status("ctr.rdma_devices", text) is UNKNOWN
    assert mode in found("ctr.rdma_devices", text)


# coreutils ls.c, print_long_format and -1, in columns, of paths; udev's by-ibdev and by-path.
def listed_nodes(draw: Random, names: list[str]) -> str:
    form = draw.choice(("one", "columns", "long", "paths"))
    names = sorted([*names, *draw.choice(((), ("by-ibdev", "by-path")))])
    if form == "columns":
        return "  ".join(names) + "\n"
    if form == "long":
        day = "Nov 10 10:00"
        rows = [
            f"drwxr-xr-x 2 root root       80 {day} {name}"
            if name.startswith("by-")
            else f"crw-rw-rw- 1 root root 231, {at:3d} {day} {name}"
            for at, name in enumerate(names)
        ]
        return "\n".join(["total 0", *rows, ""])
    before = "/dev/infiniband/" if form == "paths" else ""
    return "".join(f"{before}{name}\n" for name in names)


def test_a_folder_of_devices_without_uverbs_fails_and_one_with_some_says_how_many() -> None:
    draw = Random(96)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        count = draw.choice((0, 1, 8))
        names = [f"{kind}{at}" for at in range(count) for kind in ("uverbs", "umad", "issm")]
        listing = listed_nodes(draw, [*names, "rdma_cm"])
        asked = "$ ls -l /dev/infiniband\n" if not count or draw.random() < 0.5 else ""
        after = draw.choice(("$\n", "$ exit", "gpu@node:~$ \n"))
        text = quoted(draw, asked + listing + (after if asked else ""))
        assert set(read(text).frames) == {"rdma-nodes-said"}, text
        assert status("rdma.devices", text) is (UNKNOWN if count else FAIL), text
        if count:
            assert found("rdma.devices", text).startswith(f"{count} uverbs node"), text


@pytest.mark.parametrize(
    "line",
    [
        "ls: cannot access '/dev/infiniband': No such file or directory",
        "ls: cannot access /dev/infiniband/: No such file or directory",
        "ls: /dev/infiniband: No such file or directory",
    ],
)
def test_where_there_is_no_folder_of_devices_user_space_has_none(line: str) -> None:
    assert status("rdma.devices", f"{line}\n") is FAIL


CM = "crw-rw-rw- 1 root root 10, 58 Nov 10 10:00 {}rdma_cm\n"
UMAD = "crw------- 1 root root 231, 0 Nov 10 10:00 {}umad0\n"
BELOW = "/dev/infiniband/"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"$ ls -l {BELOW}rdma_cm\n{CM.format(BELOW)}$\n", id="rdma-cm-alone"),
        pytest.param(f"$ ls -l {BELOW}umad*\n{UMAD.format(BELOW)}$\n", id="umad-alone"),
        pytest.param(
            f"$ ls {BELOW}uverbs9\n"
            f"ls: cannot access '{BELOW}uverbs9': No such file or directory\n$\n",
            id="a-ninth-of-perhaps-eight",
        ),
        pytest.param(
            f"$ ls -l {BELOW}\ntotal 0\n{CM.format('')}{UMAD.format('')}", id="cut-behind-umad0"
        ),
        pytest.param(f"$ ls {BELOW}\nissm0\nrdma_cm\n[...]\n$ uname -r\n6.8.0\n", id="left-out"),
        pytest.param(f"$ ls {BELOW} | head -2\nissm0\nrdma_cm\n$\n", id="its-head"),
        pytest.param(f"$ find {BELOW} -name 'umad*'\n{BELOW}umad0\n$\n", id="found-by-name"),
        pytest.param(f"total 0\n{CM.format('')}{UMAD.format('')}", id="nobody-says-of-what"),
    ],
)
def test_of_a_part_of_the_folder_nobody_knows_whether_the_rest_has_uverbs(text: str) -> None:
    assert set(read(text).frames) >= {"rdma-nodes-said"}
    assert status("rdma.devices", text) is UNKNOWN
    assert status("ctr.rdma_devices", text) is not FAIL
    up = "$ rdma link\nlink mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0 \n"
    assert status("rdma.devices", up + text) is UNKNOWN, "beside a device"


@pytest.mark.parametrize("asked", ["ls", "ls -la", "sudo ls -l --color=auto", "/bin/ls -1", "find"])
@pytest.mark.parametrize("folder", ["/dev/infiniband", BELOW])
def test_the_whole_of_the_folder_without_uverbs_fails(asked: str, folder: str) -> None:
    whole = f"$ {asked} {folder}\n{CM.format('')}{UMAD.format('')}$ uname -r\n6.8.0\n"
    assert status("rdma.devices", whole) is FAIL


def test_who_alone_may_open_the_nodes_is_told() -> None:
    text = "$ ls -l /dev/infiniband\ncrw------- 1 root root 231, 192 Nov 10 10:00 uverbs0\n"
    assert "only root, root may open" in found("rdma.devices", text)


# mstflint mlxfwupdate/mlnx_dev.cpp and mlxfwmanager.cpp.
def managed(draw: Random, versions: list[str]) -> str:
    mst, status_ = draw.random() < 0.5, ("Up to date", "Update required", "No matching image found")
    text = draw.choice(("Querying Mellanox devices firmware ...\n\n", ""))
    for at, version in enumerate(versions, start=1):
        name = f"/dev/mst/mt4129_pciconf{at}" if mst else f"0000:{at:02x}:00.0"
        uefi = draw.choice(("", "     UEFI           14.33.0010     N/A           \n"))
        text += (
            f"Device #{at}:\n----------\n\n  Device Type:      ConnectX7\n"
            f"  Part Number:      MCX75310AAS-NEA_Ax\n  Description:      NVIDIA ConnectX-7\n"
            f"  PSID:             MT_0000000838\n  PCI Device Name:  {name}\n"
            f"  Base GUID:        b83fd20300{at:06x}\n"
            "  Versions:         Current        Available     \n"
            f"     FW             {version}     {draw.choice(('N/A', '28.43.2026'))}    \n{uefi}\n"
            f"  Status:           {draw.choice(status_)}\n\n"
        )
    return draw.choice(("", "# mlxfwmanager\n", "$ sudo mlxup --query\n")) + text


def test_firmware_of_one_board_that_differs_is_told_by_mlxfwmanager() -> None:
    draw = Random(97)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        versions = [draw.choice(("28.39.1002", "28.39.3560")) for _ in range(draw.randrange(1, 9))]
        text = quoted(draw, managed(draw, versions))
        assert set(read(text).frames) == {"mlxfwmanager"}, text
        mixed = len(set(versions)) > 1
        assert status("rdma.firmware", text) is (FAIL if mixed else UNKNOWN), text
        assert versions[0] in found("rdma.firmware", text), text


@pytest.mark.parametrize(("second", "want"), [("28.39.1002", UNKNOWN), ("28.39.3560", FAIL)])
def test_firmware_is_told_beside_a_list_of_ports_that_has_none(second: str, want: Status) -> None:
    up = "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0 \n"
    cards = managed(Random(1), ["28.39.1002", second])  # noqa: S311 # drawn again the same
    assert status("rdma.firmware", f"$ rdma link\n{up}$ mlxfwmanager\n{cards}") is want


def hint(check: str, text: str) -> str:
    return CHECKS[check](Node(read(text)), Want()).finding.hint


RUNS = "     FW (Running)   {}     N/A           \n"


@pytest.mark.parametrize("first", [True, False])
def test_what_runs_is_told_and_not_what_the_flash_has_for_the_next_reset(first: bool) -> None:
    """A row of its own tells what runs, where the flash has another."""
    draw = Random(1)  # noqa: S311 # drawn again the same
    one, other = managed(draw, ["28.43.2026", "28.39.1002"]).split("Device #2:")
    flash = "     FW             28.43.2026"
    at = one.index(flash) if first else one.index("\n", one.index(flash)) + 1
    text = f"{one[:at]}{RUNS.format('28.39.1002')}{one[at:]}Device #2:{other}"
    assert status("rdma.firmware", text) is UNKNOWN, "both run one"
    assert found("rdma.firmware", text).startswith("ConnectX7 28.39.1002;")
    assert "28.43.2026 in its flash: mlxfwreset" in hint("rdma.firmware", text)
    mixed = text.replace(other, other.replace("28.39.1002", "28.39.3560"))
    assert status("rdma.firmware", mixed) is FAIL
    assert "28.43.2026 in its flash: mlxfwreset" in hint("rdma.firmware", mixed)


def test_mlxfwmanager_that_finds_no_device_says_why() -> None:
    text = "# mlxfwmanager\n-E- No devices found or specified, mst might be stopped\n"
    assert "mst might be stopped" in found("rdma.firmware", text)


# NVML's nvidia-smi, -q -d MEMORY, through grep -A; "MB" before the branch 331.
def sections(draw: Random, gpus: list[tuple[int, int]], *, memory: bool) -> str:
    unit, wide = draw.choice(("MiB", "MB")), draw.choice((28, 34, 40))

    def block(name: str, total: int, reserved: bool) -> str:
        rows = [("Total", total), *((("Reserved", 550),) if reserved else ()), ("Used", 1)]
        lines = (f"        {key:<{wide}}: {value} {unit}\n" for key, value in rows)
        return f"    {name} Memory Usage\n{''.join(lines)}"

    parts = [
        (block("FB", total, draw.random() < 0.5) if memory else "") + block("BAR1", bar, False)
        for bar, total in gpus
    ]
    prompt = draw.choice(("", "$ nvidia-smi -q | grep -A3 -i 'memory usage'\n"))
    return prompt + draw.choice(("", "--\n")).join(parts)


def test_bar1_beside_a_bare_list_of_the_bus_is_judged_all_the_same() -> None:
    bus = "1b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 80GB] [10de:2330]\n"
    small = "$ nvidia-smi -q | grep -A3 BAR1\n    BAR1 Memory Usage\n        Total   : 256 MiB\n"
    assert status("pcie.bar1", f"$ lspci -nn\n{bus}{small}") is FAIL


def test_bar1_that_is_small_is_told_of_sections_alone_and_none_passes_by_them() -> None:
    draw = Random(98)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        memory = draw.random() < 0.5
        gpus = [
            (draw.choice((256, 32768, 131072)), draw.choice((46068, 81559)))
            for _ in range(draw.randrange(1, 9))
        ]
        small = any(bar == 256 or (memory and bar < total) for bar, total in gpus)
        text = quoted(draw, sections(draw, gpus, memory=memory))
        assert set(read(text).frames) == {"nvidia-smi-q"}, text
        assert status("pcie.bar1", text) is (FAIL if small else UNKNOWN), text


def test_none_of_these_texts_passes_a_node_without_a_check_of_its_own() -> None:
    draw = Random(100)  # noqa: S311 # drawn again the same
    texts = [
        LOOP + register(draw, "03:00.0", 0),
        "netns shared copy-on-fork on\n",
        listed_nodes(draw, ["uverbs0", "rdma_cm"]),
        managed(draw, ["28.39.1002"]),
        sections(draw, [(131072, 81559)], memory=True),
        step(draw, UP, "OK"),
        config_lines(draw, []),
        MISSING,
    ]
    for text in texts:
        for path in PeerPath:
            node = Node(read(text))
            assert not [e.id for e in ALL if e(node.fresh(), Want(path=path)).status is PASS], text


@pytest.mark.parametrize(
    "line",
    [
        "bond0: error: no 802.3ad partner",
        "error rate 0.802",
        "request returned 200 in 802 ms",
        "failure of process 802",
        "cuda step 7 error 1e-3 tokens 802",
    ],
)
def test_a_number_of_802_is_not_cudas_word_that_it_is_not_ready(line: str) -> None:
    log = f"[    3.000000] {line}\n[    4.000000] NVRM: Xid (PCI:0000:19:00): 79, x\n"
    kinds = [getattr(recognise(text), "name", "") for text in (f"{line} in it\n", log)]
    assert kinds[0] != "cuda-said"
    assert kinds[1] == "dmesg"


@pytest.mark.parametrize(
    "line",
    [
        "cudaGetDeviceCount returned 802",
        'CUDA error at a.cu:73 code=802(cudaErrorSystemNotReady) "f()"',
        "RuntimeError: Unexpected error. Error 802: system not yet initialized",
    ],
)
def test_cuda_tells_that_it_is_not_ready_in_several_forms(line: str) -> None:
    assert cuda_not_ready(f"802 x\n{line}\n") == line
    assert status("nvidia.fabricmanager", f"{line}\n") is FAIL


def test_imex_that_found_its_address_by_its_last_start_has_not_failed() -> None:
    log = "[Nov 28 2026 10:00:00] [ERROR] [tid 1] No matching network interface found for any IP "
    log += "addresses in the node config file\n"
    up = (
        "[Nov 28 2026 10:01:00] [INFO] [tid 1] Identified this node as ID 0, using bind IP of 'x'\n"
    )
    assert [status("nvidia.imex", each) for each in (log, log + up, up + log)] == [
        *(FAIL, UNKNOWN, FAIL),
    ]


@pytest.mark.parametrize("head", ["", "Driver Version    : 550.54.14\n"])
def test_gpus_that_a_text_does_not_name_may_not_be_all(head: str) -> None:
    rows = "    Remapped Rows\n        Pending : No\n        Remapping Failure Occurred : No\n"
    assert status("gpu.ecc", f"{head}{rows}--\n{rows}") is UNKNOWN


LONG = 60_000


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        pytest.param(recognise, " " * LONG, id="any"),
        pytest.param(recognise, 'Assertion "' + "gdr_ " * LONG, id="any-assertion"),
        pytest.param(parse_smi_query, " FB Memory Usage\n" + " " * LONG, id="smi"),
        pytest.param(parse_sanity, 'Assertion "' + "gdr_ " * LONG, id="gdrcopy"),
        pytest.param(parse_openibd, "a" + " " * LONG, id="openibd"),
        pytest.param(driver_container, 'Command "' * LONG, id="a-drivers-container"),
        pytest.param(by_tcp, "inter-node cfg#1 " + "ka(" * LONG, id="lanes-of-ucx"),
    ],
)
def test_a_long_line_takes_no_reader_long(reader: Callable[[str], object], text: str) -> None:
    began = process_time()
    with suppress(Unparsable):
        reader(text)
    assert process_time() - began < 10  # quadratic, each takes a minute
