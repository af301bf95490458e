"""Module files, put together again from the ranges that the probe sent."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence.board import od
from tests.evidence.healthy_files import KERNELS_OWN, P2P, PEERS, elf
from tests.evidence.modules import MAGIC, ko, sent, signed
from tests.laws import tried
from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.lines import blocks
from toolkit.facts.modules.elf import SparseFile
from toolkit.facts.modules.module_file import (
    ModuleImage,
    parse_exports,
    parse_image,
    parse_module_deps,
    parse_symbol_versions,
    read_image,
)
from toolkit.facts.modules.signature import parse_signature

INFO = {"depends": "nvidia,ib_uverbs", "vermagic": "6.1.0-56-amd64 SMP mod_unload modversions "}
PATH = "/lib/modules/x/nvidia-peermem.ko"


def image(data: bytes) -> ModuleImage:
    return parsed(sent(PATH, data))


def parsed(text: str) -> ModuleImage:
    [(path, lines)] = blocks(text, "test")
    return parse_image(path, lines)


def test_a_module_tells_its_imports_versions_and_what_modinfo_says() -> None:
    found = image(ko(INFO, {**KERNELS_OWN, **P2P, **PEERS}))
    assert found.shared == tuple(sorted((*P2P, *PEERS)))
    assert found.versions["ib_register_peer_memory_client"] == 0x215D891B
    assert found.versions["module_layout"] == KERNELS_OWN["module_layout"]
    assert "module_layout" not in found.imports
    assert (found.depends, found.kernel) == (("nvidia", "ib_uverbs"), "6.1.0-56-amd64")
    assert found.flags == ("SMP", "mod_unload", "modversions")
    assert found.signature is None


def test_the_sections_of_kernels_since_6_14_say_the_same() -> None:
    old, new = (image(ko(INFO, {**KERNELS_OWN, **P2P}, extended=each)) for each in (False, True))
    assert dict(old.versions) == dict(new.versions)


def test_a_symbol_longer_than_the_old_section_takes_is_read_from_the_new_ones() -> None:
    name = "nvidia_p2p_" + "x" * 80
    assert image(ko(INFO, {name: 7}, extended=True)).versions == {name: 7}


def test_imports_without_versions_come_from_the_symbol_table() -> None:
    found = image(ko(INFO, {}, undefined=("nvidia_p2p_get_pages",)))
    assert found.shared == ("nvidia_p2p_get_pages",)
    assert found.versions == {}


def test_a_module_that_tells_nothing_of_its_imports_is_no_stub() -> None:
    with pytest.raises(Unparsable, match="neither a symbol table nor symbol versions"):
        image(ko(INFO, {}, symbols=False))


def test_a_module_with_a_section_for_each_function_is_read_as_any_other() -> None:
    """The open driver's nvidia-modeset.ko has 6,018 sections."""
    few, many = (read_image(PATH, ko(INFO, P2P, functions=each)) for each in (1, 6010))
    assert many == few


def renumbered(data: bytes, count: int) -> bytes:
    """The same with that many sections, of which those behind its own are empty rows."""
    head = bytearray(data)
    struct.pack_into("<H", head, 60, count)
    own = struct.unpack_from("<H", data, 60)[0]
    return bytes(head) + bytes(64 * max(0, count - own))


@pytest.mark.parametrize("count", [0, 0xFF00])
def test_a_number_of_sections_that_elf_does_not_have_is_refused(count: int) -> None:
    """None, where the count stands in the first row, as files with 65,280 and more have it."""
    data = bytearray(renumbered(ko(INFO, P2P), count))
    first = struct.unpack_from("<Q", data, 40)[0]
    struct.pack_into("<Q", data, first + 32, 6)
    with pytest.raises(Unparsable, match="no sections, or more than 65279"):
        read_image(PATH, bytes(data))


def test_names_without_end_are_not_read_for_each_section_again() -> None:
    data = bytearray(ko(INFO, P2P, functions=2000))
    names, rows = data.rindex(b"\0.modinfo\0"), struct.unpack_from("<Q", data, 40)[0]
    data[names:rows] = b"x" * (rows - names)
    with pytest.raises(Unparsable, match="more than 8 times over"):
        read_image(PATH, bytes(data))


