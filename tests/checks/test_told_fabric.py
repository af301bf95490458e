"""Lists of RDMA devices and of units, in all words that their tools' sources print.

Texts are drawn from the sources' format strings, as in test_told_otherwise; the rows below each
are texts of their own, which no rule was written from.
"""

from __future__ import annotations

import json
from random import Random

import pytest

from tests.checks.test_told_otherwise import HOSTS, TEXTS, read, status
from toolkit.checks.check import Status
from toolkit.errors import Unparsable
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.rdma_lists import parse_device_names, parse_ibstatus, parse_rdma_link

FAIL, PASS, UNKNOWN, NA = Status.FAIL, Status.PASS, Status.UNKNOWN, Status.NA

# iproute2 7.1 rdma/link.c, link_state_to_str and phys_state_to_str; JSON since 4.15.
LINK_STATES = ("NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")
PHYSICAL = (
    *("NOP", "SLEEP", "POLLING", "DISABLED", "ARMED", "LINK_UP", "LINK_ERROR_RECOVER"),
    *("PHY_TEST", "OPA_OFFLINE", "OPA_TEST"),
)
CAPS = "<SM, NOTICE, TRAP, AUTO_MIGR, EXTENDED_SPEEDS, CAP_MASK2, CM>"


def link_line(draw: Random, port: dict[str, str | int], form: str) -> str:
    name, number = port["ifname"], port["port"]
    keys = ("subnet_prefix", "lid", "sm_lid", "lmc", "state", "physical_state", "netdev")
    words = "".join(f"{key} {port[key]} " for key in keys if key in port)
    caps = {"plain": "", "details": f"\n    caps: {CAPS}", "oneline": f"\\    caps: {CAPS}"}[form]
    if form == "details" and "netdev" in port:
        words += f"netdev_index {draw.randrange(2, 30)} "
    old = draw.random() < 0.3
    head = f"{draw.randrange(9)}/{number}: {name}/{number}: " if old else f"link {name}/{number} "
    return f"{head}{words}{caps}\n"


def link_text(draw: Random, ports: list[dict[str, str | int]]) -> str:
    form = draw.choice(("plain", "details", "oneline", "json", "pretty"))
    if form == "json":
        listed = [{"ifindex": at, **each} for at, each in enumerate(ports)]
        return json.dumps(listed, separators=(",", ":")) + "\n"
    if form == "pretty":
        return json.dumps([{"ifindex": at, **e} for at, e in enumerate(ports)], indent=8) + "\n"
    return "".join(link_line(draw, each, form) for each in ports)


def drawn_port(draw: Random, name: str, state: str, physical: str) -> dict[str, str | int]:
    port: dict[str, str | int] = {"ifname": name, "port": 1}
    infiniband = draw.random() < 0.5
    if infiniband:
        port |= {"subnet_prefix": "fe80:0000:0000:0000", "lid": 3, "sm_lid": 1, "lmc": 0}
    port |= {"state": state, "physical_state": physical}
    return port if infiniband else port | {"netdev": f"eth{draw.randrange(9)}"}


def test_rdma_link_tells_each_state_that_it_has_a_word_for_in_any_form() -> None:
    draw = Random(21)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        up = draw.random() < 0.4
        state = "ACTIVE" if up else draw.choice(LINK_STATES)
        physical = "LINK_UP" if up else draw.choice(PHYSICAL)
        well = (state, physical) == ("ACTIVE", "LINK_UP")
        ports = [
            drawn_port(draw, f"mlx5_{at}", "ACTIVE", "LINK_UP") for at in range(draw.randrange(4))
        ]
        ports.insert(draw.randrange(len(ports) + 1), drawn_port(draw, "bnxt_re0", state, physical))
        text = link_text(draw, ports)
        assert set(read(text).frames) == {"rdma-link"}, text
        assert len(Node(read(text)).rdma_devices) == len(ports), text
        assert status("rdma.port", text) is (PASS if well else FAIL), text


