"""The verdict per image, while the node stays alike: real containers, entered by the real probe."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pytest

from tests.evidence.build import node
from tests.kube.containers import LIBS, NULL, UVERBS, Podman, laid_out, podman_in
from toolkit.checks.check import Status
from toolkit.checks.judged import Judged, judge_node
from toolkit.errors import TransportError
from toolkit.evidence import Evidence, State
from toolkit.node.collect import Register, probe_script
from toolkit.node.inside import inside_script, parse_inside, refuse_missing
from toolkit.want import Want

pytestmark = [pytest.mark.kube, pytest.mark.podman]
LONG = True
TODAY = date(2026, 11, 28)


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    with tempfile.TemporaryDirectory(prefix="gdr-pod-", dir="/tmp") as folder:
        yield podman_in(Path(folder))


def probed(podman: Podman, where: str, register: Register | None = None) -> Evidence:
    """What the node's probe says, with what it found in the container."""
    done = subprocess.run(
        ("sh", "-s"), input=probe_script(register, parse_inside(where)), text=True,
        env={"PATH": podman.path}, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    return Evidence.parse(done.stdout)


def judged(evidence: Evidence) -> Judged:
    """The healthy node, with this machine's container in it."""
    inner = [each for key, each in evidence.frames.items() if key.split("/")[0] == "inside"]
    return judge_node("gpu007", node().plus(inner), Want(), TODAY)


def wrong(told: Judged) -> dict[str, str]:
    ill = (Status.FAIL, Status.UNKNOWN)
    return {each.check.id: each.finding.found for each in told.verdicts if each.status in ill}


@dataclass(frozen=True, slots=True)
class Image:
    """An image, how it is run, and what is wrong with it on the healthy node."""

    claim: str
    wrong: Mapping[str, str]
    files: Mapping[str, bytes | str | None] = field(default_factory=dict)
    options: Sequence[str] = ()  # beside those of a container that has all
    without: str = ""  # an option that it is run without
    shell: bool = True


NO_VERBS = {f"{LIBS}/{name}": None for name in (
    "libibverbs.so.1", "libibverbs.so.1.14.50.0", "libibverbs/libmlx5-rdmav34.so")}  # fmt: skip
OLD = {
    f"{LIBS}/libibverbs.so.1.14.50.0": None,
    f"{LIBS}/libibverbs.so.1.8.28.0": b"\x7fELF\x00ibv_reg_mr\n",
    f"{LIBS}/libibverbs.so.1": "libibverbs.so.1.8.28.0",
}
IMAGES = [
    Image("all-there", {}),
    Image("no-shell-in-it", {}, shell=False),
    Image("no-libibverbs", {"inside.provider": "no libibverbs.so.1"}, NO_VERBS),
    Image("no-provider", {"inside.provider": "no provider for mlx5"},
          {f"{LIBS}/libibverbs/libmlx5-rdmav34.so": None}),
    Image("a-provider-of-another-rdma-core",
          {"inside.provider": "does not look for libmlx5-rdmav59.so"},
          {f"{LIBS}/libibverbs/libmlx5-rdmav34.so": None,
           f"{LIBS}/libibverbs/libmlx5-rdmav59.so": "../libmlx5.so.1.24.50.0"}),
    Image("no-driver-file", {"inside.provider": "no /etc/libibverbs.d/mlx5.driver"},
          {"etc/libibverbs.d/mlx5.driver": None}),
    Image("another-driver's-libcuda", {"inside.cuda": "is of driver 550.54.14"},
          {f"{LIBS}/libcuda.so.1": "libcuda.so.550.54.14", f"{LIBS}/libcuda.so.550.54.14": b""}),
    Image("no-devices", {"inside.devices": "no /dev/infiniband/uverbs*"}, without="--device"),
    Image("a-node-that-its-cgroup-forbids",
          {"inside.devices": "1 uverbs node cannot be opened: /dev/infiniband/uverbs7: "
           "Operation not permitted"}, options=("-v", "SHUT:/dev/infiniband/uverbs7")),
    Image("may-not-lock", {"inside.memlock": "memlock 65536 bytes, and no CAP_IPC_LOCK"},
          without="--cap-add", options=("--ulimit", "memlock=65536:65536")),
    Image("a-small-shm", {"inside.shm": "/dev/shm has 62 MiB"}, without="--shm-size"),
    Image("a-plugin-that-is-not-there",
          {"inside.plugin": "no libnccl-net-ofi.so", "consumer.gdr": "has rules of its own"},
          options=("-e", "NCCL_NET_PLUGIN=ofi")),
    Image("a-topology-that-is-not-there",
          {"inside.files": "NCCL_TOPO_FILE=/etc/topo.xml: no such file",
           "consumer.gdr": "in place of the PCI tree"},
          options=("-e", "NCCL_TOPO_FILE=/etc/topo.xml")),
    Image("told-to-take-tcp", {"nccl.env": "NCCL_IB_DISABLE=1", "consumer.gdr": "NCCL 2.27.3"},
          options=("-e", "NCCL_IB_DISABLE=1")),
    Image("told-so-by-a-file", {"nccl.env": "NCCL_IB_DISABLE=1", "consumer.gdr": "NCCL 2.27.3"},
          {"etc/nccl.conf": b"NCCL_IB_DISABLE=1\n"}),
]  # fmt: skip


def options(podman: Podman, image: Image, folder: Path) -> list[str]:
    """As whoever starts a job of two GPUs and an HCA should say it."""
    open_, shut = podman.device("open", NULL), podman.device("shut", UVERBS)
    system = folder / "sys" / "class" / "infiniband"
    for hca in ("mlx5_0", "mlx5_1"):
        (system / hca).mkdir(parents=True)
    pairs = [
        *(("--device", f"{open_}:/dev/infiniband/{name}") for name in ("uverbs0", "uverbs1")),
        *(("--volume", f"{open_}:/dev/nvidia{number}") for number in (0, 1)),
        ("--cap-add", "IPC_LOCK"),
        ("--shm-size", "1g"),
        ("--volume", f"{folder}/sys:/sys"),
    ]
    kept = [word for pair in pairs if pair[0] != image.without for word in pair]
    return [*kept, *(word.replace("SHUT", shut) for word in image.options)]


@pytest.mark.parametrize("image", IMAGES, ids=lambda each: each.claim)
def test_each_image_has_its_verdict_on_the_same_node(
    image: Image, podman: Podman, tmp_path: Path
) -> None:
    root = laid_out(tmp_path / "root", image.files, shell=image.shell)
    before = listed(root)
    with podman.running(root, "job", options(podman, image, tmp_path)):
        evidence = probed(podman, "podman:job")
        after = listed(root)
    told = wrong(judged(refuse_missing("gpu007", evidence)))
    assert set(told) == set(image.wrong), told
    for check, words in image.wrong.items():
        assert words in told[check], told
    assert ("way entered" if image.shell else "way outside") in evidence.text("inside")
    assert after == before, "something was written to its disk"


def listed(root: Path) -> list[tuple[str, int, int]]:
    """Every file of a container's disk, but for the mount points that podman makes."""
    made = {"dev", "proc", "sys", "run", "etc/hosts", "etc/resolv.conf", "etc/hostname", "etc/mtab"}
    found = []
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        about = path.lstat()
        if name.split("/", maxsplit=1)[0] not in made and name not in made and not path.is_dir():
            found.append((name, about.st_size, about.st_mtime_ns))
    return found


def test_a_container_that_is_not_there_is_told_with_those_that_are(
    podman: Podman, tmp_path: Path
) -> None:
    with podman.running(laid_out(tmp_path / "root", {}), "train", ()):
        evidence = probed(podman, "podman:trian")
    with pytest.raises(TransportError, match="gpu007: podman trian: no container with name") as why:
        refuse_missing("gpu007", evidence)
    assert why.value.hint == "there is: train"


def test_registration_is_tried_in_it_and_not_on_the_node(podman: Podman, tmp_path: Path) -> None:
    """By its own Python; this image has none, and nothing of the node's answers for it."""
    with podman.running(laid_out(tmp_path / "root", {}), "train", ()):
        evidence = probed(podman, "podman:train", Register())
    assert evidence.frame("inside/registration").state is State.ABSENT
    assert "registration" not in evidence.frames


def test_a_link_in_it_leads_to_no_file_of_the_node(podman: Podman, tmp_path: Path) -> None:
    """Without a shell root reads its files from outside, where a link is the node's own."""
    secret = tmp_path / "secret"
    secret.write_text("NCCL_KEY=of-the-node\nlib%s-rdmav34.so\n")
    links = {"etc/nccl.conf": str(secret), "etc/libibverbs.d": str(tmp_path)}
    links[f"{LIBS}/libibverbs.so.1"] = "../../../../secret"
    files = {**links, "etc/libibverbs.d/mlx5.driver": None}
    (tmp_path / "x.driver").write_text("driver of-the-node\n")
    with podman.running(laid_out(tmp_path / "root", files, shell=False), "train", ()):
        evidence = probed(podman, "podman:train")
    assert "way outside" in evidence.text("inside")
    assert "of-the-node" not in "".join(each.text for each in evidence.frames.values())
    assert " takes 34 yes" not in evidence.text("inside/providers")


def test_a_pipe_in_the_place_of_a_library_is_not_read(tmp_path: Path) -> None:
    gone = {f"{LIBS}/libibverbs.so.1": None, f"{LIBS}/libmlx5.so.1": None}
    root = laid_out(tmp_path / "root", gone)
    for name in ("libibverbs.so.1", "libmlx5.so.1"):
        os.mkfifo(root / LIBS / name)
    done = subprocess.run(
        ("sh", "-s"), input=inside_script(), text=True, capture_output=True, timeout=30,
        env={"PATH": os.environ["PATH"], "GDR_ROOT": str(root)}, check=True,
    )  # fmt: skip
    assert Evidence.parse(done.stdout).complete


def test_a_folder_is_entered_by_chroot(podman: Podman, tmp_path: Path) -> None:
    root = laid_out(tmp_path / "root", {f"{LIBS}/libcuda.so.1": None})
    told = wrong(judged(probed(podman, f"chroot:{root}")))
    assert told == {}