@pytest.mark.parametrize(
    ("made", "signer", "key", "digest"),
    [
        pytest.param(signed("DKMS key"), "DKMS key", "1234", "sha512", id="issuer-and-serial"),
        pytest.param(signed("x", key_id=b"\xab\xcd"), "", "abcd", "sha512", id="key-id"),
        pytest.param(
            signed("x", digest="608648016503040201"), "x", "1234", "sha256", id="another-digest"
        ),
        # NIST's object identifiers of hash algorithms, and OIW's of SHA-1.
        *(
            pytest.param(signed("x", digest=told), "x", "1234", name, id=name)
            for told, name in (
                *(("2b0e03021a", "sha1"), ("608648016503040204", "sha224")),
                *(("608648016503040202", "sha384"), ("608648016503040208", "sha3-256")),
                *(("608648016503040209", "sha3-384"), ("60864801650304020a", "sha3-512")),
            )
        ),
        pytest.param(signed("x", digest="2a03"), "x", "1234", "2a03", id="a-digest-not-known"),
        pytest.param(signed("é" * 70), "é" * 70, "1234", "sha512", id="a-long-name"),
    ],
)
def test_a_signature_tells_who_signed(made: bytes, signer: str, key: str, digest: str) -> None:
    found = image(ko(INFO, P2P, signature=made)).signature
    assert found is not None
    assert (found.signer, found.key, found.digest) == (signer, key, digest)


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(MAGIC, id="the-closing-words-alone"),
        pytest.param(bytes(12) + MAGIC, id="of-another-kind"),
        pytest.param(b"\0\0\2" + bytes(5) + b"\0\0\xff\xff" + MAGIC, id="longer-than-the-file"),
        pytest.param(signed("x")[: -len(MAGIC)] + bytes(len(MAGIC)), id="without-closing-words"),
        pytest.param(b"\x30\x84" + b"\0\0\2" + bytes(8) + b"\2" + MAGIC, id="cut-inside"),
    ],
)
def test_a_damaged_signature_is_refused(tail: bytes) -> None:
    with pytest.raises(Unparsable, match="signature of"):
        parse_signature(PATH, tail)


def _longer(made: bytes, old: bytes, new: bytes) -> bytes:
    """A signature of which a piece was replaced, with its new length told."""
    pkcs7 = made[: -len(MAGIC) - 12].replace(old, new, 1)
    return pkcs7 + bytes([0, 0, 2, 0, 0, 0, 0, 0]) + len(pkcs7).to_bytes(4, "big") + MAGIC


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        pytest.param(bytes(12) + MAGIC, bytes(12).hex(), id="of-another-kind"),
        pytest.param(b"\2" + MAGIC, "02", id="no-room-for-its-fields"),
        pytest.param(
            b"\0\0\2" + bytes(7) + b"\1\0" + MAGIC, "000002" + "00" * 7 + "0100",
            id="longer-than-the-file",
        ),
        pytest.param(
            b"x" + b"\0\0\2" + bytes(9) + MAGIC, "000002" + "00" * 9, id="of-no-length"
        ),
        pytest.param(
            _longer(signed("x"), b"\x04\x82\x01\x00", b"\x04\x82\x01\x01"),
            "an element ends behind its parent", id="one-byte-too-long",
        ),
        pytest.param(
            b"\x30\x85\x00\x00\x00\x00\x05" + bytes(5)
            + b"\0\0\2" + bytes(5) + b"\0\0\0\x0c" + MAGIC,
            "length of 5 bytes", id="length-of-five-bytes",
        ),
        pytest.param(
            b"\x30\x80" + bytes(5) + b"\0\0\2" + bytes(5) + b"\0\0\0\x07" + MAGIC,
            "length of 0 bytes", id="length-to-be-found",
        ),
    ],
)  # fmt: skip
def test_a_damaged_signature_says_what_is_wrong_with_it(tail: bytes, why: str) -> None:
    with pytest.raises(Unparsable) as refused:
        parse_signature("m.ko", tail)
    assert str(refused.value) == f"signature of m.ko: cannot read: {why!r}"


def holed(data: bytes, at: int, size: int = 64) -> str:
    """The block of a file of which some bytes were not sent."""
    rows = [f"{start:06x} {data[start:end].hex(' ')}\n{end:06x}" for start, end in
            ((begin, min(begin + 16, stop)) for first, stop in ((0, at), (at + size, len(data)))
             for begin in range(first, stop, 16))]  # fmt: skip
    return f"@{PATH}\nsize {len(data)}\n" + "\n".join(rows) + "\n"


def test_what_lies_in_a_hole_is_refused_and_never_taken_for_zeroes() -> None:
    data = ko(INFO, {**KERNELS_OWN, **P2P})
    with pytest.raises(Unparsable, match="__versions was not sent in full"):
        parsed(holed(data, data.index(b"nvidia_p2p_get_pages") - 8))


