"""A node that trusts a key carries out what that key has signed, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.scripts.engine import (
    MODPROBE_D,
    UPDATE_GRUB,
    Ran,
    Tree,
    bundle_of,
    sent,
    trigger,
)
from toolkit.errors import ApplyError
from toolkit.node.deliver import _refused
from toolkit.node.text_signature import BUNDLES, NAMESPACE, sign
from toolkit.plan.bundle import Bundle, File

pytestmark = pytest.mark.shell

SIGNERS = "/etc/gdr-toolkit/allowed_signers"
UNSIGNED = bundle_of({MODPROBE_D: "softdep x pre: y\n"}, *trigger(UPDATE_GRUB))


def key(folder: Path, name: str = "key") -> Path:
    words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name))
    subprocess.run(words, check=True)
    return folder / name


def signed(bundle: Bundle, by: Path, purpose: str = BUNDLES) -> Bundle:
    return replace(bundle, signature=sign(by, bundle.sums(), purpose))


def trust(tree: Tree, by: Path, name: str = "gdr-toolkit") -> Path:
    """The node takes signed bundles alone from now on; it has an ssh-keygen."""
    file = tree.write(SIGNERS, f"{name} {by.with_suffix('.pub').read_text()}")
    real = shutil.which("ssh-keygen")
    assert real is not None
    (tree.root / "bin/ssh-keygen").symlink_to(real)
    return file


def refused(tree: Tree, ran: Ran) -> str:
    """The one sentence of a node that has done nothing."""
    assert ran.exit == 5, ran
    assert not tree.exists(MODPROBE_D)
    assert (tree.state("journal"), tree.state("pending"), tree.leftovers()) == ([], [], [])
    assert not list((tree.root / "var/lib/gdr-toolkit/runs").iterdir())
    evidence = ran.evidence
    assert evidence.complete
    assert set(evidence.frames) == {"signature"}
    with pytest.raises(ApplyError) as told:
        _refused("gpu1", evidence)
    assert told.value.exit_code == 5
    return str(told.value).removeprefix("gpu1: ")


def folder_of(bundle: Bundle, at: Path) -> Path:
    for path, data in bundle.files().items():
        (at / path).parent.mkdir(parents=True, exist_ok=True)
        (at / path).write_bytes(data)
    return at


def from_folder(tree: Tree, folder: Path, verb: str = "apply") -> Ran:
    words = [*tree.shell, str(folder / "apply.sh"), verb, "5", "end"]
    done = subprocess.run(
        words,
        env=tree.env(TMPDIR=str(tree.root.parent)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def test_what_the_trusted_key_signed_is_carried_out(tree: Tree, tmp_path: Path) -> None:
    trust(tree, key(tmp_path))
    ran = tree.run(sent(signed(UNSIGNED, tmp_path / "key")))
    assert (ran.exit, ran.stderr) == (0, "")
    assert tree.read(MODPROBE_D) == "softdep x pre: y\n"
    assert tree.rollback("all").exit == 0, "what it kept is taken back, whoever asks"
    assert not tree.exists(MODPROBE_D)


def test_a_signed_bundle_goes_to_nodes_that_trust_no_key(tree: Tree, tmp_path: Path) -> None:
    ran = tree.run(sent(signed(UNSIGNED, key(tmp_path))))
    assert ran.exit == 0
    assert tree.exists(MODPROBE_D)


def test_unsigned_bundles_are_refused(tree: Tree, tmp_path: Path) -> None:
    trust(tree, key(tmp_path))
    assert refused(tree, tree.run(sent(UNSIGNED))) == (
        f"the bundle is not signed, and the node takes only signed ones: {SIGNERS}"
    )


def test_the_key_has_to_be_the_trusted_one(tree: Tree, tmp_path: Path) -> None:
    trust(tree, key(tmp_path))
    said = refused(tree, tree.run(sent(signed(UNSIGNED, key(tmp_path, "other")))))
    assert said.startswith(f"no key of {SIGNERS} has signed this bundle: ")


def test_a_signature_for_another_purpose_is_none(tree: Tree, tmp_path: Path) -> None:
    trust(tree, key(tmp_path))
    said = refused(tree, tree.run(sent(signed(UNSIGNED, tmp_path / "key", NAMESPACE))))
    assert said.startswith(f"no key of {SIGNERS} has signed this bundle: ")


def test_a_key_that_is_trusted_as_somebody_else_is_none(tree: Tree, tmp_path: Path) -> None:
    trust(tree, key(tmp_path), name="ops@site")
    said = refused(tree, tree.run(sent(signed(UNSIGNED, tmp_path / "key"))))
    assert said.startswith(f"no key of {SIGNERS} has signed this bundle: ")


def test_the_signature_of_another_bundle_is_none(tree: Tree, tmp_path: Path) -> None:
    trust(tree, key(tmp_path))
    other = signed(bundle_of({MODPROBE_D: "other\n"}), tmp_path / "key")
    said = refused(tree, tree.run(sent(replace(UNSIGNED, signature=other.signature))))
    assert said.startswith(f"no key of {SIGNERS} has signed this bundle: ")


def change_file(at: Path) -> str:
    (at / f"files{MODPROBE_D}").write_text("install x /bin/sh\n")
    return f"files{MODPROBE_D}"


def change_steps(at: Path) -> str:
    (at / "steps").write_text((at / "steps").read_text() + "id >&2\n")
    return "steps"


def add_file(at: Path) -> str:
    (at / "files/etc/more").write_text("more\n")
    return "files/etc/more"


def remove_file(at: Path) -> str:
    (at / f"files{MODPROBE_D}").unlink()
    return f"files{MODPROBE_D}"


def remove_steps(at: Path) -> str:
    (at / "steps").unlink()
    return "steps"


def link_file(at: Path) -> str:
    file = at / f"files{MODPROBE_D}"
    file.rename(at / "aside")
    file.symlink_to(at / "aside")
    return f"files{MODPROBE_D}"


def link_list(at: Path) -> str:
    (at / "SHA256SUMS").rename(at / "aside")
    (at / "SHA256SUMS").symlink_to(at / "aside")
    return "SHA256SUMS"


def pipe_steps(at: Path) -> str:
    (at / "steps").unlink()
    os.mkfifo(at / "steps")
    return "steps"


@pytest.mark.parametrize(
    "bend",
    [
        change_file,
        change_steps,
        add_file,
        remove_file,
        remove_steps,
        link_file,
        link_list,
        pipe_steps,
    ],
)
def test_a_folder_that_is_not_as_it_was_signed_is_refused(
    tree: Tree, tmp_path: Path, bend: Callable[[Path], str]
) -> None:
    trust(tree, key(tmp_path))
    at = folder_of(signed(UNSIGNED, tmp_path / "key"), tmp_path / "bundle")
    name = bend(at)
    said = refused(tree, from_folder(tree, at))
    assert said == f"the bundle is not as it was signed: {name}"


def test_a_look_refuses_too(tree: Tree, tmp_path: Path) -> None:
    trust(tree, key(tmp_path))
    at = folder_of(signed(UNSIGNED, tmp_path / "key"), tmp_path / "bundle")
    name = change_steps(at)
    ran = from_folder(tree, at, "look")
    assert (ran.exit, set(ran.evidence.frames)) == (5, {"signature"})
    assert ran.words(SIGNERS).split(": ")[-1].strip() == name


@pytest.mark.parametrize("verb", ["apply", "look"])
def test_what_is_changed_after_it_was_checked_is_not_carried_out(
    tree: Tree, tmp_path: Path, verb: str
) -> None:
    trust(tree, key(tmp_path))
    at = folder_of(signed(UNSIGNED, tmp_path / "key"), tmp_path / "bundle")
    real, ran = shutil.which("ssh-keygen"), tmp_path / "ran"
    (tree.root / "bin/ssh-keygen").unlink()
    meanwhile = f"echo 'touch {ran}' >>{at}/steps; echo x >{at}/files{MODPROBE_D}"
    tree.command("ssh-keygen", f'#!/bin/sh\n{meanwhile}\nexec {real} "$@"\n')
    assert from_folder(tree, at, verb).exit == 0
    assert str(ran) in (at / "steps").read_text()
    assert not ran.exists()
    if verb == "apply":
        assert tree.read(MODPROBE_D) == "softdep x pre: y\n"


@pytest.mark.parametrize("gone", ["SHA256SUMS", "SHA256SUMS.sig"])
def test_a_folder_without_its_signature_is_refused(tree: Tree, tmp_path: Path, gone: str) -> None:
    trust(tree, key(tmp_path))
    at = folder_of(signed(UNSIGNED, tmp_path / "key"), tmp_path / "bundle")
    (at / gone).unlink()
    assert refused(tree, from_folder(tree, at)).startswith("the bundle is not signed, ")


def test_a_list_that_says_more_is_refused(tree: Tree, tmp_path: Path) -> None:
    trust(tree, key(tmp_path))
    at = folder_of(signed(UNSIGNED, tmp_path / "key"), tmp_path / "bundle")
    with (at / "SHA256SUMS").open("a") as file:
        file.write(f"{'0' * 64}  files/etc/more\n")
    assert refused(tree, from_folder(tree, at)).startswith(f"no key of {SIGNERS} has signed")


def test_a_whole_folder_is_carried_out_without_its_manifest(tree: Tree, tmp_path: Path) -> None:
    """What only readers want is signed too, and not asked for."""
    trust(tree, key(tmp_path))
    empty = replace(bundle_of({}, *trigger(UPDATE_GRUB)), contents=())
    at = folder_of(signed(empty, tmp_path / "key"), tmp_path / "bundle")
    (at / "manifest.json").unlink()
    assert from_folder(tree, at, "look").exit == 0
    assert from_folder(tree, at).exit == 0
    assert tree.exists("/boot/grub/made-anew")


def test_files_of_any_name_are_told_from_others(tree: Tree, tmp_path: Path) -> None:
    trust(tree, key(tmp_path))
    odd = "/etc/modprobe.d/a b [c]*.conf"
    made = bundle_of({MODPROBE_D: "x\n"})
    file = File(odd, 0o644, b"\xff\x00\n", "0" * 64)
    made = replace(made, contents=(*made.contents, file))
    assert tree.run(sent(signed(made, tmp_path / "key"))).exit == 0
    assert tree.exists(MODPROBE_D)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666, 0o4662])
def test_signers_that_others_may_write_are_not_believed(
    tree: Tree, tmp_path: Path, mode: int
) -> None:
    trust(tree, key(tmp_path)).chmod(mode)
    said = refused(tree, tree.run(sent(signed(UNSIGNED, tmp_path / "key"))))
    assert said == f"{SIGNERS} may be written by others than its owner, so it is not believed"


def test_a_folder_that_others_may_write_is_not_believed(tree: Tree, tmp_path: Path) -> None:
    trust(tree, key(tmp_path)).parent.chmod(0o777)
    said = refused(tree, tree.run(sent(signed(UNSIGNED, tmp_path / "key"))))
    assert said.startswith("/etc/gdr-toolkit may be written by others")


@pytest.mark.root
def test_signers_of_another_owner_are_not_believed(tree: Tree, tmp_path: Path) -> None:
    os.chown(trust(tree, key(tmp_path)), 65534, 65534)
    said = refused(tree, tree.run(sent(signed(UNSIGNED, tmp_path / "key"))))
    assert said == f"{SIGNERS} is not root's, so it is not believed"


@pytest.mark.parametrize("whole", [True, False])
def test_signers_that_are_a_link_are_not_believed(tree: Tree, tmp_path: Path, whole: bool) -> None:
    file = trust(tree, key(tmp_path))
    if whole:
        file.rename(tmp_path / "elsewhere")
    else:
        file.unlink()  # a link that leads nowhere is a file of signers all the same
    file.symlink_to(tmp_path / "elsewhere")
    said = refused(tree, tree.run(sent(signed(UNSIGNED, tmp_path / "key"))))
    assert said == f"{SIGNERS} is a link, so what it names is not believed"


def test_without_ssh_keygen_nothing_is_carried_out(tree: Tree, tmp_path: Path) -> None:
    trust(tree, key(tmp_path))
    (tree.root / "bin/ssh-keygen").unlink()
    assert refused(tree, tree.run(sent(signed(UNSIGNED, tmp_path / "key")))) == (
        f"the node takes only signed bundles ({SIGNERS}), and has no ssh-keygen to check one"
    )


def test_signers_without_a_key_trust_none(tree: Tree, tmp_path: Path) -> None:
    trust(tree, key(tmp_path)).write_text("# no key yet\n")
    said = refused(tree, tree.run(sent(signed(UNSIGNED, tmp_path / "key"))))
    assert said.startswith(f"no key of {SIGNERS} has signed this bundle: ")
