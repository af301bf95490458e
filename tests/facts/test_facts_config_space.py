"""PCI config space as od prints it, and what may be concluded from how much of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence.board import BRIDGE, GIB, Fn, Registers, od, space
from tests.laws import tried
from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.pci.config_space import REDIRECT, Acs, Ats, ConfigSpace, as_read
from toolkit.facts.pci.pcie_caps import (
    card_in_slot,
    read_express,
    read_link_control,
    read_resizable,
    read_sriov,
)

ADDRESS = "0000:17:00.0"


def bridge(acs: int | None = 0, *, readable: int = 4096) -> bytes:
    return space(Fn(ADDRESS, "pci0000:15", (0x1000, 0xC030), BRIDGE, acs=acs, readable=readable))


def parsed(data: bytes) -> ConfigSpace:
    return ConfigSpace.parse(ADDRESS, od(data).split("\n")[:-1])


@given(st.binary(max_size=600), st.integers(0, 40))
def test_unfolding_gives_back_every_byte(head: bytes, zeroes: int) -> None:
    data = head + bytes(16 * zeroes) + head
    assert parsed(data).data == data


def test_a_folded_line_stands_for_many() -> None:
    zero = " 00" * 16
    lines = [f"000000{zero}", "*", "000fe0" + " ff" * 16, f"000ff0{zero}", "001000"]
    data = ConfigSpace.parse(ADDRESS, lines).data
    assert len(data) == 4096
    assert data[0xFE0:] == b"\xff" * 16 + bytes(16)


def test_a_fold_at_the_end_reaches_to_the_last_offset() -> None:
    assert ConfigSpace.parse(ADDRESS, ["000000" + " 00" * 16, "*", "000100"]).data == bytes(256)


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        pytest.param(["000010 00"], 1, id="does-not-begin-at-zero"),
        pytest.param(["000000 00 01", "000001 00"], 2, id="goes-back"),
        pytest.param(["000000 00 01", "*", "000003"], 3, id="fold-does-not-fit"),
        pytest.param(["*", "000010"], 2, id="fold-of-nothing"),
        pytest.param(["000000 00 100"], 1, id="no-byte"),
        pytest.param(["000000 00 zz"], 1, id="no-number"),
        pytest.param([""], 1, id="empty-line"),
        pytest.param(["000000" + " 00" * 16, "*", "7fffffff"], 3, id="larger-than-any-function"),
        pytest.param(["0000000 000000 000000"], 1, id="another-format-of-od"),
    ],
)
def test_what_does_not_add_up_is_refused(lines: list[str], number: int) -> None:
    with pytest.raises(Unparsable, match=rf"config of {ADDRESS}: cannot read line {number}"):
        ConfigSpace.parse(ADDRESS, lines)


@pytest.mark.parametrize(
    ("control", "redirects"),
    [
        pytest.param(0x0000, False, id="all-clear"),
        pytest.param(0x0001, False, id="SrcValid-alone-is-harmless"),
        pytest.param(0x0002, False, id="TransBlk"),
        pytest.param(0x0004, True, id="ReqRedir"),
        pytest.param(0x0008, True, id="CmpltRedir"),
        pytest.param(0x0010, False, id="UpstreamFwd-alone"),
        pytest.param(0x0020, True, id="EgressCtrl"),
        pytest.param(0x0040, False, id="DirectTrans"),
        pytest.param(0x001D, True, id="as-firmware-leaves-it"),
    ],
)
def test_which_acs_bits_redirect(control: int, redirects: bool) -> None:
    acs = parsed(bridge(control)).acs()
    assert acs == Acs(control)
    assert bool(acs is not None and acs & REDIRECT) is redirects


def test_bits_beyond_the_register_are_not_acs() -> None:
    assert parsed(bridge(0xFF80)).acs() == Acs(0)


def test_a_function_without_the_capability_has_no_acs() -> None:
    assert parsed(bridge(None)).acs() is None


def test_a_conventional_function_has_no_acs() -> None:
    data = bytearray(bridge(0x1D)[:256])
    data[0x40] = 0x01  # power management in place of PCI Express
    assert parsed(bytes(data)).acs() is None


def test_a_function_without_capabilities_has_no_acs() -> None:
    data = bytearray(bridge(0x1D)[:64])
    data[0x06] = 0
    assert parsed(bytes(data)).acs() is None


@pytest.mark.parametrize("readable", [0, 2, 6, 64, 65, 256, 0x148, 0x14D])
def test_what_was_not_readable_is_not_known(readable: int) -> None:
    with pytest.raises(NoEvidence, match=f"only {readable} bytes are readable"):
        parsed(bridge(0x1D, readable=readable)).acs()


@pytest.mark.parametrize("size", [64, 256, 4096])
def test_a_function_that_fell_off_the_bus_says_nothing(size: int) -> None:
    with pytest.raises(NoEvidence, match="does not answer"):
        parsed(b"\xff" * size).acs()


def test_an_extended_space_of_ones_says_nothing() -> None:
    with pytest.raises(NoEvidence, match="beyond 256 bytes"):
        parsed(bridge(0x1D)[:256] + b"\xff" * 3840).acs()


def test_a_ring_of_capabilities_ends() -> None:
    data = bytearray(bridge(0))
    data[0x40:0x42] = b"\x05\x40"  # MSI that points at itself
    assert parsed(bytes(data)).express() is None
    data = bytearray(bridge(None))
    data[0x100:0x104] = (0x0001 | 2 << 16 | 0x100 << 20).to_bytes(4, "little")
    assert parsed(bytes(data)).acs() is None


def test_address_translation_services() -> None:
    data = bytearray(bridge(None))
    assert parsed(bytes(data)).ats() is None
    data[0x100:0x104] = (0x000F | 1 << 16).to_bytes(4, "little")
    assert parsed(bytes(data)).ats() == Ats(enabled=False)
    data[0x106:0x108] = b"\x00\x80"
    assert parsed(bytes(data)).ats() == Ats(enabled=True)


READERS: tuple[Callable[[ConfigSpace], object], ...] = (
    *(ConfigSpace.express, ConfigSpace.acs, ConfigSpace.acs_registers, ConfigSpace.ats),
    *(read_express, read_link_control, read_sriov, read_resizable, card_in_slot),
)
FULL = space(
    Fn(
        *(ADDRESS, "pci0000:15", (0x1000, 0xC030), BRIDGE),
        acs=0x1D,
        ats=True,
        express=Registers(rebar=(GIB, 4 * GIB), vfs=8),
    )
)


def told(read: Callable[[ConfigSpace], object], data: bytes) -> object:
    try:
        return read(ConfigSpace(ADDRESS, data))
    except NoEvidence as why:
        return type(why), str(why), why.hint


@tried(1000)
@given(
    st.dictionaries(st.integers(0, 0x180), st.integers(0, 255), max_size=12),
    st.sampled_from((4096, 4096, 256, 64, 65, 0x36, 8, 3, 0)),
)
def test_what_is_left_out_of_a_config_space_is_read_by_nobody(
    changes: dict[int, int], size: int
) -> None:
    """Whatever stands in it: chains that lead into one another, and spaces that are cut."""
    data = bytearray(FULL)
    for at, byte in changes.items():
        data[at] = byte
    whole = bytes(data[:size])
    kept = as_read(whole)
    assert len(kept) == len(whole)
    for read in READERS:
        assert told(read, kept) == told(read, whole), read


def test_equal_functions_are_equal_whatever_addresses_and_serial_numbers_they_have() -> None:
    one, other = bytearray(FULL), bytearray(FULL)
    for data, byte in ((one, 0x11), (other, 0x22)):
        data[0x10:0x34] = bytes([byte]) * 0x24  # regions and windows
        data[0x300:0x304] = b"\x03\0" + data[0x102:0x104]  # a serial number amid the chain
        data[0x304:0x30C] = bytes([byte]) * 8
        data[0x102:0x104] = b"\x01\x30"
        assert ConfigSpace("", bytes(data)).extended(0x0003) == 0x300
        assert told(read_sriov, bytes(data)) == told(read_sriov, FULL)
    assert one != other
    assert as_read(bytes(one)) == as_read(bytes(other))
