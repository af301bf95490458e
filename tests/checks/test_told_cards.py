"""Cards and net devices in all words that mlxconfig, mlnx_qos and ethtool print of them."""

from __future__ import annotations

from random import Random

import pytest

from tests.checks.test_told_otherwise import CHECKS, TEXTS, read, status
from toolkit.checks.check import Status
from toolkit.facts.node.node import Node
from toolkit.want import Role, Want

FAIL, PASS, UNKNOWN, NA = Status.FAIL, Status.PASS, Status.UNKNOWN, Status.NA
HOST = Want(role=Role.VM_HOST)


# mstflint mlxconfig/mlxcfg_ui.cpp: printOpening, printConfHeader, printSingleParam of 4.10 to 4.36.
def card(draw: Random, number: int, *, ats: bool) -> str:
    columns = draw.choice((1, 1, 3))
    width = draw.choice((36, 44, 48))
    others = {
        "MEMIC_BAR_SIZE": "0",
        "NUM_OF_VFS": "16",
        "HOST_CHAINING_DESCRIPTORS": "Array[0..7]",
        "SRIOV_EN": "True(1)",
        "LINK_TYPE_P1": draw.choice(("IB(1)", "ETH(2)")),
        "PCI_WR_ORDERING": "per_mkey(0)",
        "PORT_OWNER": "True(1)",
        "ROM_PSID": "N/A",
    }
    word = "True(1)" if ats else "False(0)"
    rows = [*others.items(), ("ATS_ENABLED", word)]
    draw.shuffle(rows)
    table = []
    for name, value in rows:
        default = draw.choice(("False(0)", value)) if name == "ATS_ENABLED" else value
        values = (default, value, value) if columns > 1 else (value,)
        mark = "*" if len(set(values)) > 1 else " "
        only = draw.choice(("RO", "  ", "  "))
        table.append(f"{mark}{only}     {name:<{width}}{''.join(f'{e:<21}' for e in values)}")
    heads = ("Default", "Current", "Next Boot") if columns > 1 else ("Next Boot",)
    device = draw.choice((f"0000:{16 + number:02x}:00.0", f"/dev/mst/mt4129_pciconf{number}"))
    return (
        f"\nDevice #{number}:\n----------\n\n{'Device type:':<20}{'ConnectX7':<20}\n"
        f"{'Name:':<20}MCX75310AAS-NEA_Ax\n{'Description:':<20}NVIDIA ConnectX-7 HHHL Adapter\n"
        f"{'Device:':<20}{device:<20}\n\n{'Configurations:':<56}{'  '.join(heads)}\n"
        + "\n".join(table)
        + "\n"
    )


TOLD_OF = {
    "ats.nic": "ATS_ENABLED ",
    "rdma.sriov": "SRIOV_EN True(1)",
    "pcie.relaxed_ordering": "PCI_WR_ORDERING per_mkey(0)",
    "rdma.port": "LINK_TYPE_P1 ",
}


def test_ats_that_a_host_of_guests_lacks_is_told_by_any_mlxconfig() -> None:
    draw = Random(41)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        states = [draw.random() < 0.7 for _ in range(draw.randrange(1, 4))]
        text = "".join(card(draw, at, ats=on) for at, on in enumerate(states, start=1))
        text += draw.choice(("", "The '*' shows parameters with next value different from x.\n"))
        node = Node(read(text))
        told = [each.settings["ATS_ENABLED"].next for each in node.cards]
        assert told == [int(on) for on in states], text
        got = CHECKS["ats.nic"](node.fresh(), HOST).status
        assert got is (UNKNOWN if all(states) else FAIL), text
        for check, told_of in TOLD_OF.items():
            finding = CHECKS[check](node.fresh(), Want()).finding
            assert finding.status is UNKNOWN, text
            assert told_of in finding.found, text


TABLE = (
    "# mlxconfig -d {name} -e q\n\nDevice #1:\n----------\n\nDevice type:        BlueField3\n"
    "Device:             {name}\n\nConfigurations:       Default      Current      Next Boot\n"
    "*       ATS_ENABLED      False(0)      {now}      {next}\n        NUM_OF_VFS    0   0   8\n"
)


@pytest.mark.parametrize(
    ("now", "then", "want"),
    [
        pytest.param("False(0)", "True(1)", FAIL, id="on-with-the-next-boot-alone"),
        pytest.param("True(1)", "False(0)", UNKNOWN, id="still-on"),
    ],
)
def test_what_is_set_and_not_in_force_does_not_count_now(now: str, then: str, want: Status) -> None:
    node = Node(read(TABLE.format(name="mlx5_2", now=now, next=then)))
    verdict = CHECKS["ats.nic"](node, HOST)
    assert verdict.status is want
    assert node.cards[0].settings["ATS_ENABLED"].pending