@pytest.mark.parametrize("cut", [20, 60, 100])
def test_json_that_is_cut_is_no_list_of_ports(cut: int) -> None:
    ports = [drawn_port(Random(1), f"mlx5_{n}", "ACTIVE", "LINK_UP") for n in range(2)]  # noqa: S311 # drawn again the same
    with pytest.raises(Unparsable, match="cut"):
        parse_rdma_link(json.dumps(ports)[:cut])


UP, OFF = "state ACTIVE physical_state LINK_UP", "state DOWN physical_state DISABLED"
POLLS = "state DOWN physical_state POLLING"


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        pytest.param(
            (f"rocep65s0f0/1 {UP} netdev ens3f0np0", f"rocep65s0f1/1 {OFF} netdev ens3f1np1"),
            PASS,
            id="second-port-by-the-device",
        ),
        pytest.param(
            (f"mlx5_0/1 {UP} netdev enp65s0f0np0", f"mlx5_1/1 {POLLS} netdev enp65s0f1np1"),
            PASS,
            id="second-port-by-the-net-device",
        ),
        pytest.param(
            (f"roces3f0/1 {UP} netdev eth4", f"roces3f1/1 {OFF} netdev eth5"),
            PASS,
            id="second-port-by-the-slot-in-the-device",
        ),
        pytest.param(
            (f"ibp65s0f0/1 {UP}", f"ibp65s0f1/1 {POLLS}", f"ibp129s0f0/1 {UP}"),
            PASS,
            id="a-card-with-one-port-beside",
        ),
        pytest.param(
            (
                *(f"mlx5_0/1 {UP} netdev ens3f0np0", f"mlx5_1/1 {OFF} netdev ens3f1np1"),
                *(f"mlx5_2/1 {UP} netdev ens4f0np0", f"mlx5_3/1 {UP} netdev ens4f1np1"),
            ),
            FAIL,
            id="another-card-uses-both",
        ),
        pytest.param(
            (f"mlx5_0/1 {UP} netdev ens3f0np0", f"mlx5_1/1 {OFF} netdev ens4f0np0"),
            FAIL,
            id="another-card",
        ),
        pytest.param(
            (f"mlx5_0/1 {OFF} netdev ens3f0np0", f"mlx5_1/1 {OFF} netdev ens3f1np1"),
            FAIL,
            id="both-ports-of-the-card",
        ),
        pytest.param(
            (
                f"mlx5_0/1 {UP} netdev ens3f0np0",
                "mlx5_1/1 state INIT physical_state LINK_UP netdev ens3f1np1",
            ),
            FAIL,
            id="a-link-that-waits-is-in-use",
        ),
    ],
)
def test_a_second_port_of_a_card_that_nobody_uses_fails_no_node(
    lines: tuple[str, ...], want: Status
) -> None:
    assert status("rdma.port", "".join(f"link {line} \n" for line in lines)) is want


# Of a ConnectX the functions' GUIDs count on from their card's, the "system image" GUID.
CARD, SECOND, OTHER_CARD = "946d:ae03:0097:bd2c", "946d:ae03:0097:bd2d", "946d:ae03:0098:ec91"
BESIDE = {
    "rdma dev": "".join(
        f"{at}: mlx5_{at}: node_type ca fw 28.39.1002 node_guid {{{at}}} sys_image_guid {CARD} \n"
        for at in range(2)
    ),
    "ibdev2netdev": "mlx5_0 port 1 ==> ibp65s0f0 (Up)\nmlx5_1 port 1 ==> ibp65s0f1 (Down)\n",
    "ibv_devinfo": "".join(
        f"hca_id:\tmlx5_{at}\n\ttransport:\t\t\tInfiniBand (0)\n\tnode_guid:\t\t\t{{{at}}}\n"
        f"\tsys_image_guid:\t\t\t{CARD}\n\tphys_port_cnt:\t\t1\n\t\tport:\t1\n"
        f"\t\t\tstate:\t\t\t{state}\n\t\t\tlink_layer:\t\tInfiniBand\n\n"
        for at, state in enumerate(("PORT_ACTIVE (4)", "PORT_DOWN (1)"))
    ),
}


