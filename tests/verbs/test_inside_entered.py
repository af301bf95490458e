"""What runs a job, entered from here or read as an image's file, by what the programs answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.evidence.build import node
from tests.kube.containers import FILES
from tests.kube.image_files import blob, layer
from toolkit.errors import TransportError, UsageError
from toolkit.evidence import Evidence, State
from toolkit.node.collect import Register
from toolkit.node.inside import parse_inside
from toolkit.verbs import inside, inside_archives, inside_image
from toolkit.verbs.inside import collect_inside
from toolkit.verbs.inside_archives import opened_layers
from toolkit.verbs.inside_image import ImageEntry, read_image

SAID = b"= begin ok gdr-toolkit/1\n= libraries ok ldconfig\n|/lib/libnccl.so.2\n= end ok 1\n"
POD = "kubectl:train/worker-0"
Ended = subprocess.CompletedProcess[bytes]
Answer = Callable[..., Ended]


def ended(status: int, out: bytes = b"", err: bytes = b"") -> Ended:
    return subprocess.CompletedProcess([], status, out, err)


def answering(told: Mapping[str, Ended | Exception], asked: list[tuple[str, ...]]) -> Answer:
    """In place of ``answer``: by the first of these words that was asked for."""

    def answer(words: Sequence[str], _: bytes = b"", **__: object) -> Ended:
        asked.append(tuple(words))
        found = next(each for word, each in told.items() if word in words)
        if isinstance(found, Exception):
            raise found
        return found

    return answer


@pytest.fixture
def enter(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Evidence]:
    monkeypatch.setattr(inside, "collect", lambda *_, **__: node())

    def entered(
        told: Mapping[str, Ended | Exception], where: str = POD, register: Register | None = None
    ) -> Evidence:
        monkeypatch.setattr(inside, "answer", answering(told, []))
        transport: Any = SimpleNamespace(name="gpu1.site")
        return collect_inside(transport, parse_inside(where), register)

    return entered


Enter = Callable[..., Evidence]


def test_what_a_pod_says_lies_below_inside(enter: Enter) -> None:
    found = enter({"sh": ended(0, SAID)})
    assert found.text("inside/libraries") == "/lib/libnccl.so.2\n"
    assert found.text("inside") == "kind kubectl\nname train/worker-0\nway entered\nwhole yes\n"
    assert found.text("kernel-release") == node().text("kernel-release")
    assert "inside/registration" not in found.frames


@pytest.mark.parametrize(
    ("told", "state", "text"),
    [
        pytest.param(ended(0, b"libibverbs x\n", b"noise"), State.OK, "libibverbs x\n", id="it"),
        pytest.param(ended(1, b"half", b" gone\n"), State.FAILED, "half gone\n", id="failed"),
        pytest.param(ended(126), State.ABSENT, "", id="no-command"),
        pytest.param(ended(127), State.ABSENT, "", id="no-file"),
    ],
)
def test_its_own_python_is_told_what_to_try(
    enter: Enter, told: Ended, state: State, text: str
) -> None:
    found = enter({"python3": told, "sh": ended(0, SAID)}, register=Register("/lib/x.so"))
    frame = found.frames["inside/registration"]
    assert (frame.state, frame.text, frame.exit) == (state, text, 1 if "half" in text else 0)


@pytest.mark.parametrize(
    ("where", "told", "why", "hint"),
    [
        pytest.param(
            POD,
            {"sh": ended(1, b"", b"Error: pods not found\n"), "get": ended(0, b"pod/a\npod/b\n")},
            "gpu1.site: kubectl:train/worker-0: pods not found",
            "there is in train: pod/a, pod/b",
            id="another-pod",
        ),
        pytest.param(
            POD,
            {"sh": ended(1, b"said here\n"), "get": ended(1, b"pod/a\n")},
            "kubectl:train/worker-0: said here",
            "try it by hand: kubectl exec -i -n train worker-0 -- sh",
            id="nobody-tells-of-pods",
        ),
        pytest.param(
            POD,
            {"sh": ended(1, b"", b"exec: executable file not found in $PATH"), "get": OSError()},
            "it has no sh: look into its image instead, --inside image:FILE",
            "try it by hand: kubectl exec -i -n train worker-0 -- sh",
            id="no-shell",
        ),
        pytest.param(
            POD,
            {"sh": ended(127, b"", b"command terminated with exit code 127"), "get": ended(0)},
            "it has no sh: look into its image instead, --inside image:FILE",
            "try it by hand",
            id="no-shell-by-its-status",
        ),
        pytest.param(
            "slurm:--container-name=a",
            {"sh": ended(1, b"", b"srun: error: no such node\n")},
            "gpu1.site: slurm:--container-name=a: srun: error: no such node",
            "try it by hand: srun --quiet -N1 -n1 -w gpu1 --container-name=a sh",
            id="no-step",
        ),
        pytest.param(
            POD,
            {"sh": subprocess.TimeoutExpired("kubectl", 1)},
            "gpu1.site: kubectl:train/worker-0: no answer within ",
            "try it by hand: kubectl exec -i -n train worker-0 -- true",
            id="no-answer",
        ),
    ],
)
def test_what_cannot_be_entered_is_one_sentence(
    enter: Enter, where: str, told: dict[str, Ended | Exception], why: str, hint: str
) -> None:
    with pytest.raises(TransportError) as raised:
        enter(told, where)
    assert why in str(raised.value)
    assert raised.value.hint.startswith(hint)


def test_a_program_that_is_not_here_is_named(enter: Enter) -> None:
    with pytest.raises(UsageError, match="kubectl cannot be run here: No such file") as raised:
        enter({"sh": FileNotFoundError(2, "No such file or directory")})
    assert raised.value.hint.startswith("install kubectl on this machine")


# --- squashfs, by what unsquashfs prints ---

LISTED = """\
Parallel unsquashfs: Using 2 processors
drwxr-xr-x 0/0                31 2026-11-01 00:00 squashfs-root
drwxr-xr-x 0/0                31 2026-11-01 00:00 squashfs-root/usr/lib64
-rw-r--r-- 0/0                18 2026-11-01 00:00 squashfs-root/etc/environment
-rw-r--r-- 0/0                18 2026-11-01 00:00 squashfs-root/etc/shadow
-rw-r--r-- 0/0                 0 2026-11-01 00:00 squashfs-root/usr/lib64/libnccl.so.2.27
lrwxrwxrwx 0/0 17 2026-11-01 00:00 squashfs-root/usr/lib64/libnccl.so.2 -> libnccl.so.2.27
lrwxrwxrwx 0/0 17 2026-11-01 00:00 squashfs-root/etc/nccl.conf -> /etc/shadow
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    (tmp_path / "train.sqsh").write_bytes(b"hsqs" + bytes(92))
    return tmp_path / "train.sqsh"