def test_a_number_of_mlxconfig_that_is_cut_is_no_number() -> None:
    text = TABLE.format(name="x", now="True(1)", next="True(1)").replace(
        "NUM_OF_VFS    0   0   8", ""
    )
    (whole,) = Node(
        read(text + "        NUM_OF_VFS    0   0   16\n        NUM_OF_PF  1 1 1\n")
    ).cards
    (cut,) = Node(read(text + "        NUM_OF_VFS    0   0   1")).cards
    assert whole.settings["NUM_OF_VFS"].next == 16
    assert "NUM_OF_VFS" not in cut.settings


# Mellanox/mlnx-tools python/mlnx_qos, pretty_print.
def mlnx_qos(draw: Random, trust: str, lossless: set[int]) -> str:
    text = (
        f"DCBX mode: {draw.choice(('OS', 'Firmware'))} controlled\nPriority trust state: {trust}\n"
    )
    if trust == "dscp":
        text += "dscp2prio mapping:\n\tprio:0 dscp:07,06,05,04,03,02,01,00,\n"
    text += draw.choice(("", "Receive buffer size (bytes): 20016,156096,0,0,0,0,0,0,\n"))
    text += f"Cable len: 7\nPFC configuration:\n\tpriority    {'   '.join(map(str, range(8)))}\n"
    text += f"\tenabled     {'   '.join(str(int(n in lossless)) for n in range(8))}   \n"
    text += draw.choice(("", f"\tbuffer      {'   '.join('0' * 8)}   \n"))
    for tc in range(draw.randrange(1, 9)):
        rate = draw.choice(("unlimited", "10.0 Gbps"))
        text += f"tc: {tc} ratelimit: {rate}, tsa: {draw.choice(('vendor', 'strict'))}\n"
        text += f"\t priority:  {tc}\n"
    return text


def test_ports_that_trust_no_dscp_or_differ_are_told_by_any_mlnx_qos() -> None:
    draw = Random(42)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        ports = [
            (draw.choice(("dscp", "dscp", "dscp", "pcp")), frozenset(draw.choice(((3,), (3,), ()))))
            for _ in range(draw.randrange(1, 4))
        ]
        named = draw.random() < 0.5
        text = "".join(
            (f"# mlnx_qos -i ens{at}np0\n" if named else "") + mlnx_qos(draw, trust, set(lossless))
            for at, (trust, lossless) in enumerate(ports)
        )
        wrong = any(trust == "pcp" for trust, _ in ports)
        unlike = len({lossless for _, lossless in ports}) > 1
        node = Node(read(text))
        assert len(node.said_qos) == len(ports), text
        got = CHECKS["roce.qos"](node, Want()).status
        assert got is (FAIL if wrong or unlike else UNKNOWN), text


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "Priority trust state: dscp\nPFC configuration:\n\tpriority    0   1   2   3\n",
            UNKNOWN,
            id="cut-before-pfc",
        ),
        pytest.param(
            "$ mlnx_qos -i eth2\nDCBX mode: OS controlled\nPriority trust state: pcp\n"
            "PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n"
            "\tenabled     0   0   0   1   0   0   0   0   \n",
            FAIL,
            id="pfc-that-untagged-packets-never-reach",
        ),
    ],
)
def test_answers_of_mlnx_qos_as_people_paste_them(text: str, want: Status) -> None:
    assert status("roce.qos", text) is want


# ethtool.c, do_gstats; Linux Documentation/networking/.../mlx5/counters.rst.
def statistics(draw: Random, counters: dict[str, int]) -> str:
    noise = {f"rx{n}_packets": draw.randrange(10**9) for n in range(draw.randrange(9))}
    noise |= {"tx_vport_rdma_unicast_bytes": draw.randrange(10**12), "link_down_events_phy": 2}
    rows = [*noise.items(), *counters.items()]
    draw.shuffle(rows)
    return "NIC statistics:\n" + "".join(f"     {name}: {count}\n" for name, count in rows)