@pytest.mark.parametrize("command", BESIDE)
@pytest.mark.parametrize(("second", "want"), [(SECOND, PASS), (OTHER_CARD, FAIL)])
def test_what_stands_beside_tells_the_card_of_a_port(
    command: str, second: str, want: Status
) -> None:
    ports = f"link mlx5_0/1 {UP} \nlink mlx5_1/1 {POLLS} \n"
    beside = BESIDE[command].format(CARD, second)
    want = PASS if command == "ibdev2netdev" else want  # its names tell, and no GUID
    assert status("rdma.port", f"$ rdma link\n{ports}$ {command}\n{beside}") is want


TWO = f"$ rdma link\nlink mlx5_0/1 {UP} \nlink mlx5_1/1 {{}} \n"
ONE = "$ ibstatus\n" + "".join(
    f"{line}\n"
    for line in (
        "Infiniband device 'mlx5_0' port 1 status:",
        "\tstate:\t\t 4: ACTIVE\n\tphys state:\t 5: LinkUp",
        "\trate:\t\t 400 Gb/sec (4X NDR)\n\tlink_layer:\t InfiniBand\n",
    )
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(ONE + TWO.format(UP), PASS, id="its-state-is-told-there"),
        pytest.param(ONE + TWO.format(POLLS), FAIL, id="it-is-down-there"),
        pytest.param(ONE + "$ rdma dev\n0: mlx5_1: node_type ca \n", UNKNOWN, id="its-name-alone"),
        pytest.param(ONE + "$ rdma dev\n0: rxe0: node_type ca \n", PASS, id="it-is-software"),
        pytest.param(
            ONE + "$ ibdev2netdev\nmlx5_1 port 1 ==> eth1 (Down)\n",
            UNKNOWN,
            id="its-net-device-alone",
        ),
    ],
)
def test_a_list_that_lacks_what_another_has_passes_nothing_by_that(text: str, want: Status) -> None:
    assert status("rdma.port", text) is want


def test_a_list_by_letters_tells_where_it_was_cut() -> None:
    def listed_until(count: int) -> str:
        names = sorted(f"mlx5_{at}" for at in range(12))[:count]
        return "".join(
            f"CA '{name}'\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n"
            "\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tLink layer: InfiniBand\n"
            for name in names
        )

    told = [status("rdma.port", listed_until(count)) for count in range(1, 13)]
    # mlx5_0, mlx5_1 | mlx5_10, mlx5_11, mlx5_2, ... : what begins so could be all there is.
    assert told == [PASS, PASS, *[UNKNOWN] * 9, PASS]


# rdma-core infiniband-diags/scripts/ibstatus, port_status and fatal.
def test_ibstatus_says_ib_for_a_kernel_without_link_layers() -> None:
    text = (
        "Infiniband device 'mlx4_0' port 2 status:\n\tdefault gid:\t unknown\n"
        "\tbase lid:\t 0x0\n\tsm lid:\t\t 0x0\n\tstate:\t\t 4: ACTIVE\n"
        "\tphys state:\t 5: LinkUp\n\trate:\t\t 56 Gb/sec (4X FDR)\n\tlink_layer:\t IB\n\n"
    )
    assert Node(read(text)).rdma_devices[0].ports[0].link_layer == "InfiniBand"
    assert status("rdma.port", text) is PASS
    with pytest.raises(Unparsable, match="did not tell"):
        parse_ibstatus(text.replace("4: ACTIVE", "unknown"))


@pytest.mark.parametrize(
    "text",
    [
        "Fatal error:  No devices\n",
        "Fatal error:  device '*': sys files not found (/sys/class/infiniband/*/ports)\n",
    ],
)
def test_ibstatus_that_finds_no_device_says_so(text: str) -> None:
    assert status("rdma.port", text) is FAIL


