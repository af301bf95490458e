"""Tables of PCI functions: what a text means, and what is refused with its line."""

from __future__ import annotations

import struct

import pytest

from dev.lab import pcitree
from toolkit.errors import UsageError

SPACE = 4096
SMALL = """
host 0001:10 node=1  # remarks are not read
  root-port acs=1f/1d
    upstream
      downstream
        gpu
      downstream at=03.0
        hca id=15b3:101d speed=4 width=8 ats=on
"""


def _functions(data: bytes) -> dict[str, tuple[bytes, bytes]]:
    """Registers and masks by address, as the module reads them."""
    magic, hosts, count = struct.unpack_from("<8sII", data)
    assert magic == b"PCITREE1"
    at, size = 16 + 8 * hosts, 4 + 2 * SPACE
    assert len(data) == at + count * size
    found = {}
    for start in range(at, len(data), size):
        domain, bus, devfn = struct.unpack_from("<HBB", data, start)
        value = data[start + 4 : start + 4 + SPACE]
        mask = data[start + 4 + SPACE : start + size]
        found[f"{domain:04x}:{bus:02x}:{devfn >> 3:02x}.{devfn & 7}"] = (value, mask)
    return found


def test_buses_are_numbered_in_the_order_of_the_lines() -> None:
    table = pcitree.build(SMALL)
    assert table.nodes == 2
    assert table.addresses == (
        *("0001:10:01.0", "0001:11:00.0", "0001:12:00.0", "0001:13:00.0"),
        *("0001:12:03.0", "0001:14:00.0"),
    )
    assert tuple(_functions(table.data)) == table.addresses
    domain, first, last, node, window = struct.unpack_from("<HBBHH", table.data, 16)
    assert (domain, first, last, node) == (1, 0x10, 0x14, 1)
    assert window >= 256, "a GPU of 128 GiB and its alignment"


def test_a_bridge_leads_to_all_that_is_below_it() -> None:
    functions = _functions(pcitree.build(SMALL).data)
    assert tuple(functions["0001:10:01.0"][0][0x18:0x1B]) == (0x10, 0x11, 0x14)
    assert tuple(functions["0001:12:00.0"][0][0x18:0x1B]) == (0x12, 0x13, 0x13)
    assert tuple(functions["0001:12:03.0"][0][0x18:0x1B]) == (0x12, 0x14, 0x14)


def test_of_acs_only_the_bits_of_its_capability_can_be_written() -> None:
    value, mask = _functions(pcitree.build(SMALL).data)["0001:10:01.0"]
    assert struct.unpack_from("<IHH", value, 0x148) == (0x0001000D, 0x1F, 0x1D)
    assert struct.unpack_from("<IHH", mask, 0x148) == (0, 0, 0x1F)


def test_the_extended_list_begins_at_100h_and_leads_to_each_capability_once() -> None:
    functions = _functions(pcitree.build(SMALL).data)
    chains = {}
    for address, (value, _) in functions.items():
        at, found = 0x100, []
        while at:
            (header,) = struct.unpack_from("<I", value, at)
            found.append(header & 0xFFFF)
            at = header >> 20
        chains[address] = found
    assert chains == {
        "0001:10:01.0": [0x0001, 0x000D],
        "0001:11:00.0": [0x0001],
        "0001:12:00.0": [0x0001, 0x000D],
        "0001:13:00.0": [0x0001],
        "0001:12:03.0": [0x0001, 0x000D],
        "0001:14:00.0": [0x0001, 0x000F],
    }


def test_a_bar_tells_its_size_by_the_bits_that_stay_zero() -> None:
    _, mask = _functions(pcitree.build(SMALL).data)["0001:13:00.0"]
    assert struct.unpack_from("<Q", mask, 0x18)[0] == ~((128 << 30) - 1) & (1 << 64) - 1


def test_msix_is_the_second_of_the_list_and_only_its_switches_can_be_written() -> None:
    text = SMALL.replace("        gpu\n", "        gpu msix=6\n")
    value, mask = _functions(pcitree.build(text).data)["0001:13:00.0"]
    assert struct.unpack_from("<BB", value, 0x40) == (0x10, 0x80)
    assert struct.unpack_from("<BBH", value, 0x80) == (0x11, 0, 5)
    assert struct.unpack_from("<BBHII", mask, 0x80) == (0, 0, 0xC000, 0, 0)


def test_words_say_what_is_unlike_the_usual() -> None:
    value, _ = _functions(pcitree.build(SMALL).data)["0001:14:00.0"]
    assert struct.unpack_from("<HH", value) == (0x15B3, 0x101D)
    assert struct.unpack_from("<H", value, 0x40 + 0x12)[0] & 0x3FF == 4 | 8 << 4
    assert struct.unpack_from("<IHH", value, 0x158) == (0x0001000F, 0x20, 0x8000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("host 0001:10\n  gpus\n", "cannot read line 2: 'gpus'", id="kind"),
        pytest.param("host 0001:10\n  gpu bar=1\n", "line 2: 'bar=1'", id="word"),
        pytest.param("host 0001:10\n  gpu bars=1x\n", "line 2: 'gpu'", id="value"),
        pytest.param("host 0001:10\n   gpu\n", "line 2: 'gpu'", id="indent"),
        pytest.param("host 0001:10\n  gpu\n    hca\n", "line 3: 'hca'", id="below-a-gpu"),
        pytest.param("root-port\n", "line 1: 'root-port'", id="no-host"),
        pytest.param("host 10\n", "line 1: 'host'", id="address"),
        pytest.param("host 0000:10\n", "line 1: 'host'", id="domain-of-the-machine"),
        pytest.param("# nothing\n", "is empty", id="nothing"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pcitree.build(text)


def test_a_table_is_a_name_of_ours_or_a_file() -> None:
    assert pcitree.build(pcitree.named("hgx")).addresses
    with pytest.raises(UsageError, match="--pci no-such: no such table") as refused:
        pcitree.named("no-such")
    assert "hgx" in refused.value.hint
