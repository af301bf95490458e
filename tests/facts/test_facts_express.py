"""PCI Express registers: decoded from bytes, and the same from lspci's words for those bytes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, GIB, GPUS, HCAS, MIB, PORTS, REDIRECTS, Board, Registers
from tests.evidence.board import space as laid_out
from toolkit.errors import NeedsRoot, NoEvidence
from toolkit.facts.pci.config_space import ConfigSpace
from toolkit.facts.pci.functions import PciTree, parse_pci
from toolkit.facts.pci.lspci import differences, parse_lspci
from toolkit.facts.pci.pcie_caps import (
    Link,
    PortType,
    Resizable,
    card_in_slot,
    read_express,
    read_resizable,
)

SMALL = Registers(
    payload=128,
    payload_max=256,
    read_request=512,
    relaxed_ordering=False,
    tags_8bit=False,
    tags_10bit=True,
    rebar=(256 * MIB, 128 * GIB),
)
ODD = (
    BOARD.but(GPUS[0], express=SMALL, now=("2.5 GT/s PCIe", 8))
    .but(HCAS[0], express=replace(SMALL, rebar=None), best=("16.0 GT/s PCIe", 16))
    .but(PORTS[0], acs=REDIRECTS)
    .but(PORTS[1], acs=None)
)


def space(address: str, board: Board = BOARD) -> ConfigSpace:
    function = next(each for each in board.functions if each.address == address)
    return ConfigSpace(address, laid_out(function, board.below(function)))


def test_every_register_of_a_function() -> None:
    found = read_express(space(GPUS[0], ODD))
    assert found is not None
    assert (found.port, found.payload_max, found.payload) == (PortType.ENDPOINT, 256, 128)
    assert (found.read_request, found.relaxed_ordering) == (512, False)
    assert (found.tags_8bit_possible, found.tags_8bit, found.tags_10bit) == (True, False, True)
    assert (found.now, found.best) == (Link(2.5, 8), Link(32.0, 16))


@pytest.mark.parametrize(
    ("address", "port"),
    [
        pytest.param("0000:15:01.0", PortType.ROOT_PORT, id="root-port"),
        pytest.param("0000:16:00.0", PortType.UPSTREAM, id="upper-port-of-a-switch"),
        pytest.param(PORTS[0], PortType.DOWNSTREAM, id="lower-port"),
    ],
)
def test_what_kind_of_port_it_is(address: str, port: PortType) -> None:
    found = read_express(space(address))
    assert found is not None
    assert found.port is port


def test_a_port_type_that_is_not_defined_is_refused() -> None:
    data = bytearray(space(GPUS[0]).data)
    data[0x42] = 0xF2
    with pytest.raises(NoEvidence, match="port type 15"):
        read_express(ConfigSpace(GPUS[0], bytes(data)))


def test_the_first_version_of_the_capability_does_not_tell_of_long_tags() -> None:
    data = bytearray(space(GPUS[0]).data)
    data[0x42] = 0x01
    found = read_express(ConfigSpace(GPUS[0], bytes(data)))
    assert found is not None
    assert (found.tags_10bit, found.tags_10bit_completer) == (None, None)


def test_a_function_may_complete_long_tags_and_not_send_them() -> None:
    data = bytearray(space(GPUS[0]).data)
    data[0x66] = 0x01
    found = read_express(ConfigSpace(GPUS[0], bytes(data)))
    assert found is not None
    assert (found.tags_10bit_completer, found.tags_10bit_requester) == (True, False)


def test_conventional_functions_have_none() -> None:
    data = bytearray(space(GPUS[0]).data)
    data[0x34] = 0
    assert read_express(ConfigSpace(GPUS[0], bytes(data))) is None


def test_the_size_of_a_bar_now_and_at_most() -> None:
    assert read_resizable(space(GPUS[0], ODD)) == (Resizable(2, 256 * MIB, 128 * GIB),)
    assert read_resizable(space(HCAS[0])) == ()


def test_ordinary_users_see_none_of_it() -> None:
    with pytest.raises(NeedsRoot):
        read_express(ConfigSpace(GPUS[0], space(GPUS[0]).data[:64]))
    with pytest.raises(NoEvidence):
        read_resizable(ConfigSpace(GPUS[0], space(GPUS[0]).data[:256]))


@pytest.mark.parametrize(
    ("link", "bandwidth"),
    [
        (Link(32.0, 16), 63.0),
        (Link(16.0, 16), 31.5),
        (Link(8.0, 8), 7.9),
        (Link(5.0, 8), 4.0),
        (Link(64.0, 16), 121.0),
        (Link(0.0, 0), 0.0),
    ],
    ids=str,
)
def test_bandwidth_after_line_coding(link: Link, bandwidth: float) -> None:
    assert round(link.gigabytes, 1) == bandwidth


# --- lspci as an independent judge ---


def dump(board: Board) -> str:
    """What ``lspci -xxxx`` prints of a board, which ``lspci -F`` reads again."""
    blocks = []
    for function in board.functions:
        data = laid_out(function, board.below(function))
        rows = (f"{at:02x}: {data[at : at + 16].hex(' ')}" for at in range(0, len(data), 16))
        blocks.append("\n".join([f"{function.address[5:]} x", *rows, ""]))
    return "\n".join(blocks)


@pytest.fixture(params=[BOARD, ODD], ids=["healthy", "odd"])
def judged(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[PciTree, PciTree]:
    """One board, as lspci words it and as we decode it."""
    file = tmp_path / "dump"
    file.write_text(dump(request.param))
    done = subprocess.run(
        ["lspci", "-F", str(file), "-vvv", "-nn", "-xxxx"],
        capture_output=True,
        text=True,
        check=True,
    )
    return parse_lspci(done.stdout), parse_pci(*request.param.frames().values())


@pytest.mark.shell
def test_lspci_words_every_register_as_we_decode_it(judged: tuple[PciTree, PciTree]) -> None:
    words, ours = judged
    assert list(words.functions) == list(ours.functions)
    for address, function in ours.functions.items():
        assert differences(words.functions[address], function) == ()


@pytest.mark.shell
def test_lspci_places_every_function_where_sysfs_does(judged: tuple[PciTree, PciTree]) -> None:
    words, ours = judged
    for address, function in ours.functions.items():
        found = words.functions[address]
        assert found.parents == function.parents
        assert (found.vendor, found.device, found.klass) == (
            function.vendor, function.device, function.klass
        )  # fmt: skip
        assert found.config == ConfigSpace(
            address, function.config.data if function.config else b""
        )
    assert {each.address for each in words.gpus} == set(GPUS)


def test_a_difference_between_words_and_bytes_is_named() -> None:
    function = parse_pci(*BOARD.frames().values()).functions[PORTS[0]]
    text = LSPCI_OF_A_PORT.format(payload=512, redirect="+")
    found = differences(parse_lspci(text).functions[PORTS[0]], function)
    assert found[0] == f"{PORTS[0]}: payload is 512 in lspci, 256 in the bytes"
    assert f"{PORTS[0]}: ACS is" in found[1]
    same = LSPCI_OF_A_PORT.format(payload=256, redirect="-")
    assert differences(parse_lspci(same).functions[PORTS[0]], function) == ()


LSPCI_OF_A_PORT = """\
17:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0) (prog-if 00 [Normal decode])
\tBus: primary=17, secondary=18, subordinate=18, sec-latency=0
\tCapabilities: [40] Express (v2) Downstream Port (Slot-), MSI 00
\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0
\t\t\tExtTag+ RBE+
\t\tDevCtl:\tCorrErr- NonFatalErr- FatalErr- UnsupReq-
\t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop-
\t\t\tMaxPayload {payload} bytes, MaxReadReq 4096 bytes
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 32GT/s (ok), Width x16 (ok)
\t\tDevCap2: Completion Timeout: Not Supported, TimeoutDis- NROPrPrP- LTR-
\t\t\t 10BitTagComp+ 10BitTagReq+ OBFF Not Supported, ExtFmt- EETLPPrefix-
\t\tDevCtl2: Completion Timeout: 50us to 50ms, TimeoutDis- LTR- OBFF Disabled,
\tCapabilities: [148 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir{redirect} CmpltRedir- UpstreamFwd- EgressCtrl-
"""


@pytest.mark.parametrize(
    ("slot", "presence", "inside"), [(1, 1, True), (1, 0, False), (0, 1, False), (0, 0, False)]
)
def test_a_port_tells_of_a_card_where_it_has_a_slot(
    slot: int, presence: int, *, inside: bool
) -> None:
    data = bytearray(laid_out(next(e for e in BOARD.functions if e.address == PORTS[0])))
    data[0x43] |= slot
    data[0x5A] |= presence << 6
    assert card_in_slot(ConfigSpace(PORTS[0], bytes(data))) is inside
    assert not card_in_slot(ConfigSpace("", bytes(64)))