# iproute2 rdma/dev.c and res.c; rdma-core libibverbs/examples/device_list.c.
def device_list(draw: Random, names: list[str]) -> str:
    form = draw.choice(("ibv_devices", "dev", "dev", "resource"))
    if form == "ibv_devices":
        head = f"    {'device':<16}\t   node GUID\n    {'------':<16}\t----------------\n"
        return head + "".join(f"    {name:<16}\t{draw.randrange(16**16):016x}\n" for name in names)
    rows = []
    for at, name in enumerate(names):
        if form == "resource":
            srq, ctx = draw.choice(("", "srq 2 ")), draw.choice(("", "ctx 0 "))
            rows.append(f"{at}: {name}: pd 3 cq 5 qp 4 cm_id 0 mr 0 {ctx}{srq}\n")
            continue
        guid = "b859:9f03:00d4:1234"
        protocol = draw.choice(("", "protocol roce ", "protocol ib "))
        tail = draw.choice(
            ("", "\n    caps: <RESIZE_MAX_WR, UD_AV_PORT_ENFORCE>", "\\    caps: <X>")
        )
        rows.append(
            f"{at}: {name}: node_type {draw.choice(('ca', 'rnic'))} {protocol}"
            f"{draw.choice(('fw 28.39.1002 ', ''))}node_guid {guid} sys_image_guid {guid} {tail}\n"
        )
    return "".join(rows)


def test_a_list_of_names_finds_no_hca_among_software_and_never_passes() -> None:
    draw = Random(22)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        soft = [f"{draw.choice(('rxe', 'siw'))}{n}" for n in range(draw.randrange(3))]
        hard = [f"mlx5_{n}" for n in range(draw.choice((0, 0, 1, 8)))]
        names = draw.sample(soft + hard, len(soft + hard))
        if not names:
            continue
        text = device_list(draw, names)
        assert set(read(text).frames) <= {"ibv-devices", "rdma-dev"}, text
        assert [each.name for each in parse_device_names(text)] == names, text
        assert status("rdma.devices", text) is (UNKNOWN if hard else FAIL), text
        assert status("rdma.port", text) is UNKNOWN, text


def test_a_list_of_heads_alone_names_no_device() -> None:
    head = "    device          \t   node GUID\n    ------          \t----------------\n"
    assert status("rdma.devices", head) is FAIL


def test_a_gid_without_a_version_is_no_lack_of_one() -> None:
    gid = "0000:0000:0000:0000:0000:ffff:0a01:0203"
    text = (
        "$ ibv_devinfo\nhca_id:\tmlx5_0\n\ttransport:\t\t\tInfiniBand (0)\n\tphys_port_cnt:\t1\n"
        "\t\tport:\t1\n\t\t\tstate:\t\tPORT_ACTIVE (4)\n\t\t\tlink_layer:\t\tEthernet\n\n"
        f"$ show_gids\nDEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n---\t----\t-----\t---\n"
        f"mlx5_0\t1\t0\t{gid}\t10.1.2.3  \t{{}}\t\nn_gids_found=1\n"
    )
    assert status("rdma.gid", text.format("v2")) is PASS
    assert status("rdma.gid", text.format("v1")) is FAIL
    assert status("rdma.gid", text.format("")) is UNKNOWN


# systemd src/systemctl/systemctl-list-units.c, output_units_list; systemctl-show.c.
OWNERS = {
    "nvidia-imex": "nvidia.imex",
    "nvidia-persistenced": "nvidia.persistence",
    "nvidia-fabricmanager": "nvidia.fabricmanager",
    "openibd": "ofed.openibd",
}
SETTLED = ("active running", "active exited", "inactive dead", "activating start")
ILL = ("failed failed", "activating auto-restart")


