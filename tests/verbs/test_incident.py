"""The incident: one file, the same bytes for the same content, read without harm."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests import invoked
from tests.evidence.build import groups, node
from toolkit.errors import UsageError
from toolkit.evidence import Evidence
from toolkit.verbs import incident
from toolkit.verbs.incident import check_place, read_incident, write_incident
from toolkit.verbs.saved import read_saved

ILL = node({"iommu-groups": groups("DMA-FQ")})


def test_what_was_written_is_read_again_node_by_node(tmp_path: Path) -> None:
    file = tmp_path / "ticket.tar.gz"
    write_incident(file, {"gpu08": ILL, "gpu07": node()}, {"about.txt": "x\n"})
    assert list(read_saved(file)) == [("gpu07", node()), ("gpu08", ILL)]


def test_one_node_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ticket.tar.gz"
    data = node().dump().encode()
    with tarfile.open(file, "w:gz") as tar:
        for _ in range(2):
            member = tarfile.TarInfo("evidence/gpu07.evidence")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    with pytest.raises(UsageError, match="twice"):
        list(read_saved(file))


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not an ordinary file"):
        list(read_saved(tmp_path / "pipe"))


@pytest.mark.parametrize(("name", "why"), [("", "is a folder"), ("no/x.tar.gz", "no such folder")])
def test_a_place_where_no_file_can_be_is_refused_early(name: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=why):
        check_place(tmp_path / name)
    check_place(tmp_path / "ticket.tar.gz")


def test_a_device_is_never_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not an ordinary file"):
        write_incident(tmp_path / "pipe", {"x": node()}, {})
    assert (tmp_path / "pipe").is_fifo()


def test_the_same_content_is_the_same_bytes(tmp_path: Path) -> None:
    write_incident(tmp_path / "a.tar.gz", {"x": node(), "y": ILL}, {"b": "1", "a": "2"})
    write_incident(tmp_path / "b.tar.gz", {"y": ILL, "x": node()}, {"a": "2", "b": "1"})
    data = (tmp_path / "a.tar.gz").read_bytes()
    assert data == (tmp_path / "b.tar.gz").read_bytes()
    assert data[4:8] == bytes(4), "gzip's own note of when it was made (RFC 1952, MTIME)"


def test_evidence_that_is_no_utf8_is_kept_word_for_word(tmp_path: Path) -> None:
    odd = node({"dmesg": "\udcff\x0c\u2028\n"})
    write_incident(tmp_path / "a.tar.gz", {"x": odd}, {})
    assert list(read_incident(tmp_path / "a.tar.gz")) == [("x", odd)]


def tar(file: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(file, "w:gz") as made:
        for member, data in members:
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))
    return file


def link(name: str, to: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, to
    return member


@pytest.mark.parametrize(
    "member",
    [
        pytest.param(tarfile.TarInfo("evidence/../../etc/x.evidence"), id="climbing"),
        pytest.param(tarfile.TarInfo("/evidence/x.evidence"), id="absolute"),
        pytest.param(tarfile.TarInfo("evidence/sub/x.evidence"), id="deeper"),
        pytest.param(link("evidence/x.evidence", "/etc/shadow"), id="link"),
    ],
)
def test_only_evidence_where_it_belongs_is_read(member: tarfile.TarInfo, tmp_path: Path) -> None:
    data = b"" if member.issym() else node().dump().encode()
    file = tar(tmp_path / "a.tar.gz", (member, data))
    with pytest.raises(UsageError, match="holds no evidence"):
        list(read_incident(file))


def test_a_file_that_would_fill_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incident, "_EVIDENCE", 1000)
    file = tar(tmp_path / "a.tar.gz", (tarfile.TarInfo("evidence/x.evidence"), bytes(1001)))
    with pytest.raises(UsageError, match="too large to be evidence"):
        list(read_incident(file))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x1f\x8b", id="cut-at-once"),
        pytest.param(gzip.compress(b"hello" * 500), id="no-tar"),
        pytest.param(gzip.compress(bytes(range(256)) * 40)[:300], id="cut"),
        pytest.param(b"\x1f\x8b" + bytes(200), id="no-gzip"),
    ],
)
def test_a_damaged_file_is_refused_by_name(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(data)
    with pytest.raises(UsageError, match=r"a\.tar\.gz: (is no incident|not recognised as)"):
        list(read_saved(tmp_path / "a.tar.gz"))


@pytest.mark.parametrize("lost", [1, 9, 200, 3000])
def test_a_tail_that_was_lost_is_never_read_as_all_there_was(lost: int, tmp_path: Path) -> None:
    whole = tmp_path / "whole.tar.gz"
    write_incident(whole, {f"n{at:02d}": node({"hostname": f"{at}\n"}) for at in range(20)}, {})
    (tmp_path / "cut.tar.gz").write_bytes(whole.read_bytes()[:-lost])
    with pytest.raises(UsageError, match="is damaged"):
        list(read_incident(tmp_path / "cut.tar.gz"))


def test_a_byte_that_was_turned_over_is_found(tmp_path: Path) -> None:
    write_incident(tmp_path / "a.tar.gz", {"x": node()}, {})
    data = bytearray((tmp_path / "a.tar.gz").read_bytes())
    data[-8] ^= 1  # the checksum, for a turned byte before it may end the unpacking itself
    (tmp_path / "a.tar.gz").write_bytes(data)
    with pytest.raises(UsageError, match="is damaged"):
        list(read_incident(tmp_path / "a.tar.gz"))


def gdr(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return invoked.gdr(*words, "--quiet", state=place / "state", cwd=place)


def test_an_incident_is_judged_elsewhere_as_it_was_judged_here(tmp_path: Path) -> None:
    """Everything but the hour: the report that lies in it, and the one made from it."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "gpu07.txt").write_text("[    1.000000] DMAR: IOMMU enabled\n")
    site = '[[waivers]]\ncheck = "iommu.passthrough"\nreason = "x"\nuntil = 2030-01-01\n'
    (here / "site.toml").write_text(site)
    made = gdr(
        here, "capture", "--import", "dmesg=gpu07.txt", "--incident", "t.tar.gz", "--site",
        "site.toml",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert made.stdout == "t.tar.gz\n"
    (here / "t.tar.gz").rename(there / "t.tar.gz")
    with tarfile.open(there / "t.tar.gz") as opened:
        kept = json.loads(opened.extractfile("report.json").read())  # type: ignore[union-attr] # it is a file
        about = opened.extractfile("about.txt").read().decode()  # type: ignore[union-attr] # likewise
        (there / "site.toml").write_bytes(opened.extractfile("site.toml").read())  # type: ignore[union-attr] # likewise
    assert "doctor --from t.tar.gz --profile auto --site site.toml" in about
    judged = gdr(there, "doctor", "--from", "t.tar.gz", "--site", "site.toml", "--json")
    again = json.loads(judged.stdout)
    assert again["hosts"][0]["verdicts"]
    for each in (kept, again):
        del each["time"]
    assert kept == again
    assert isinstance(next(read_saved(there / "t.tar.gz"))[1], Evidence)