def test_lossy_links_and_lossless_priorities_that_drop_are_told_by_counters() -> None:
    draw = Random(43)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        bits = draw.choice((4e10, 9e16, 3e18))
        lost = draw.choice((0, 3, 10**7))
        pfc, drops = draw.choice((None, 3, 4)), draw.choice((0, 0, 77))
        storm = draw.choice((0, 0, 0, 1))
        counters = {
            "rx_bits_phy": int(bits),
            "rx_pcs_symbol_err_phy": lost,
            "rx_prio3_discards": drops,
            "tx_pause_storm_error_events": storm,
        }
        if pfc is not None:
            counters |= {f"rx_prio{pfc}_pause": 12, f"tx_prio{pfc}_pause": 4}
        text = draw.choice(("", "$ ethtool -S ens1np0\n")) + statistics(draw, counters)
        lossy = bits > 1e13 and lost / bits > 1e-12
        node = Node(read(text))
        errors = CHECKS["port.errors"](node.fresh(), Want()).finding
        assert errors.status is (FAIL if lossy else UNKNOWN), text
        assert not lossy or "exchange it" in errors.hint  # the cable; a pause is another's doing
        ill = (pfc == 3 and drops) or storm
        assert CHECKS["roce.qos"](node, Want()).status is (FAIL if ill else NA), text


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("module_bus_stuck", FAIL),
        ("module_bad_shorted", FAIL),
        *(
            (name, UNKNOWN)
            for name in (
                *("link_down_events_phy", "rx_crc_errors_phy", "rx_symbol_err_phy"),
                *("rx_discards_phy", "tx_discards_phy", "rx_out_of_buffer", "module_high_temp"),
                *("tx_pause_storm_warning_events", "outbound_pci_stalled_wr_events"),
                *("rx_steer_missed_packets", "rx_pci_signal_integrity"),
                *("tx_pci_signal_integrity", "outbound_pci_buffer_overflow"),
            )
        ),
    ],
)
def test_a_counter_that_is_not_zero_is_named(name: str, want: Status) -> None:
    text = f"$ ethtool -S ens1np0\nNIC statistics:\n     rx_pcs_symbol_err_phy: 0\n     {name}: 7\n"
    finding = CHECKS["port.errors"](Node(read(text)), Want()).finding
    assert (finding.status, f"ens1np0: {name} 7" in finding.found) == (want, True)
    none = CHECKS["port.errors"](Node(read(text.replace(": 7", ": 0"))), Want()).finding
    assert (none.status, "ens1np0: no error" in none.found) == (UNKNOWN, True)


def test_counters_of_a_driver_that_is_not_known_say_nothing() -> None:
    text = "$ ethtool -S ens1np0\nNIC statistics:\n     rx_packets: 5\n     module_high_temp: 7\n"
    finding = CHECKS["port.errors"](Node(read(text)), Want()).finding
    assert finding.found == "ens1np0: no counter of a kind that is known here"


# ethtool qsfp.c sff8636_show_dom and sff-common.c: a tab, a key of 41 characters, " : ".
def module(draw: Random, alarm: str, lanes: str) -> str:
    flags = {
        f"{what} {side} {kind}{lane}": "Off"
        for what, lane in (
            ("Laser bias current", "   (Chan 1)"),
            ("Module temperature", ""),
            ("Laser rx power", "   (Channel 4)"),
        )
        for side in ("high", "low")
        for kind in ("alarm", "warning")
    }
    if alarm:
        flags[draw.choice([each for each in flags if f" {alarm}" in each])] = "On"
    rows = {
        "Identifier": "0x11 (QSFP28)",
        "Extended identifier": "0xcc",
        "Vendor name": "Mellanox",
        "Module temperature": "48.00 degrees C / 118.40 degrees F",
        "Alarm/warning flags implemented": "Yes",
        **flags,
        "Module temperature high alarm threshold": "80.00 degrees C / 176.00 degrees F",
        **({"Rx loss of signal": lanes} if lanes else {}),
    }
    return "".join(f"\t{key:<41} : {value}\n" for key, value in rows.items())


def test_a_module_that_raises_an_alarm_or_has_a_dark_lane_is_told() -> None:
    draw = Random(44)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        alarm = draw.choice(("", "", "alarm", "warning"))
        lanes = draw.choice(("", "None", "[ No, No, No, No ]", "[ Yes, No, No, No ]"))
        text = draw.choice(("", "# ethtool -m ens1np0\n")) + module(draw, alarm, lanes)
        ill = alarm == "alarm" or "Yes" in lanes
        got = CHECKS["port.errors"](Node(read(text)), Want()).status
        assert got is (FAIL if ill else UNKNOWN), text


INFO = (
    "driver: {driver}\nversion: 24.10-1.1.4\nfirmware-version: {firmware}\n"
    "expansion-rom-version: \nbus-info: 0000:{bus}:00.0\nsupports-statistics: yes\n"
)


@pytest.mark.parametrize(
    ("cards", "want"),
    [
        pytest.param(("28.39.1002 (MT_0000000838)",) * 2, UNKNOWN, id="alike"),
        pytest.param(
            ("28.39.1002 (MT_0000000838)", "28.42.1000 (MT_0000000838)"), FAIL, id="mixed"
        ),
        pytest.param(
            ("28.39.1002 (MT_0000000838)", "22.36.1010 (MT_0000000359)"), UNKNOWN, id="boards"
        ),
        pytest.param(("227.0.131.0/pkg 227.1.111.0",), UNKNOWN, id="another-maker"),
        pytest.param(("", "28.42.1000 (MT_0000000838)"), UNKNOWN, id="one-without"),
    ],
)
def test_firmware_of_one_board_that_differs_is_told_by_ethtool(
    cards: tuple[str, ...], want: Status
) -> None:
    text = "".join(
        f"$ ethtool -i ens{at}\n" + INFO.format(driver="mlx5_core", firmware=each, bus=f"{at:02x}")
        for at, each in enumerate(cards)
    )
    assert status("rdma.firmware", text) is want


def test_counters_that_are_not_known_here_leave_the_port_open() -> None:
    text = "NIC statistics:\n     rx_bytes: 1\n     tx_errors: 0\n"
    assert status("port.errors", text) is UNKNOWN