def listed(draw: Random, unit: str, state: str) -> str:
    dot = draw.choice(("\u25cf ", "* ", "\u00d7 ")) if state.startswith("failed") else "  "
    dot = draw.choice((dot, ""))
    legend = "  UNIT                     LOAD   ACTIVE SUB     DESCRIPTION\n"
    job = draw.choice(("", "", "start "))
    rows = [
        f"{dot}{unit}.service{' ' * draw.randrange(1, 30)}loaded {state} {job}NVIDIA - service\n",
        "  sshd.service             loaded active running OpenBSD Secure Shell server\n",
        "  boot.mount               loaded active mounted /boot\n",
    ]
    tail = "\nLOAD   = Reflects whether the unit definition was properly loaded.\n3 loaded units\n"
    return draw.choice((legend, "")) + "".join(draw.sample(rows, 3)) + draw.choice((tail, ""))


def shown(draw: Random, unit: str, state: str) -> str:
    active, _, sub = state.partition(" ")
    result = draw.choice(("exit-code", "core-dump", "timeout")) if state in ILL else "success"
    lines = [
        *(f"Id={unit}.service", "LoadState=loaded", f"ActiveState={active}", f"SubState={sub}"),
        *(f"Result={result}", "UnitFileState=enabled", "MainPID=0", "Names=x.service"),
    ]
    return f"$ systemctl show {unit}\n" + "\n".join(draw.sample(lines, len(lines))) + "\n"


def stated(draw: Random, unit: str, state: str) -> str:
    active, _, sub = state.partition(" ")
    result = " (Result: exit-code)" if state in ILL else ""
    frozen = draw.choice(("", " (frozen)")) if not result else ""
    paren = "" if sub == active else f" ({sub})"
    dot = draw.choice(("\u25cf ", "* ", ""))
    return (
        f"{dot}{unit}.service - NVIDIA\n"
        f"     Loaded: loaded (/lib/systemd/system/{unit}.service; enabled; preset: enabled)\n"
        f"     Active: {active}{paren}{frozen}{result} since Fri 2026-11-20 10:00:00 UTC; 2s ago\n"
        f"    Process: 12 ExecStart=/usr/bin/{unit} (code=exited, status=1/FAILURE)\n\n"
        f"Nov 20 10:00:00 {draw.choice(HOSTS)} systemd[1]: {unit}.service: Scheduled restart job.\n"
    )


def test_a_unit_that_failed_or_ends_again_and_again_is_told_in_each_form() -> None:
    draw = Random(23)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        unit, state = draw.choice(list(OWNERS)), draw.choice((*SETTLED, *ILL))
        text = draw.choice((listed, shown, stated))(draw, unit, state)
        assert Node(read(text)).services[unit].failed is (state in ILL), text
        assert status(OWNERS[unit], text) is (FAIL if state in ILL else UNKNOWN), text


@pytest.mark.parametrize(
    ("text", "check", "want"),
    [
        pytest.param(
            "$ systemctl --failed\n  UNIT LOAD ACTIVE SUB DESCRIPTION\n"
            "\u25cf nvidia-imex.service loaded failed failed NVIDIA IMEX\n\n1 loaded units\n",
            "nvidia.imex",
            FAIL,
            id="failed-alone",
        ),
        pytest.param(
            "\u25cb nvidia-imex.service\n     Loaded: masked (Reason: Unit nvidia-imex.service is "
            "masked.)\n     Active: inactive (dead)\n",
            "nvidia.imex",
            UNKNOWN,
            id="masked-is-no-failure",
        ),
        pytest.param(
            "nvidia-persistenced.service\n   Loaded: loaded (/usr/lib/systemd/system/x.service)\n"
            "   Active: failed (Result: start-limit-hit)\n",
            "nvidia.persistence",
            FAIL,
            id="start-limit",
        ),
        pytest.param(
            "# systemctl list-units 'nvidia*'\n"
            "nvidia-persistenced.service loaded active running NVIDIA Persistence Daemon\n"
            "nvidia-fabricmanager.service not-found inactive dead nvidia-fabricmanager.service\n",
            "nvidia.fabricmanager",
            UNKNOWN,
            id="not-found-is-no-failure",
        ),
    ],
)
def test_units_as_people_paste_them(text: str, check: str, want: Status) -> None:
    assert status(check, text) is want