def test_of_a_squashfs_the_few_files_that_count_are_asked_for(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    told = {"-lln": ended(0, LISTED.encode()), "-cat": ended(0, b"NCCL_DEBUG=INFO\nA\n")}
    monkeypatch.setattr(inside_image, "answer", answering(told, asked))
    tree, variables = inside_image._tree_of(image)
    assert asked == [
        ("unsquashfs", "-no-progress", "-lln", str(image)),
        ("unsquashfs", "-no-progress", "-cat", str(image), "etc/environment"),
    ]
    assert variables == ["NCCL_DEBUG=INFO", "A", ""]
    assert tree == {
        "usr/lib64": ImageEntry(folder=True),
        "etc/environment": ImageEntry(data=b"NCCL_DEBUG=INFO\nA\n"),
        "usr/lib64/libnccl.so.2.27": ImageEntry(),
        "usr/lib64/libnccl.so.2": ImageEntry("libnccl.so.2.27"),
        "etc/nccl.conf": ImageEntry("/etc/shadow"),
    }


@pytest.mark.parametrize(
    ("told", "why", "hint"),
    [
        pytest.param(
            ended(1, b"out\n", b"first\nlast\n"), "unsquashfs: last", "is the file whole", id="ill"
        ),
        pytest.param(ended(1, b"a\nout\n"), "unsquashfs: out", "is the file whole", id="on-stdout"),
        pytest.param(
            FileNotFoundError(2, "No such file"),
            "unsquashfs cannot be run here: No such file",
            "install squashfs-tools",
            id="absent",
        ),
        pytest.param(
            subprocess.TimeoutExpired("x", 600),
            "unsquashfs gave no answer within 600 s",
            "is the file's disk in reach",
            id="late",
        ),
        pytest.param(ended(0), "nothing in it that a job", "is it the image of the job", id="bare"),
    ],
)
def test_a_squashfs_that_cannot_be_read_is_one_sentence(
    image: Path, monkeypatch: pytest.MonkeyPatch, told: Ended | Exception, why: str, hint: str
) -> None:
    monkeypatch.setattr(inside_image, "answer", answering({"unsquashfs": told}, []))
    with pytest.raises(UsageError) as raised:
        read_image(str(image))
    assert why in str(raised.value)
    assert raised.value.hint.startswith(hint)


# --- layers ---


def index(folder: Path, **by_machine: str) -> Path:
    """An OCI layout whose index names an index, with an image for each of these machines."""
    rows = []
    for machine, variable in by_machine.items():
        upper = {"usr/lib/libnccl.so.2.1": b"", "usr/lib/libucp.so.0": None, "etc/shadow": b"x"}
        layers = [
            blob(folder, layer({**FILES, "usr/lib/libucp.so.0": b""})),
            blob(folder, layer(upper)),
        ]
        config = blob(folder, json.dumps({"config": {"Env": [variable]}}).encode())
        manifest = blob(folder, json.dumps({"config": config, "layers": layers}).encode())
        rows.append({**manifest, "platform": {"architecture": machine}})
    inner = blob(folder, json.dumps({"manifests": rows}).encode())
    (folder / "index.json").write_text(json.dumps({"manifests": [inner]}))
    return folder


@pytest.mark.parametrize(
    ("machine", "variable"),
    [("x86_64", "A=amd"), ("aarch64", "A=arm"), ("ppc64le", "A=ppc"), ("riscv64", "A=arm")],
)
def test_of_several_images_the_one_of_this_machine_counts_or_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, variable: str
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    path = index(tmp_path, arm64="A=arm", amd64="A=amd", ppc64le="A=ppc")
    with opened_layers(path) as layers:
        assert layers.variables == [variable]


def test_upper_layers_take_away_and_bring_what_counts(tmp_path: Path) -> None:
    tree, _ = inside_image._tree_of(index(tmp_path, amd64="A=1"))
    assert "usr/lib/libucp.so.0" not in tree
    assert "etc/shadow" not in tree
    assert tree["usr/lib/libnccl.so.2.1"] == ImageEntry()
    assert tree["etc/os-release"].data == FILES["etc/os-release"]


@pytest.mark.parametrize(
    ("told", "why"),
    [
        pytest.param({"manifests": []}, "its manifest lacks list index", id="no-image"),
        pytest.param({}, "its manifest lacks 'manifests'", id="no-list"),
        pytest.param(
            {"layers": [], "config": {"digest": "sha256:0"}}, "no blobs/sha256/0", id="gone"
        ),
    ],
)
def test_a_layout_that_is_not_whole_is_one_sentence(
    tmp_path: Path, told: dict[str, object], why: str
) -> None:
    (tmp_path / "index.json").write_text(json.dumps(told))
    with pytest.raises(UsageError, match=why), opened_layers(tmp_path):
        pass


def test_an_index_of_itself_has_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside_archives, "_blob", lambda _: "index.json")
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [{}]}))
    with pytest.raises(UsageError, match="its index has no end"), opened_layers(tmp_path):
        pass
