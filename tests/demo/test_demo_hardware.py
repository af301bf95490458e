"""The simulated hardware, decoded here by other code than made it."""

from __future__ import annotations

import shutil
import struct
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from dev.tools import in_ci
from toolkit.demo.machine import GPU_IDS, HCA_IDS, Machine, functions, gpus, hcas
from toolkit.demo.node_files import topology
from toolkit.demo.pci import ACS_REDIRECT, GIB, Function, config_space, resource
from toolkit.demo.software import module_file


def capabilities(space: bytes) -> dict[int, int]:
    """Capability id to offset, walked as software does."""
    found, at = {}, space[0x34]
    while at:
        found[space[at]] = at
        at = space[at + 1]
    return found


def extended(space: bytes) -> dict[int, int]:
    found, at = {}, 0x100
    while at:
        (header,) = struct.unpack_from("<I", space, at)
        found[header & 0xFFFF] = at
        at = header >> 20
    return found


def acs_control(function: Function) -> int | None:
    space = config_space(function)
    at = extended(space).get(0x000D)
    return None if at is None else struct.unpack_from("<H", space, at + 6)[0]


@pytest.mark.parametrize("acs", [0x00, 0x01, ACS_REDIRECT])
def test_the_acs_control_register_of_downstream_ports_is_what_was_asked_for(acs: int) -> None:
    ports = [each for each in functions(Machine(acs=acs)) if each.address.startswith("0000:17:")]
    assert [acs_control(each) for each in ports] == [acs, acs]


def test_endpoints_have_no_acs() -> None:
    assert {acs_control(each) for each in gpus(Machine())} == {None}


def test_the_express_capability_tells_port_type_and_link() -> None:
    gpu = gpus(Machine())[0]
    space = config_space(gpu)
    at = capabilities(space)[0x10]
    status = struct.unpack_from("<H", space, at + 0x12)[0]
    assert space[at + 2] >> 4 == 0  # endpoint
    assert (status & 0xF, status >> 4 & 0x3F) == (5, 16)  # 32 GT/s, x16
    control = struct.unpack_from("<H", space, at + 8)[0]
    assert 128 << (control >> 12 & 7) == 4096  # maximum read request


def test_every_bridge_names_the_buses_below_it() -> None:
    found = {each.address: each for each in functions(Machine())}
    for each in found.values():
        if each.parent:
            space = config_space(found[each.parent])
            assert space[0x0E] == 1
            assert space[0x19] <= each.bus <= space[0x1A]


@pytest.mark.parametrize("machine", [Machine(), Machine(vfs=24)], ids=["plain", "vfs"])
def test_regions_do_not_overlap_and_bar1_holds_all_of_the_memory(machine: Machine) -> None:
    spans = []
    for each in functions(machine):
        for line in resource(each).split("\n")[:-1]:
            start, end, _ = (int(word, 16) for word in line.split())
            if end:
                spans.append((start, end))
    spans.sort()
    assert all(low[1] < high[0] for low, high in pairwise(spans))
    sizes = [end - start + 1 for start, end in spans]
    assert sizes.count(128 * GIB) == 8


def test_each_gpu_shares_its_switch_with_one_hca() -> None:
    found = {each.address: each for each in functions(Machine())}

    def switch(function: Function) -> str:
        return found[function.parent].parent

    machine = Machine()
    assert [switch(each) for each in gpus(machine)] == [switch(each) for each in hcas(machine)]
    assert topology(machine).count("PIX") == 2 * 8 + 1  # both ways round, and the legend


def test_two_sockets_share_the_gpus_evenly() -> None:
    assert [each.numa for each in gpus(Machine())] == [0] * 4 + [1] * 4


def test_virtual_functions_make_a_large_machine() -> None:
    found = functions(Machine(vfs=24))
    assert len(found) == len({each.address for each in found}) == 252
    assert {GPU_IDS, HCA_IDS} <= {each.ids for each in found}


INFO = (("license", "GPL"), ("depends", "nvidia,ib_uverbs"), ("vermagic", "6.8.0 SMP "))


READERS = [
    pytest.param(["modinfo"], id="kmod"),
    pytest.param(["readelf", "-p", ".modinfo"], id="binutils"),
]


@pytest.mark.shell
@pytest.mark.parametrize("reader", READERS)
def test_other_peoples_tools_read_our_modules(tmp_path: Path, reader: list[str]) -> None:
    if shutil.which(reader[0]) is None:
        lacks = f"{reader[0]} is not installed; our own decoding is the next test"
        pytest.fail(lacks) if in_ci() else pytest.skip(lacks)
    file = tmp_path / "sample.ko"
    file.write_bytes(module_file(INFO, ("nvidia_p2p_get_pages",)))
    said = subprocess.run([*reader, str(file)], capture_output=True, text=True, check=True).stdout
    assert "nvidia,ib_uverbs" in said
    assert "6.8.0 SMP" in said


def test_a_module_file_is_an_elf_object_with_a_modinfo_section() -> None:
    data = module_file(INFO)
    assert data[:4] == b"\x7fELF"
    offset, count, names = (
        *struct.unpack_from("<Q", data, 40),
        *struct.unpack_from("<HH", data, 60),
    )
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * i) for i in range(count)]
    at = headers[names][4]
    sections = {data[at + each[0] :].split(b"\0", 1)[0]: each for each in headers}
    start, size = sections[b".modinfo"][4:6]
    assert data[start : start + size].startswith(b"license=GPL\0depends=")


def test_a_module_that_says_too_much_is_refused() -> None:
    with pytest.raises(ValueError, match="more to say"):
        module_file((("description", "x" * 2000),))
