"""Evidence from files that other tools wrote: one, several, a folder of them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import invoked
from tests.evidence.build import node
from tests.unit.test_any_text import PACKED, tarred, zipped
from toolkit.errors import ExitCode, UsageError
from toolkit.facts.nccl.nccl_log import parse_nccl_log
from toolkit.facts.node.node import Node
from toolkit.verbs.archives import Leaf, UnpackRoom, leaves
from toolkit.verbs.pasted_logs import import_log
from toolkit.verbs.saved import read_saved

Run = Callable[..., subprocess.CompletedProcess[str]]
MATRIX = "\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tPIX\t0-31\nNIC0\tPIX\t X \t\n"
DMESG = "[   31.832683] nvidia: loading\n"


def keys(source: Path) -> dict[str, list[str]]:
    return {name: list(evidence.frames) for name, evidence in read_saved(source)}


def test_one_loose_file_is_one_node_named_after_it(tmp_path: Path) -> None:
    (tmp_path / "gpu07.txt").write_text(MATRIX)
    assert keys(tmp_path / "gpu07.txt") == {"gpu07": ["nvidia-topology"]}


def test_a_folder_of_different_kinds_is_one_node(tmp_path: Path) -> None:
    folder = tmp_path / "gpu07"
    folder.mkdir()
    (folder / "a.txt").write_text(MATRIX)
    (folder / "b.txt").write_text(DMESG)
    assert keys(folder) == {"gpu07": ["nvidia-topology", "dmesg"]}


def test_two_files_of_one_kind_are_two_nodes_and_never_mixed(tmp_path: Path) -> None:
    (tmp_path / "gpu07.txt").write_text(MATRIX)
    (tmp_path / "gpu08.txt").write_text(MATRIX)
    (tmp_path / "gpu09.txt").write_text(DMESG)
    assert keys(tmp_path) == {
        "gpu07": ["nvidia-topology"],
        "gpu08": ["nvidia-topology"],
        "gpu09": ["dmesg"],
    }


def test_files_named_by_kind_are_one_node(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(MATRIX)
    (tmp_path / "y").write_text("nothing that has a shape\n")
    assert keys(Path(f"topo={tmp_path}/x,dmesg={tmp_path}/y")) == {
        "x": ["nvidia-topology", "dmesg"]
    }


def test_a_files_name_says_what_its_content_does_not(tmp_path: Path) -> None:
    (tmp_path / "dmesg.txt").write_text("nothing that has a shape\n")
    assert keys(tmp_path / "dmesg.txt") == {"dmesg": ["dmesg"]}


def test_our_own_evidence_goes_before_loose_files(tmp_path: Path) -> None:
    (tmp_path / "gpu07.evidence").write_text(node().dump())
    (tmp_path / "notes.txt").write_text("hello\n")
    assert keys(tmp_path) == {"gpu07": list(node().frames)}


def test_our_own_evidence_is_known_under_any_name(tmp_path: Path) -> None:
    (tmp_path / "saved.txt").write_text("Welcome!\n" + node().dump())
    assert keys(tmp_path / "saved.txt") == {"saved.txt": list(node().frames)}


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        pytest.param("hello.txt", "not recognised as evidence", id="no-kind"),
        pytest.param("empty", r"holds no \*\.evidence file", id="empty-folder"),
        pytest.param("nowhere", "No such file", id="no-file"),
        pytest.param("/dev/null", "not an ordinary file", id="device"),
        pytest.param("matrix=hello.txt", "'matrix' is no kind", id="unknown-kind"),
        pytest.param("topo=hello.txt,", "is not KIND=FILE", id="trailing-comma"),
        pytest.param("=hello.txt", "is not KIND=FILE", id="no-kind"),
        pytest.param("topo=", "is not KIND=FILE", id="no-file"),
        pytest.param("topo=nowhere", "No such file", id="kind-without-file"),
        pytest.param("topo=hello.txt,topo=hello.txt", "given twice", id="kind-twice"),
    ],
)
def test_what_cannot_be_evidence_is_refused(
    source: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hello.txt").write_text("hello\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=sentence):
        list(read_saved(Path(source)))


CUT = zipped({"a.txt": b"hello"})[:60]


@pytest.mark.parametrize(
    ("files", "sentence", "hint"),
    [
        pytest.param(
            {"a.zip": CUT},
            "gpu07: is no incident, or is damaged: File is not a zip file",
            "copy it again from where it was made, or unpack it and name the folder",
            id="one-cut",
        ),
        pytest.param(
            {"a.zip": CUT, "b.zip": CUT},
            "gpu07: a.zip is damaged: File is not a zip file",
            "copy it again from where it was made",
            id="all-cut",
        ),
        pytest.param(
            {"a.zip": CUT, "b.txt": b"hello\n"},
            "gpu07: not recognised as evidence",
            "give the whole answer of a command",
            id="one-of-two-cut",
        ),
        pytest.param(
            {"a.bin": bytes(range(256))},
            "gpu07: not recognised as evidence",
            "save it as text",
            id="no-text",
        ),
        pytest.param(
            {"a.txt": b"GPU0 NIC0 mlx5\n rate 400\n"},
            "gpu07: not recognised as evidence",
            "it comes nearest to topo, ucx-perftest; give the whole answer",
            id="near",
        ),
        pytest.param(
            {".hidden.txt": MATRIX.encode()},
            "gpu07: holds no *.evidence file",
            "make one: capture",
            id="hidden",
        ),
    ],
)
def test_a_folder_of_which_nothing_is_understood_says_what_is_wrong_with_it(
    files: dict[str, bytes], sentence: str, hint: str, tmp_path: Path
) -> None:
    folder = tmp_path / "gpu07"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    with pytest.raises(UsageError) as refused:
        list(read_saved(folder))
    assert str(refused.value) == f"{tmp_path}/{sentence}"
    assert (refused.value.hint or "").startswith(hint)


@pytest.mark.parametrize(("name", "node"), [("gpu07.tar.gz", "gpu07"), (".tgz", ".tgz")])
def test_an_archive_of_loose_files_is_a_node_by_its_first_name(
    name: str, node: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(tarred({"a.txt": MATRIX.encode()}, "gz"))
    assert keys(tmp_path / name) == {node: ["nvidia-topology"]}


def test_whoever_named_a_node_learns_how_nodes_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        list(read_saved(tmp_path / "gpu01"))
    assert "--hosts" in refused.value.hint


@pytest.fixture
def gdr(tmp_path: Path) -> Run:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return invoked.gdr(*words, "--quiet", state=tmp_path / "state", cwd=tmp_path)

    return run


def test_a_capture_made_of_files_is_judged_as_the_files_are(gdr: Run, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(MATRIX)
    (tmp_path / "y.txt").write_text(DMESG)
    made = gdr("capture", "--import", "topo=x.txt,dmesg=y.txt", "--out", "kept")
    assert (made.returncode, made.stdout) == (ExitCode.OK, "kept/x.evidence\n")
    assert keys(tmp_path / "kept") == {"x": ["nvidia-topology", "dmesg"]}
    files = gdr("doctor", "--from", "topo=x.txt,dmesg=y.txt", "--json")
    saved = gdr("doctor", "--from", "kept", "--json")
    assert json.loads(files.stdout)["hosts"] == json.loads(saved.stdout)["hosts"]


def test_what_is_not_part_of_the_evidence_is_one_line_and_no_health(
    gdr: Run, tmp_path: Path
) -> None:
    (tmp_path / "y.txt").write_text(DMESG)
    ended = gdr("doctor", "--from", "y.txt")
    assert ended.returncode == ExitCode.UNKNOWN
    assert ended.stdout.count("not part of this evidence") == 1
    assert "0 of 1 node is ready" not in ended.stdout
    assert "this text shows: nothing that passes\n" in ended.stdout
    assert "most of what is missing is told by:\n  lspci -vvv -nn  " in ended.stdout


def test_a_file_that_is_nothing_is_a_mistake_of_usage(gdr: Run, tmp_path: Path) -> None:
    (tmp_path / "y.txt").write_text("hello\n")
    ended = gdr("doctor", "--from", "y.txt")
    assert ended.returncode == ExitCode.USAGE
    assert "y.txt: not recognised as evidence" in ended.stderr
    assert "KIND=FILE" in ended.stderr


def test_a_jobs_log_is_read_once_for_all_its_nodes(tmp_path: Path) -> None:
    """Nodes are judged side by side: not each of them may read 200 MB."""
    (tmp_path / "job.log").write_text("NCCL version 2.27.3+cuda12.8\n" * 2)
    (frame,) = import_log(tmp_path / "job.log")
    before = parse_nccl_log.cache_info()
    nodes = [Node(node({}).plus((frame,))) for _ in range(3)]
    assert {each.nccl_log.version for each in nodes if each.nccl_log} == {"2.27.3"}
    after = parse_nccl_log.cache_info()
    assert after.misses == before.misses


# --- archives of them ---


@pytest.mark.parametrize("suffix", PACKED)
def test_what_is_cut_off_is_told_as_damaged_and_kept_as_it_is(suffix: str) -> None:
    cut = PACKED[suffix](os.urandom(999))[:-9]
    (leaf,) = leaves(f"x.{suffix}", cut, UnpackRoom(1 << 20))
    assert (leaf.name, leaf.data) == (f"x.{suffix}", cut)
    assert leaf.why.startswith("is damaged: ")


def locked(files: dict[str, bytes]) -> bytes:
    """A zip that says of each member that it is encrypted."""
    data = bytearray(zipped(files))
    for begin, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(begin) + flags] |= 1
    return bytes(data)


def test_what_cannot_be_opened_is_told_as_such_and_not_as_damaged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = locked({"topo.txt": MATRIX.encode()})
    assert list(leaves("x.zip", secret, UnpackRoom(1 << 20))) == [
        Leaf("x.zip", secret, "needs a password")
    ]
    monkeypatch.setenv("PATH", "/nowhere")
    packed = b"\x28\xb5\x2f\xfd\0"
    (leaf,) = leaves("x.zst", packed, UnpackRoom(1 << 20))
    assert (leaf.name, leaf.data, leaf.why) == ("x.zst", packed, "zstd is not here to unpack it")


@pytest.mark.parametrize("pack", [tarred, zipped])
def test_hidden_members_are_passed_over_and_the_others_counted(
    pack: Callable[[dict[str, bytes]], bytes],
) -> None:
    data = pack({"a/.hidden": b"x", "a/b": b"y", "c": b"z"})
    whole = UnpackRoom(1 << 20)
    whole.files = 2
    assert [each.name for each in leaves("x", data, whole)] == ["x/a/b", "x/c"]
    fewer = UnpackRoom(1 << 20)
    fewer.files = 1
    with pytest.raises(UsageError, match="x/c: one file too many"):
        list(leaves("x", data, fewer))
