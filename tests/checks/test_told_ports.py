"""Single ports in all words that mlxlink, mlnx_qos, mlxconfig and ethtool print of them."""

from __future__ import annotations

from random import Random

import pytest

from tests.checks.test_told_otherwise import CHECKS, TEXTS, read, status
from toolkit.checks.check import Status
from toolkit.errors import Unparsable
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.firmware_tools import parse_mlxlink
from toolkit.want import Want

FAIL, PASS, UNKNOWN, NA = Status.FAIL, Status.PASS, Status.UNKNOWN, Status.NA


# mstflint mlxlink/modules/printutil/mlxlink_record.cpp: the key, blanks, ": ", colour, the value.
def section(draw: Random, title: str, rows: dict[str, str], *, coloured: bool) -> str:
    width = draw.choice((35, 51))
    lines = []
    for key, value in rows.items():
        paint = ("\x1b[0;32m", "\x1b[0m") if coloured and draw.random() < 0.5 else ("", "")
        lines.append(f"{key}{': '.rjust(width - len(key))}{paint[0]}{value}\n{paint[1]}")
    return f"\n{title}\n{'-' * len(title)}\n{''.join(lines)}"


DOWN = (
    *("Disable", "Port PLL Down", "Polling", "Close port", "Physical LinkUp", "Sleep"),
    *("Rx disable", "Signal detect", "Receiver detect", "Sync peer", "Negotiation", "Training"),
)
OPCODES = {2: "Negotiation failure", 15: "Bad signal integrity", 52: "Remote side is down"}
IB = ("XDR", "NDR", "HDR", "EDR", "FDR", "QDR", "SDR")
ETH = {
    "4x": ("400G_4X", "200G_4X", "100G_4X", "40G", "10G"),
    "2x": ("200G_2X", "100G_2X", "50G_2X"),
}


def mlxlink(draw: Random, *, up: bool, slow: int = 0, lost: bool = False, ill: bool = False) -> str:
    """One answer. slow: how many speeds below the best that it is set to and the cable can."""
    coloured, ib, lanes = draw.random() < 0.3, draw.random() < 0.5, draw.choice(("4x", "2x"))
    speeds = IB[draw.randrange(4) :] if ib else ETH["4x" if slow > 1 else lanes]
    lanes = lanes if ib else ("4x" if slow > 1 else lanes)
    runs = f"IB-{speeds[slow]}" if ib else speeds[slow].partition("_")[0]
    ext = " (Ext.)" if not ib and draw.random() < 0.8 else ""
    blank = draw.choice((" ", ""))
    best = f"0x000007f0{blank}({','.join(speeds)})"
    opcode = draw.choice(list(OPCODES)) if ill else 0
    physical = draw.choice(("LinkUp", "ETH_AN_FSM_ENABLE"))
    text = section(
        draw,
        "Operational Info",
        {
            "State": "Active" if up else draw.choice(DOWN),
            "Physical state": physical if up else "N/A",
            "Speed": runs if up else "N/A",
            "Width": lanes if up else "N/A",
            "FEC": draw.choice(("No FEC", "Standard RS-FEC - RS(528,514)")) if up else "N/A",
            "Loopback Mode": "No Loopback",
            "Auto Negotiation": draw.choice(("ON", "FORCE - 100G_4X")),
        },
        coloured=coloured,
    )
    text += section(
        draw,
        "Supported Info",
        {f"Enabled Link Speed{ext}": best, f"Supported Cable Speed{ext}": best},
        coloured=coloured,
    )
    trouble = {
        "Status Opcode": str(opcode),
        "Group Opcode": draw.choice(("N/A", "PHY FW", "MNG FW")),
        "Recommendation": OPCODES.get(opcode, "No issue was observed") + draw.choice((".", "")),
    }
    text += section(draw, "Troubleshooting Info", trouble, coloured=coloured)
    text += section(draw, "Tool Information", {"Firmware Version": "28.39.1002"}, coloured=coloured)
    none = draw.choice(("15E-255", "1E-15", "0E-0"))
    ratio = draw.choice(("3E-9", "1.5E-11", "15E-8")) if lost else none
    errors = {"Time Since Last Clear [Min]": f"{draw.randrange(50, 9000) / 10}"}
    if ib and draw.random() < 0.7:  # then it is symbols that count
        errors |= {"Symbol Errors": "7", "Symbol BER": ratio}
        ratio = draw.choice(("15E-255", "2E-8"))
    errors |= {
        "Effective Physical Errors": "7",
        "Effective Physical BER": ratio,
        "Raw Physical Errors Per Lane": "12,0,4,9",
        "Raw Physical BER": draw.choice(("1E-6", "15E-255", "2E-9")),
        "Link Down Counter": str(draw.randrange(9)),
    }
    if not up:
        errors = dict.fromkeys(errors, "N/A")
    return text + section(draw, "Physical Counters and BER Info", errors, coloured=coloured)


OWNERS = ("rdma.port", "port.errors", "rdma.rate")


def test_a_link_that_is_not_up_or_not_sound_is_told_in_any_words_of_mlxlink() -> None:
    draw = Random(31)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        up, lost, ill = draw.random() < 0.6, draw.random() < 0.3, draw.random() < 0.3
        slow = draw.choice((0, 0, 1))
        text = mlxlink(draw, up=up, slow=slow, lost=lost, ill=ill)
        prompt = draw.choice(
            ("", "# mlxlink -d mlx5_3 -m -c\n", "$ sudo mlxlink --device 5e:00.0\n")
        )
        node = Node(read(prompt + text))
        got = {each: CHECKS[each](node.fresh(), Want()).status for each in OWNERS}
        errors = FAIL if up and (lost or ill) else UNKNOWN
        assert got == dict(zip(OWNERS, (UNKNOWN if up else FAIL, errors, UNKNOWN), strict=True)), (
            text
        )


