"""Two images side by side."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import subprocess
import tarfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from tests.evidence.build import KERNEL, NEXT_KERNEL
from tests.invoked import gdr
from tests.unit.passports import BORN, LOAD, PEER, sha
from toolkit.errors import ExitCode, UsageError
from toolkit.facts.passport import PLACE, FileEntry, ModuleEntry, Passport
from toolkit.features.image.plan import DiffKind, Unlike, unlike
from toolkit.features.image.run_passport import read_passport
from toolkit.features.image.show import text
from toolkit.report.table import WIDTH, Painter

ROOT = Path(__file__).parents[3]


def peer(module: ModuleEntry) -> Passport:
    """The image with another nvidia-peermem."""
    kernel = BORN.kernels[0]
    others = tuple(each for each in kernel.modules if each is not PEER)
    return replace(BORN, kernels=(replace(kernel, modules=(*others, module)),))


SECOND = replace(BORN.kernels[0], release=NEXT_KERNEL)


@pytest.mark.parametrize(
    ("other", "found"),
    [
        pytest.param(BORN, [], id="same"),
        pytest.param(
            replace(BORN, system="ubuntu 24.04"),
            [Unlike(DiffKind.IMAGE, "", "system", "ubuntu 22.04", "ubuntu 24.04")],
            id="system",
        ),
        pytest.param(
            replace(BORN, arguments=("root=UUID=1", "ro", "quiet", "iommu=off")),
            [
                Unlike(DiffKind.ARGUMENT, "iommu=pt", "", "there", ""),
                Unlike(DiffKind.ARGUMENT, "iommu=off", "", "", "there"),
            ],
            id="argument",
        ),
        pytest.param(
            replace(BORN, arguments=None),
            [Unlike(DiffKind.ARGUMENT, "", "all", "root=UUID=1 ro quiet iommu=pt", "not told")],
            id="arguments-not-told",
        ),
        pytest.param(
            replace(BORN, arguments=("ro", "root=UUID=1", "quiet", "iommu=pt")),
            [Unlike(DiffKind.ARGUMENT, "", "order", "root=UUID=1 ro quiet iommu=pt",
                    "ro root=UUID=1 quiet iommu=pt")],
            id="order-of-arguments",
        ),
        pytest.param(
            replace(BORN, kernels=(replace(BORN.kernels[0], image=None),)),
            [Unlike(DiffKind.KERNEL, KERNEL, "image", f"sha256 {sha(1)}",
                    "")],
            id="a-kernel-without-its-image",
        ),
        pytest.param(
            peer(replace(PEER, crcs="")),
            [Unlike(DiffKind.MODULE, "nvidia_peermem", "symbol versions", f"sha256 {PEER.crcs}",
                    "", KERNEL)],
            id="without-symbol-versions",
        ),
        pytest.param(
            peer(replace(PEER, name="other")),
            [
                Unlike(DiffKind.MODULE, "nvidia_peermem", "", "there", "", KERNEL),
                Unlike(DiffKind.MODULE, "other", "", "", "there", KERNEL),
            ],
            id="a-module-less-and-one-more",
        ),
        pytest.param(
            replace(BORN, kernels=(*BORN.kernels, SECOND)),
            [Unlike(DiffKind.KERNEL, NEXT_KERNEL, "", "", "there")],
            id="a-kernel-more",
        ),
        pytest.param(
            peer(replace(PEER, version="590.1", file=replace(PEER.file, sha256=sha(5)))),
            [
                Unlike(DiffKind.MODULE, "nvidia_peermem", "version", "580.126.16", "590.1", KERNEL),
                Unlike(DiffKind.MODULE, "nvidia_peermem", "content", f"sha256 {sha(3)}",
                       f"sha256 {sha(5)}", KERNEL),
            ],
            id="another-build",
        ),
        pytest.param(
            peer(replace(PEER, needs=(("module_layout", "0x9060323f"),), signature=None)),
            [
                Unlike(DiffKind.MODULE, "nvidia_peermem", "symbol nvidia_p2p_get_pages",
                       "0x4a7f7424", "", KERNEL),
                Unlike(DiffKind.MODULE, "nvidia_peermem", "signed by",
                       "DKMS module signing key 1234 (sha512)", "nobody", KERNEL),
            ],
            id="a-stub-unsigned",
        ),
        pytest.param(
            replace(BORN, files=(FileEntry(LOAD, sha(4), "600"), FileEntry("/etc/x", sha(6)))),
            [
                Unlike(DiffKind.FILE, LOAD, "mode", "644", "600"),
                Unlike(DiffKind.FILE, "/etc/x", "", "", "there"),
            ],
            id="files",
        ),
    ],
)  # fmt: skip
def test_what_differs_is_named(other: Passport, found: list[Unlike]) -> None:
    assert list(unlike(BORN, other)) == found
    assert len(unlike(other, BORN)) == len(found)
    lines = text("a.json", "b.json", found, Painter(False)).split("\n")
    assert all(len(line) <= WIDTH for line in lines)
    assert all(row.name in "\n".join(lines) for row in found)


def test_two_that_tell_no_arguments_differ_in_none() -> None:
    untold = replace(BORN, arguments=None)
    assert [*unlike(untold, replace(untold))] == []


@pytest.mark.parametrize(("length", "lines"), [(22, 1), (23, 2)])
def test_a_name_as_wide_as_its_column_has_no_line_of_its_own(length: int, lines: int) -> None:
    row = Unlike(DiffKind.KERNEL, KERNEL, "f" * length, "1", "2")
    of_row = text("a", "b", [row], Painter(False)).partition(f"kernel {KERNEL}\n")[2]
    assert len(of_row.partition("\n\n")[0].split("\n")) == lines


def test_what_a_passport_says_is_no_word_to_the_terminal() -> None:
    """Short words and long ones alike: each takes its own way to the line."""
    words = ("iommu=\x1b[31m", "pci=\x1b]0;title\x07" + "x" * 40)
    other = replace(BORN, arguments=words, default="\x1b[2J", system="\x07")
    lines = text("a", "b", unlike(BORN, other), Painter(False))
    assert not {"\x1b", "\x07"} & set(lines)


def run(*words: str, state: Path, verb: str = "image.diff") -> subprocess.CompletedProcess[str]:
    return gdr(verb, *words, state=state)


def test_the_verb_ends_as_they_compare(tmp_path: Path) -> None:
    a, b, bad = tmp_path / "a.json", tmp_path / "root", tmp_path / "bad.json"
    place = b / "usr/lib/gdr-toolkit"
    place.mkdir(parents=True)
    a.write_text(BORN.json())
    (place / "passport.json").write_text(replace(BORN, system="debian 12").json())
    bad.write_text("{}")
    assert run(str(a), str(a), state=tmp_path).returncode == ExitCode.OK
    told = run(str(a), str(b), "--json", state=tmp_path)
    assert told.returncode == ExitCode.FAILED, told.stderr
    document = json.loads(told.stdout)
    jsonschema.validate(document, json.loads((ROOT / "docs/passport-diff.schema.json").read_text()))
    assert [each["field"] for each in document["differences"]] == ["system"]
    refused = run(str(a), str(bad), state=tmp_path)
    assert refused.returncode == ExitCode.UNKNOWN
    assert refused.stderr.startswith("error: ")
    missing = run(str(a), str(tmp_path), state=tmp_path)
    assert missing.returncode == ExitCode.USAGE
    assert "no /usr/lib/gdr-toolkit/passport.json in it" in missing.stderr


def packed(folder: Path, name: str, *texts: str, junk: int = 0) -> Path:
    """An archive with a passport, or with one after the other, and some noise behind it."""
    path, plain = folder / name, io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for text in (*texts, "".join(sha256(bytes([at])).hexdigest() for at in range(junk))):
            row = tarfile.TarInfo(f".{PLACE}" if text in texts else "./junk")
            row.size = len(text)
            archive.addfile(row, io.BytesIO(text.encode()))
    data = plain.getvalue()
    if name.endswith(".gz"):
        data = gzip.compress(data)
    elif name.endswith(".xz"):
        data = lzma.compress(data)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["root.tar", "root.tar.gz", "root.tar.xz"])
def test_of_two_passports_in_an_archive_the_one_that_unpacking_leaves_counts(
    tmp_path: Path, name: str
) -> None:
    later = replace(BORN, system="debian 12")
    assert read_passport(packed(tmp_path, name, BORN.json(), later.json())) == later


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        pytest.param("root.tar", lambda data: data[:9000], id="cut"),
        pytest.param("root.tar.gz", lambda data: data[:-4000], id="cut-gzip"),
        pytest.param("root.tar.xz", lambda data: data[:-4000], id="cut-xz"),
        pytest.param(
            "root.tar.gz", lambda data: data[:-4000] + b"\0\1" + data[-3998:], id="damaged-gzip"
        ),
        pytest.param(
            "root.tar.xz", lambda data: data[:-4000] + b"\0\1" + data[-3998:], id="damaged-xz"
        ),
    ],
)
def test_an_archive_that_is_not_whole_is_no_answer(
    tmp_path: Path, name: str, harm: Callable[[bytes], bytes]
) -> None:
    archive = packed(tmp_path, name, BORN.json(), junk=250)
    assert read_passport(archive) == BORN
    archive.write_bytes(harm(archive.read_bytes()))
    with pytest.raises(UsageError, match="no whole tar"):
        read_passport(archive)


def test_who_asks_image_for_two_is_told_of_the_verb(tmp_path: Path) -> None:
    for words in (("--diff", "a", "b"), ("--diff",)):
        refused = run(*words, state=tmp_path, verb="image")
        assert refused.returncode == ExitCode.USAGE
        assert "image.diff A B" in refused.stderr


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("version", replace(PEER, version="x")),
        ("vermagic", replace(PEER, vermagic="x")),
        ("depends", replace(PEER, depends=("x",))),
        ("srcversion", replace(PEER, srcversion="x")),
        ("build id", replace(PEER, build_id="x")),
        ("licence", replace(PEER, licence="x")),
        ("symbol module_layout", replace(PEER, needs=(("module_layout", "x"), PEER.needs[1]))),
        ("symbol new", replace(PEER, offers=(*PEER.offers, ("new", "x")))),
        ("symbol versions", replace(PEER, crcs="x")),
        ("signed by", replace(PEER, signature=None)),
        ("path", replace(PEER, file=replace(PEER.file, path="/x"))),
        ("mode", replace(PEER, file=replace(PEER.file, mode="x"))),
        ("content", replace(PEER, file=replace(PEER.file, sha256=sha(9)))),
    ],
)
def test_each_field_of_a_module_is_told_by_its_name(field: str, changed: ModuleEntry) -> None:
    found = list(unlike(BORN, peer(changed)))
    assert [(each.kind, each.name, each.field) for each in found] == [
        (DiffKind.MODULE, "nvidia_peermem", field)
    ]
