"""Real containers by podman and runc, of root folders made here: busybox, and libraries by name.

Devices are nodes of null's number, which may be opened, and of uverbs' own number, which the
container's cgroup forbids: no hardware is needed for either. No image is fetched.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LIBS = "usr/lib/x86_64-linux-gnu"
UVERBS, NULL = os.makedev(231, 192), os.makedev(1, 3)
ELF = b"\x7fELF\x02\x00\xff\xfe\n\x00%s\x00\n"
COMMANDS = ("sh", "sleep", "readlink", "grep", "tr", "env", "cat")

# All that a job's image should have, by path: content, or where a link points.
FILES: dict[str, bytes | str] = {
    "etc/os-release": b'ID=ubuntu\nVERSION_ID="24.04"\n',
    "etc/libibverbs.d/mlx5.driver": b"driver mlx5\n",
    f"{LIBS}/libibverbs.so.1.14.50.0": ELF % b"ibv_reg_dmabuf_mr\0lib%s-rdmav34.so",
    f"{LIBS}/libibverbs.so.1": "libibverbs.so.1.14.50.0",
    f"{LIBS}/libmlx5.so.1.24.50.0": ELF % b"mlx5dv_reg_dmabuf_mr",
    f"{LIBS}/libmlx5.so.1": "libmlx5.so.1.24.50.0",
    f"{LIBS}/libibverbs/libmlx5-rdmav34.so": "../libmlx5.so.1.24.50.0",
    f"{LIBS}/libnccl.so.2.27.3": b"",
    f"{LIBS}/libnccl.so.2": "libnccl.so.2.27.3",
    f"{LIBS}/libcuda.so.580.126.16": b"",
    f"{LIBS}/libcuda.so.1": "libcuda.so.580.126.16",
}


def laid_out(root: Path, changes: Mapping[str, bytes | str | None], *, shell: bool = True) -> Path:
    """A root folder with FILES, but for ``changes``: None takes a file away."""
    for name, content in {**FILES, **changes}.items():
        if content is None:
            continue
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            place.symlink_to(content)
        else:
            place.write_bytes(content)
    for folder in ("bin", "dev", "proc", "sys", "tmp"):
        (root / folder).mkdir(exist_ok=True)
    busybox = shutil.which("busybox")
    assert busybox
    shutil.copy(busybox, root / "bin" / "busybox")
    if not shell:  # as in an image without a distribution
        (root / "bin" / "busybox").rename(root / "bin" / "sleep")
    for name in COMMANDS if shell else ():
        (root / "bin" / name).symlink_to("busybox")
    told = subprocess.run(("ldd", busybox), capture_output=True, text=True, check=False).stdout
    for word in told.split():
        if word.startswith("/"):
            (root / word[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, root / word[1:])
    return root


@dataclass(frozen=True, slots=True)
class Podman:
    """Podman with a store of its own, and the word ``podman`` for our scripts."""

    folder: Path

    @property
    def path(self) -> str:
        """PATH, in which podman is this one."""
        return f"{self.folder}/bin:{os.environ['PATH']}"

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ("podman", *words), env={**os.environ, "PATH": self.path}, capture_output=True,
            stdin=subprocess.DEVNULL, text=True, timeout=120, check=False,
        )  # fmt: skip

    @contextmanager
    def running(self, root: Path, name: str, options: Sequence[str]) -> Iterator[None]:
        """A container of a root folder that sleeps as long as the block lasts."""
        # A machine that is a container itself may not raise limits, which podman would.
        limits = ("--ulimit", "nofile=512:512", "--ulimit", "nproc=512:512")
        words = ("run", "-d", "--name", name, "--network", "none", *limits, *options)
        done = self(*words, "--rootfs", str(root), "/bin/sleep", "600")
        try:
            assert done.returncode == 0, done.stderr
            yield
        finally:
            self("rm", "--force", "--time", "0", name)

    def device(self, name: str, number: int) -> str:
        """A node of a character device, made here."""
        place = self.folder / name
        if not place.exists():
            os.mknod(place, stat.S_IFCHR | 0o666, number)
        return str(place)


def podman_in(folder: Path) -> Podman:
    """:param folder: empty; its path is short, for podman's sockets."""
    real = shutil.which("podman")
    words = f"--root {folder}/store --runroot {folder}/run --storage-driver vfs"
    fake = folder / "bin" / "podman"
    fake.parent.mkdir()
    fake.write_text(
        f"#!/bin/sh\nexec {real} {words} --cgroup-manager cgroupfs --runtime runc "
        '--events-backend none "$@"\n'
    )
    fake.chmod(0o755)
    return Podman(folder)


@contextmanager
def sleeping(words: Sequence[str | Path]) -> Iterator[int]:
    """The process that these words start, once it has become sleep; it ends with the block."""
    with subprocess.Popen(words) as process:
        try:
            end = time.monotonic() + 60
            while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
                assert time.monotonic() < end
                time.sleep(0.02)
            yield process.pid
        finally:
            process.kill()