def test_a_note_that_the_probe_does_not_send_is_not_missed() -> None:
    """Every real module has one; only what is read for passports has it sent."""
    build = bytes(range(20))
    data = ko(INFO, {**KERNELS_OWN, **P2P}, build=build)
    found = parsed(holed(data, data.index(build) - 16, 36))
    assert (found.build_id, found.shared) == ("", tuple(sorted(P2P)))
    assert image(data).build_id == build.hex()


def test_ranges_may_come_in_any_order_and_overlap() -> None:
    data = bytes(range(64))
    lines = ["size 64", "000010 " + data[16:32].hex(" "), "000020", *od(data).split("\n")[:-1]]
    file = SparseFile.parse(PATH, lines)
    assert file.data == data
    assert file.covers(0, 64)
    assert not file.covers(0, 65)


def test_who_lacks_a_program_is_told_what_to_install_and_where() -> None:
    with pytest.raises(NoEvidence, match="not read, lacks xz") as caught:
        SparseFile.parse(PATH, ["lacks xz"])
    assert caught.value.hint == "install xz-utils (xz) there"
    with pytest.raises(NoEvidence) as other:
        SparseFile.parse(PATH, ["lacks permission to read it"])
    assert "as root" in other.value.hint


@pytest.mark.parametrize(
    ("line", "error"),
    [
        pytest.param("lacks xz", NoEvidence, id="packed"),
        pytest.param("size 0", Unparsable, id="empty"),
        pytest.param("size 99999999", Unparsable, id="huge"),
        pytest.param("000000 7f", Unparsable, id="no-size"),
        pytest.param("size 8\n000000 00\n000004 00", Unparsable, id="a-row-that-does-not-follow"),
        pytest.param("size 8\n000000 00 00 00 00 00 00 00 00 00", Unparsable, id="behind-the-end"),
        pytest.param("size 8\n*", Unparsable, id="a-fold-of-nothing"),
        pytest.param("size 64\n000000 7f 45\n000002", Unparsable, id="no-elf-file"),
        pytest.param("size 8\nxx", Unparsable, id="noise"),
    ],
)
def test_other_blocks_are_refused(line: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        parsed(f"@{PATH}\n{line}\n")


HEALTHY = elf().split("\n")[:-1]


def read(lines: list[str]) -> ModuleImage | None:
    """What is read of a damaged block; None where it is refused."""
    try:
        return parsed("".join(f"{line}\n" for line in lines))
    except (NoEvidence, Unparsable):
        return None


@tried(300)
@given(st.data())
def test_damaged_bytes_are_read_or_refused(data: st.DataObject) -> None:
    lines = list(HEALTHY)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(2, len(lines) - 1))
        words = lines[at].split(" ")
        where = data.draw(st.integers(0, len(words) - 1))
        words[where] = data.draw(st.sampled_from(["00", "ff", "7f", "*", "", "0000ff", "x"]))
        lines[at] = " ".join(words)
    read(lines)


@tried(200)
@given(st.binary(min_size=1, max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read(sent(PATH, data).split("\n")[:-1])
    read(sent(PATH, b"\x7fELF\x02\x01\x01" + data).split("\n")[:-1])


@tried(200)
@given(st.integers(1, len(HEALTHY) - 1))
def test_a_cut_file_is_refused(end: int) -> None:
    assert read(HEALTHY[:end]) is None


def test_exports_are_read_by_file() -> None:
    core, driver = parse_exports(
        "@/a/ib_core.ko\nlayout 0x10\n@/a/nvidia.ko\n0x0000000a\tnvidia_p2p_get_pages\nlacks xz\n"
    )
    assert (core.crcs, core.layout) == ({}, 16)
    assert (driver.crcs, driver.layout) == ({"nvidia_p2p_get_pages": 10}, None)


@pytest.mark.parametrize("line", ["0xzz\tname", "name", "layout x", "0x1 name"])
def test_other_exports_are_refused(line: str) -> None:
    with pytest.raises(Unparsable):
        parse_exports(f"@/a.ko\n{line}\n")


def test_module_symvers_gives_versions_by_file() -> None:
    text = "@/usr/src/a/Module.symvers\n0x00000010\tib_x\tdrivers/ib_core\tEXPORT_SYMBOL\t\n@/b\n"
    assert parse_symbol_versions(text) == {"/usr/src/a/Module.symvers": {"ib_x": 16}, "/b": {}}


def test_modules_dep_gives_absolute_paths() -> None:
    text = "updates/a.ko: updates/b.ko /lib/modules/x/c.ko\nupdates/b.ko:\n"
    assert parse_module_deps(text, "x") == {
        "/lib/modules/x/updates/a.ko": ("/lib/modules/x/updates/b.ko", "/lib/modules/x/c.ko"),
        "/lib/modules/x/updates/b.ko": (),
    }
