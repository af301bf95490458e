"""``doctor`` over any file: what it holds is judged, what is no evidence is listed."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

import jsonschema
import pytest

from tests import invoked
from tests.evidence.build import node
from toolkit.checks.check import Status
from toolkit.checks.judged import judge_node
from toolkit.cli.options import Option, unbared
from toolkit.errors import ExitCode, UsageError
from toolkit.facts.text.foreign import Foreign, foreign
from toolkit.facts.text.pasted_logs import evidence_of, frames_of
from toolkit.verbs import saved
from toolkit.verbs.archives import Leaf, UnpackRoom, leaves
from toolkit.verbs.pasted_logs import MANY_BYTES
from toolkit.verbs.saved import read_all, read_saved
from toolkit.want import Want

DAY, LOADED = date(2026, 11, 27), "peermem.loaded"
SCHEMA = Path(__file__).parents[2] / "docs/report.schema.json"
MATRIX = "\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tPIX\t0-31\nNIC0\tPIX\t X \t\n"
DMESG = "[   31.832683] nvidia: loading\n"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(400)
README = "\n\x1b[1m# About\x1b[0m this case, whose ports were seen with ibstat and by nobody else\n"
Run = Callable[..., subprocess.CompletedProcess[str]]


def zstd(data: bytes) -> bytes:
    return subprocess.run(("zstd", "-q", "-c"), input=data, capture_output=True, check=True).stdout


def tarred(files: dict[str, bytes], packed: str = "") -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode=f"w:{packed}") as made:  # type: ignore[call-overload] # packed is gz or xz
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))
    return raw.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return raw.getvalue()


def keys(*sources: Path) -> dict[str, list[str]]:
    return {name: list(evidence.frames) for name, evidence in read_all(sources, [], read_saved)}


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    **({"zst": zstd} if shutil.which("zstd") else {}),
}


@pytest.mark.parametrize("suffix", PACKED)
def test_a_packed_text_is_read_as_the_text(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"gpu07.{suffix}").write_bytes(PACKED[suffix](MATRIX.encode()))
    assert keys(tmp_path / f"gpu07.{suffix}") == {"gpu07": ["nvidia-topology"]}


CASE = {"case/topo.txt": MATRIX.encode(), "case/logs/kern": DMESG.encode()}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(tarred(CASE), id="tar"),
        pytest.param(tarred(CASE, "gz"), id="tar.gz"),
        pytest.param(tarred(CASE, "xz"), id="tar.xz"),
        pytest.param(zipped(CASE), id="zip"),
        pytest.param(zipped({"x.tar.gz": tarred(CASE, "gz")}), id="tar-in-zip"),
        pytest.param(tarred({n: gzip.compress(d) for n, d in CASE.items()}), id="gz-in-tar"),
    ],
)
def test_an_archive_is_read_as_the_folder_that_it_was(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "gpu07.any").write_bytes(data)
    assert keys(tmp_path / "gpu07.any") == {"gpu07": ["nvidia-topology", "dmesg"]}


def test_of_an_archive_of_two_nodes_each_folder_is_one(tmp_path: Path) -> None:
    names = [f"case/{name}/{kind}" for name in ("gpu07", "gpu08") for kind in ("topo", "kern")]
    texts = {name: (MATRIX if "topo" in name else DMESG).encode() for name in names}
    (tmp_path / "case.zip").write_bytes(zipped(texts))
    both = ["nvidia-topology", "dmesg"]
    assert keys(tmp_path / "case.zip") == {"gpu07": both, "gpu08": both}


def test_evidence_of_our_own_in_an_archive_is_evidence(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(zipped({"run/gpu07.evidence": node().dump().encode()}))
    assert list(read_saved(tmp_path / "x.zip")) == [("gpu07", node())]


def test_what_lies_beside_is_listed_once_and_refuses_nothing(tmp_path: Path) -> None:
    (tmp_path / "a-shot.png").write_bytes(PNG)
    (tmp_path / "README").write_text(README)
    (tmp_path / "logs.tar").write_bytes(tarred({"kern": DMESG.encode(), "x.bin": PNG}))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"lost" * 99)[:-9])
    (tmp_path / "topo.txt").write_text(MATRIX)
    aside: list[Foreign] = []
    ((_, evidence),) = read_saved(tmp_path, aside)
    assert list(evidence.frames) == ["dmesg", "nvidia-topology"]
    assert {each.name: (each.first, bool(each.why)) for each in aside} == {
        "README": ("# About this case, whose ports were seen with ibstat and by ", False),
        "a-shot.png": ("", False),
        "logs.tar/x.bin": ("", False),
        "cut.gz": ("", True),
    }
    assert len(aside) == 4


@pytest.mark.parametrize(
    ("text", "near"),
    [
        pytest.param("Port 1:\nibstat shows it\n", "ibstat", id="its-command"),
        pytest.param("GPU1 X\nGPU2 PIX  and its CPU Affinity\n", "topo", id="its-header"),
        pytest.param("dkms says installed, as ever\n", "dkms", id="its-words"),
    ],
)
def test_a_text_tells_what_it_came_nearest_to(text: str, near: str) -> None:
    assert near in foreign("x", text).nearest


def test_a_text_of_nothing_comes_near_to_nothing() -> None:
    assert foreign("x", "lorem ipsum\n").nearest == ()


@pytest.mark.parametrize("suffix", PACKED)
def test_more_than_there_is_room_for_is_refused_before_it_is_held(suffix: str) -> None:
    bomb = PACKED[suffix](bytes(1 << 22))
    with pytest.raises(UsageError, match="unpacks to more"):
        list(leaves("bomb", bomb, UnpackRoom(1 << 19)))


def test_all_that_an_archive_holds_has_one_room() -> None:
    bomb = gzip.compress(bytes(1 << 20))
    twice = tarred({"a.gz": bomb, "b.gz": bomb})
    with pytest.raises(UsageError, match="unpacks to more"):
        list(leaves("x.tar", twice, UnpackRoom((1 << 20) + len(twice) + 1)))
    assert UnpackRoom.of(1, MANY_BYTES).size < UnpackRoom.of(1 << 40, MANY_BYTES).size == MANY_BYTES


def test_archives_within_archives_end_somewhere() -> None:
    data = b"text"
    for _ in range(9):
        data = gzip.compress(data)
    (leaf,) = leaves("deep", data, UnpackRoom(1 << 20))
    assert leaf != Leaf("deep", b"text")


def test_texts_of_windows_are_read_that_have_two_bytes_a_letter(tmp_path: Path) -> None:
    (tmp_path / "gpu07.txt").write_bytes(b"\xff\xfe" + MATRIX.encode("utf-16-le"))
    ((_, evidence),) = read_saved(tmp_path / "gpu07.txt")
    assert evidence.text("nvidia-topology") == MATRIX


def test_of_several_files_one_that_is_nothing_is_beside_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    (tmp_path / "b.txt").write_text(MATRIX)
    aside: list[Foreign] = []
    found = read_all([tmp_path / "a.txt", tmp_path / "b.txt"], aside, read_saved)
    assert [name for name, _ in found] == ["b"]
    assert [each.first for each in aside] == ["hello"]
    with pytest.raises(UsageError, match=r"a\.txt: not recognised"):
        list(read_all([tmp_path / "a.txt"], [], read_saved))


def test_two_files_of_one_name_stay_two(tmp_path: Path) -> None:
    files = [tmp_path / each / "topo.txt" for each in ("gpu07", "gpu08")]
    for file in files:
        file.parent.mkdir()
        file.write_text(MATRIX)
    assert list(keys(*files)) == ["topo", f"topo of {files[1]}"]


@pytest.mark.parametrize(("size", "told"), [(len(MATRIX), True), (len(MATRIX) - 1, False)])
def test_standard_input_is_bounded(size: int, told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.verbs.pasted_logs.MANY_BYTES", size)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(MATRIX.encode())))
    if told:
        assert keys(saved.INPUT) == {"stdin": ["nvidia-topology"]}
    else:
        with pytest.raises(UsageError, match="standard input: more than"):
            keys(saved.INPUT)


TAKEN = {
    "doctor": (
        Option("from_", "", "", bare="FILE..."),
        Option("site", "", ""),
        Option("profile", "", "", "p"),
        Option("json", False, ""),
    ),
    "plan": (Option("from_", "", ""),),
}


@pytest.mark.parametrize(
    ("typed", "means"),
    [
        pytest.param("doctor a", "doctor --from=a", id="one"),
        pytest.param("doctor -", "doctor --from=-", id="input"),
        pytest.param("doctor a --json b", "doctor --json --from=a\0b", id="among-options"),
        pytest.param("doctor --site s -p x a", "doctor --site s -p x --from=a", id="values"),
        pytest.param("doctor --from a --from=b c", "doctor --from=a\0b\0c", id="both-ways"),
        pytest.param("doctor a=b,c=d e", "doctor --from=a=b,c=d\0e", id="kinds"),
        pytest.param("doctor a plan --from b", "doctor --from=a plan --from b", id="next-verb"),
        pytest.param("doctor --site plan a", "doctor --site plan --from=a", id="value-as-verb"),
        pytest.param("plan a", "plan a", id="a-verb-that-takes-none"),
        pytest.param("doctor --from", "doctor --from", id="no-value"),
    ],
)
def test_bare_words_are_files(typed: str, means: str) -> None:
    assert unbared(typed.split(" "), TAKEN) == means.split(" ")


@pytest.fixture
def gdr(tmp_path: Path) -> Run:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return invoked.gdr(*words, "--quiet", state=tmp_path / "state", cwd=tmp_path)

    return run


def test_files_are_named_bare_and_told_of_as_they_are(gdr: Run, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(MATRIX)
    (tmp_path / "k.txt").write_text(DMESG)
    (tmp_path / "README").write_text(README)
    ended = gdr("doctor", "t.txt", "k.txt", "README", "--json")
    assert ended.returncode == ExitCode.UNKNOWN
    told = json.loads(ended.stdout)
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    assert [each["name"] for each in told["hosts"]] == ["t", "k"]
    assert [each["text"]["shows"] for each in told["hosts"]] == [["pcie.distance"], []]
    assert len(told["hosts"][0]["text"]["wanted"]) == 3
    assert [each["name"] for each in told["foreign"]] == ["README"]
    shown = gdr("doctor", "t.txt", "README")
    assert "ready" not in shown.stdout
    assert shown.stdout.count("README") == 1
    assert "this text shows:\n  pcie.distance  GPU to nearest HCA: 1 PIX\n" in shown.stdout
    assert shown.stderr.endswith("doctor --verbose t.txt README shows all of it\n")


def test_what_fails_on_a_text_is_told_behind_what_it_shows(gdr: Run, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(MATRIX.replace("PIX", "SYS"))
    ended = gdr("doctor", "t.txt")
    assert ended.returncode == ExitCode.FAILED
    _, _, last = ended.stdout.partition("this text shows: nothing that passes\n")
    fails, _, wanted = last.partition("most of what is missing is told by:\n")
    assert fails.startswith("what fails:\n  pcie.distance  ")
    assert len(wanted.splitlines()) == 3


def test_the_repair_of_a_text_says_whose_it_is(gdr: Run, tmp_path: Path) -> None:
    symbol = "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)"
    (tmp_path / "t.txt").write_text(f"[   31.832683] {symbol}\n")
    shown = gdr("doctor", "t.txt")
    words = " ".join(shown.stdout.split())
    assert "reload --hosts NODE" in words
    assert "; NODE is the machine that the text is of" in words
    assert shown.stderr.endswith("doctor --verbose --from t.txt shows all of it\n")


def test_evidence_of_a_node_is_counted_beside_texts(gdr: Run, tmp_path: Path) -> None:
    (tmp_path / "gpu07.evidence").write_text(node().dump())
    (tmp_path / "t.txt").write_text(MATRIX)
    ended = gdr("doctor", "gpu07.evidence", "t.txt")
    assert "of 1 node is ready" in ended.stdout
    (host,) = json.loads(gdr("doctor", "gpu07.evidence", "--json").stdout)["hosts"]
    assert "text" not in host


def test_a_pipe_is_not_waited_for_as_a_bare_word_either(gdr: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    ended = gdr("doctor", "pipe")
    assert (ended.returncode, "not an ordinary file" in ended.stderr) == (ExitCode.USAGE, True)


GPU_ROWS = "nvidia_uvm 4665344 2\nnvidia 5420 1 nvidia_uvm\n"


@pytest.mark.parametrize(
    ("searched", "known"),
    [
        pytest.param("", True, id="whole"),
        pytest.param(" | grep nvidia", True, id="for-a-part-of-its-name"),
        pytest.param(" | grep -i 'NVIDIA\\|mlx'", True, id="for-either"),
        pytest.param(" | grep nvidia_uvm", False, id="for-another"),
        pytest.param(" | grep -v peermem", False, id="for-all-but-it"),
        pytest.param(" | head -2", False, id="its-beginning"),
    ],
)
def test_matching_lines_prove_no_absence_but_of_what_was_searched_for(
    searched: str, known: bool
) -> None:
    evidence = evidence_of(frames_of(f"$ lsmod{searched}\n{GPU_ROWS}", "x"))
    (loaded,) = (e for e in judge_node("x", evidence, Want(), DAY).verdicts if e.check.id == LOADED)
    assert loaded.status is (Status.FAIL if known else Status.UNKNOWN)


def test_of_a_list_that_was_searched_nothing_passes() -> None:
    row = "nvidia/580.1, 6.8.0-1, x86_64: installed\n"
    told = {}
    for command in ("dkms status", "dkms status | grep nvidia"):
        evidence = evidence_of(frames_of(f"$ {command}\n{row}", "x"))
        verdicts = judge_node("x", evidence, Want(), DAY).verdicts
        told[command] = {e.check.id for e in verdicts if e.status is Status.PASS}
    assert told["dkms status"] == {"dkms.state"}
    assert told["dkms status | grep nvidia"] == set()


LINK = "link mlx5_0/1 state {} physical_state {} netdev eth0\n"
DOWN, UP = LINK.format("DOWN", "DISABLED"), LINK.format("ACTIVE", "LINK_UP")


def test_prompts_of_two_machines_are_two_nodes(tmp_path: Path) -> None:
    file = tmp_path / "ticket.txt"
    file.write_text(
        f"admin@head:~$ ssh gpu01.lan\n[root@gpu01.lan ~]# rdma link\n{DOWN}"
        f"$ cat /proc/cmdline\nBOOT_IMAGE=/vmlinuz iommu=pt\ngpu02:~ # rdma link\n{UP}"
    )
    read = dict(read_saved(file))
    assert {name: sorted(e.frames) for name, e in read.items()} == {
        "gpu01.lan": ["cmdline", "rdma-link"],
        "gpu02": ["rdma-link"],
    }
    assert read["gpu01.lan"].text("rdma-link") == DOWN


def test_what_ssh_ran_is_of_the_machine_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "ticket.txt"
    file.write_text(
        f"$ dmesg\n{DMESG}$ ssh gpu01 rdma link\n{DOWN}$ ssh -x root@gpu02 rdma link\n{UP}"
    )
    read = {n: {key: e.text(key) for key in e.frames} for n, e in read_saved(file)}
    assert read == {
        "gpu01": {"rdma-link": DOWN},
        "gpu02": {"rdma-link": UP},
        "ticket": {"dmesg": DMESG},  # of the machine from which they were asked
    }


def test_a_shell_in_a_container_is_of_the_same_node(tmp_path: Path) -> None:
    file = tmp_path / "ticket.txt"
    file.write_text(f"root@gpu01:~# rdma link\n{UP}root@3f2a1b:/# dmesg\n{DMESG}")
    assert [(n, sorted(e.frames)) for n, e in read_saved(file)] == [
        ("ticket", ["dmesg", "rdma-link"])
    ]


def test_what_an_excerpt_of_a_kernel_log_leaves_out_is_one_paragraph(
    gdr: Run, tmp_path: Path
) -> None:
    (tmp_path / "t.txt").write_text(
        "$ dmesg | grep mlx5\n[   11.2] mlx5_core 0000:1a:00.0: firmware version: 28.43.2026\n"
    )
    shown = gdr("doctor", "t.txt").stdout
    assert shown.count("not told by this kernel log") == 1
    told = {line[9:].split(" ")[0] for line in shown.split("\n")}
    assert told.isdisjoint({"pcie.link", "pcie.hostbridge", "iommu.cmdline", "gpu.xid"})
