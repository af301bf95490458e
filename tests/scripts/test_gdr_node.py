"""An account that is not root may have the node read, or a signed bundle carried out; no more."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tests.scripts.engine import MODPROBE_D, Ran, Tree
from tests.scripts.test_signers import SIGNERS, UNSIGNED, key, signed, trust
from toolkit.node.deliver import wrapper
from toolkit.node.text_signature import BUNDLES, NAMESPACE, sign
from toolkit.plan.bundle import tar_bytes

pytestmark = pytest.mark.shell

PROBE, WRAPPER = "/usr/lib/gdr-toolkit/probe.sh", "/usr/lib/gdr-toolkit/gdr-node"
NO_TAR = "what came is not the tar of a signed bundle"


def install(tree: Tree, probe: str = "echo probed as $(id -u) in $(pwd)\n") -> Path:
    tree.write(PROBE, probe)
    text = wrapper().replace("root=''", f"root={tree.root}", 1)
    assert str(tree.root) in text
    return tree.write(WRAPPER, text, 0o755)


def call(tree: Tree, *words: str, feed: bytes = b"", **env: str) -> Ran:
    """Under the shell of the tree, by whoever runs the tests."""
    done = subprocess.run(
        [*tree.shell, str(tree.root / WRAPPER[1:]), *words],
        input=feed,
        capture_output=True,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"], **env},
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def packed(files: dict[str, bytes], *links: tuple[str, str], again: bytes = b"") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for path, data in [*files.items(), *([("apply.sh", again)] if again else [])]:
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        for path, target in links:
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return made.getvalue()


def refused(tree: Tree, ran: Ran) -> str:
    """The one sentence, and nothing of what was sent is left."""
    assert ran.exit == 5, ran
    assert not tree.exists(MODPROBE_D)
    assert not list((tree.root / "var/lib/gdr-toolkit").glob("sent.*"))
    assert not (tree.root / "var/lib/gdr-toolkit/runs").exists(), "the engine was not started"
    assert ran.evidence.complete
    return ran.evidence.frames["signature"].text.strip()


def test_the_installed_probe_is_run(tree: Tree) -> None:
    install(tree)
    said = f"probed as {os.getuid()} in /\n"
    assert call(tree, "probe").stdout == said
    sent = (tree.root / PROBE[1:]).read_bytes()
    assert call(tree, "probe", feed=sent).stdout == said, "what a controller sends is the same"


def test_another_script_is_not_run(tree: Tree) -> None:
    install(tree)
    ran = call(tree, "probe", feed=b"echo mine\n")
    assert (ran.exit, ran.stdout) == (77, "")
    assert ran.stderr == f"gdr-node: what came is not the probe that is installed here: {PROBE}\n"


@pytest.mark.parametrize("path", [PROBE, "/usr/lib/gdr-toolkit"])
def test_a_probe_that_others_may_write_is_not_run(tree: Tree, path: str) -> None:
    install(tree)
    (tree.root / path[1:]).chmod(0o777)
    ran = call(tree, "probe")
    assert (ran.exit, ran.stdout) == (77, "")
    assert f"{path} may be written by others than its owner" in ran.stderr


@pytest.mark.parametrize(
    "words", [(), ("",), ("probe", "x"), ("apply", "rollback"), ("sh",), ("-c", "id"), ("1.probe",)]
)
def test_no_other_words_do_anything(tree: Tree, words: tuple[str, ...]) -> None:
    install(tree)
    ran = call(tree, *words, feed=b"id\n")
    assert (ran.exit, ran.stdout) == (64, "")


def test_nothing_of_a_callers_surroundings_counts(tree: Tree, tmp_path: Path) -> None:
    install(tree, "env | sort\n")
    evil = tmp_path / "evil"
    evil.mkdir()
    for name in ("sh", "env", "head", "sha256sum", "cut", "stat", "id", "tar"):
        (evil / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (evil / name).chmod(0o755)
    told = {"GDR_ROOT": str(evil), "GDR_BIN": str(evil), "ENV": str(evil / "sh"), "TMPDIR": "/x"}
    done = subprocess.run(
        [*tree.shell, str(tree.root / WRAPPER[1:]), "probe"],
        env={"PATH": f"{evil}:{os.environ['PATH']}", **told},
        executable=shutil.which(tree.shell[0]),
        cwd=evil,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not (tmp_path / "ran").exists()
    found = {line.partition("=")[0]: line.partition("=")[2] for line in done.stdout.split("\n")}
    assert found["GDR_ROOT"] == str(tree.root)
    assert found["PATH"] == "/usr/sbin:/usr/bin:/sbin:/bin"
    assert not {"ENV", "TMPDIR"} & found.keys()


def test_a_signed_bundle_is_carried_out(tree: Tree, tmp_path: Path) -> None:
    install(tree)
    trust(tree, key(tmp_path))
    ran = call(tree, "apply", feed=tar_bytes(signed(UNSIGNED, tmp_path / "key")))
    assert (ran.exit, ran.stderr) == (0, "")
    assert tree.read(MODPROBE_D) == "softdep x pre: y\n"
    assert not list((tree.root / "var/lib/gdr-toolkit").glob("sent.*"))
    assert tree.leftovers() == []


def test_no_variable_gives_tar_a_command(tree: Tree, tmp_path: Path) -> None:
    """Where a sudo passes on what its caller has set."""
    install(tree)
    trust(tree, key(tmp_path))
    told = {
        "TAR_OPTIONS": f"--checkpoint=1 --checkpoint-action=exec='touch {tmp_path}/ran'",
        "GDR_ROOT": "/x",
        "TMPDIR": "/x",
    }
    ran = call(tree, "apply", feed=tar_bytes(signed(UNSIGNED, tmp_path / "key")), **told)
    assert (ran.exit, ran.stderr) == (0, "")
    assert not (tmp_path / "ran").exists()
    assert (tree.root / "var/lib/gdr-toolkit").stat().st_mode & 0o777 == 0o755, "as the engine's"


def test_a_packed_tar_takes_no_more_room_than_it_may(tree: Tree, tmp_path: Path) -> None:
    install(tree)
    trust(tree, key(tmp_path))
    feed = gzip.compress(packed({"SHA256SUMS": bytes(9 << 20), "SHA256SUMS.sig": b"x"}))
    said = refused(tree, call(tree, "apply", feed=feed))
    assert said.startswith((f"no key of {SIGNERS} has signed", NO_TAR))
    text = (tree.root / WRAPPER[1:]).read_text().replace("rm -rf", "echo")
    (tree.root / WRAPPER[1:]).write_text(text)
    call(tree, "apply", feed=feed)
    (kept,) = (tree.root / "var/lib/gdr-toolkit").glob("sent.*/stage/SHA256SUMS")
    assert kept.stat().st_size <= 1 << 20


def test_without_trusted_keys_nothing_is_carried_out(tree: Tree, tmp_path: Path) -> None:
    install(tree)
    sent = tar_bytes(signed(UNSIGNED, key(tmp_path)))
    assert refused(tree, call(tree, "apply", feed=sent)) == "/etc/gdr-toolkit is not there"


@pytest.mark.parametrize("feed", [b"", b"id\n", tar_bytes(UNSIGNED)])
def test_what_is_not_signed_is_refused(tree: Tree, tmp_path: Path, feed: bytes) -> None:
    install(tree)
    trust(tree, key(tmp_path))
    assert refused(tree, call(tree, "apply", feed=feed)) == NO_TAR


def test_another_key_and_another_purpose_are_refused(tree: Tree, tmp_path: Path) -> None:
    install(tree)
    trust(tree, key(tmp_path))
    other = signed(UNSIGNED, key(tmp_path, "other"))
    purpose = signed(UNSIGNED, tmp_path / "key", NAMESPACE)
    for bundle in (other, purpose):
        said = refused(tree, call(tree, "apply", feed=tar_bytes(bundle)))
        assert said.startswith(f"no key of {SIGNERS} has signed this bundle")


def engine_changed(files: dict[str, bytes]) -> bytes:
    return packed(files | {"apply.sh": b"id >/dev/tty\n"})


def engine_gone(files: dict[str, bytes]) -> bytes:
    del files["apply.sh"]
    return packed(files)


def engine_a_link(files: dict[str, bytes]) -> bytes:
    del files["apply.sh"]
    return packed(files, ("apply.sh", "/bin/sh"))


def engine_twice(files: dict[str, bytes]) -> bytes:
    return packed(files, again=b"id\n")


@pytest.mark.parametrize("bend", [engine_changed, engine_gone, engine_a_link, engine_twice])
def test_the_engine_has_to_be_the_signed_one(
    tree: Tree, tmp_path: Path, bend: Callable[[dict[str, bytes]], bytes]
) -> None:
    install(tree)
    trust(tree, key(tmp_path))
    feed = bend(signed(UNSIGNED, tmp_path / "key").files())
    said = refused(tree, call(tree, "apply", feed=feed))
    assert said == "the bundle is not as it was signed: apply.sh"


@pytest.mark.parametrize(
    "name", ["../../out", "/out", "files/../../../out", "a//b", "./steps", "."]
)
def test_names_lead_nowhere_else(tree: Tree, tmp_path: Path, name: str) -> None:
    """Though a trusted key has signed them."""
    install(tree)
    trust(tree, key(tmp_path))
    files = {name: b"x"} | UNSIGNED.files()
    sums = "".join(f"{sha256(data).hexdigest()}  {path}\n" for path, data in files.items())
    files |= {"SHA256SUMS": sums.encode()}
    files |= {"SHA256SUMS.sig": sign(tmp_path / "key", sums, BUNDLES).encode()}
    said = refused(tree, call(tree, "apply", feed=packed(files)))
    assert said == f"the bundle is not as it was signed: {name.removeprefix('./')}"
    assert not list(tmp_path.rglob("out"))


def test_what_else_is_sent_is_not_even_unpacked(tree: Tree, tmp_path: Path) -> None:
    install(tree)
    trust(tree, key(tmp_path))
    files = signed(UNSIGNED, tmp_path / "key").files()
    feed = packed({"files/etc/more": b"x", "../more": b"x"} | files, ("more", "/etc/shadow"))
    assert call(tree, "apply", feed=feed).exit == 0
    assert not list(tmp_path.rglob("more"))