def test_a_link_much_slower_than_its_cable_or_than_its_equal_is_told() -> None:
    draw = Random(32)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS // 4):
        far = mlxlink(draw, up=True, slow=3)
        link = parse_mlxlink(far.replace("\x1b[0;32m", "").replace("\x1b[0m", ""))[0]
        assert status("rdma.rate", far) is (FAIL if link.speed * 4 < link.best else UNKNOWN), far


def answer(state: str = "Active", speed: str = "IB-NDR", width: str = "4x", **rows: str) -> str:
    told = {
        "Enabled Link Speed": "0x00000080 (NDR,HDR,EDR)",
        "Supported Cable Speed": "0x00000080 (NDR,HDR,EDR)",
        "Status Opcode": "0",
        "Time Since Last Clear [Min]": "44.1",
        "Effective Physical BER": "15E-255",
        "Raw Physical BER": "1E-7",
    } | {key.replace("_", " "): value for key, value in rows.items()}
    lines = "".join(f"{key:<40}: {value}\n" for key, value in told.items())
    return (
        f"Operational Info\n----------------\nState                    : {state}\n"
        f"Speed                    : {speed}\nWidth                    : {width}\n{lines}\n"
    )


CABLE = "Temperature [C]"


@pytest.mark.parametrize(
    ("text", "check", "want"),
    [
        pytest.param(answer(width="1x"), "rdma.rate", FAIL, id="infiniband-at-one-lane"),
        pytest.param(answer(speed="IB-HDR"), "rdma.rate", UNKNOWN, id="a-switch-for-hdr"),
        pytest.param(answer() + answer(speed="IB-HDR"), "rdma.rate", FAIL, id="unlike-its-equal"),
        pytest.param(answer(speed="IB-SDR"), "rdma.rate", FAIL, id="sdr-of-ndr"),
        pytest.param(answer(**{CABLE: "81 [-5..75]"}), "port.errors", FAIL, id="a-hot-module"),
        pytest.param(answer(**{CABLE: "81C [-5C..75C]"}), "port.errors", FAIL, id="with-units"),
        pytest.param(answer(**{CABLE: "51 [-5..75]"}), "port.errors", UNKNOWN, id="a-warm-one"),
        pytest.param(
            answer(**{"Rx Power Current [dBm]": "1.2,-40,1.1,0.9 [-10.2..5]"}),
            "port.errors",
            FAIL,
            id="a-lane-without-light",
        ),
        pytest.param(
            answer(**{"Effective Physical BER": "2E-9", "Time Since Last Clear [Min]": "0.4"}),
            "port.errors",
            UNKNOWN,
            id="too-short-to-count",
        ),
        pytest.param(answer(**{"Status Opcode": "1023"}), "port.errors", UNKNOWN, id="no-info"),
        pytest.param(
            answer() + answer("Polling", "N/A", "N/A", **{"Status Opcode": "1024"}),
            "rdma.port",
            UNKNOWN,
            id="no-cable-in-the-second",
        ),
        pytest.param(
            answer("Polling", "N/A", "N/A", **{"Status Opcode": "1024"}),
            "rdma.port",
            FAIL,
            id="no-cable-in-the-only-one",
        ),
        pytest.param(answer("Act"), "rdma.port", UNKNOWN, id="cut-within-the-state"),
        pytest.param(
            "Operational Info\n----\nState  : Active\nTime Since Last Clear [Min] : 44\n"
            "Effective Physical BER : 15E-2",
            "port.errors",
            UNKNOWN,
            id="cut-within-the-ratio",
        ),
        pytest.param(
            "# mlxlink -d mlx5_0 --port_type PCIE\n\nPCIe Operational (Enabled) Info\n------\n"
            "Depth, pcie index, node            : 0, 0, 0\n"
            "Link Speed Active (Enabled)        : 8G-Gen 3 (32G-Gen 5)\n"
            "Link Width Active (Enabled)        : 8X (16X)\n",
            "pcie.link",
            UNKNOWN,
            id="pcie-slower-than-the-card",
        ),
    ],
)
def test_answers_of_mlxlink_as_people_paste_them(text: str, check: str, want: Status) -> None:
    assert status(check, text) is want


def test_each_answer_of_mlxlink_is_told_by_the_device_that_its_command_asked() -> None:
    down = answer("Polling", "N/A", "N/A")
    text = f"$ mlxlink -d mlx5_4\n{answer()}\n$ mlxlink -d mlx5_5 -c\n{down}"
    assert list(Node(read(text)).said_links) == ["mlx5_4", "mlx5_5"]
    assert not Node(read(text)).said_links["mlx5_5"].up
    numbered = list(Node(read(answer() + down)).said_links)
    assert numbered == ["port 1 of this text", "port 2 of this text"]


def test_a_pcie_link_of_mlxlink_tells_both_what_runs_and_what_would() -> None:
    text = (
        "PCIe Operational (Enabled) Info\n----\nLink Speed Active (Enabled) : 16G-Gen 4 (32G-Gen 5)"
        "\nLink Width Active (Enabled) : 16X (16X)\n"
    )
    (link,) = Node(read(text)).said_pcie_links
    assert (link.speed, link.best_speed, link.width, link.slower) == (16.0, 32.0, 16, True)


def test_an_unknown_state_of_mlxlink_is_refused() -> None:
    with pytest.raises(Unparsable, match="cut"):
        parse_mlxlink(answer("Quantum"))
