"""Scripts that arrive in part, machines that lack things, and words that mean harm."""

from __future__ import annotations

import base64
import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dev.tools import in_ci
from tests.scripts.engine import (
    KERNEL,
    LIMITS,
    MODPROBE_D,
    SHELLS,
    STATE,
    UPDATE_GRUB,
    Ran,
    Tree,
    bundle_of,
    digest,
    make_tree,
    sent,
    trigger,
    usual,
)
from toolkit.node.deliver import rollback_script
from toolkit.plan.bundle import Bundle, tar_bytes

pytestmark = pytest.mark.shell


# --- arriving in part ---------------------------------------------------------------------


def test_a_script_cut_at_any_byte_runs_nothing(tree: Tree) -> None:
    text = usual()
    cuts = [*range(0, len(text), 97), *range(len(text) - 40, len(text) - 1)]
    before = tree.files()
    for cut in cuts:
        ran = tree.run(text[:cut])
        assert ran.stdout == "", f"cut at {cut}"
    assert tree.files() == before
    assert not tree.exists(STATE)
    assert tree.run(text[:-1]).exit == 0  # only the last newline may be missing


def test_a_rollback_cut_at_any_byte_runs_nothing(dash_tree: Tree) -> None:
    dash_tree.run(usual())
    before, text = dash_tree.files(), rollback_script("all", 5)
    names = [at.end() for at in re.finditer(r"^\w+(?=\(\) \{)", text, re.M)]  # "apt" is one
    for cut in [*names, *range(0, len(text), 997), *range(len(text) - 40, len(text) - 1)]:
        assert dash_tree.run(text[:cut]).stdout == ""
    assert dash_tree.files() == before


@pytest.mark.parametrize("arguments", ["", "apply", "apply 5", "apply 5 en", "sing 5 end", "end"])
def test_a_call_that_is_not_whole_does_nothing(dash_tree: Tree, arguments: str) -> None:
    text = usual().rpartition("gdr_apply apply")[0] + f"gdr_apply {arguments}\n"
    assert dash_tree.run(text).exit == 64
    assert not dash_tree.exists(STATE)


def test_a_list_of_steps_that_is_cut_is_refused(tree: Tree) -> None:
    folder = unpacked(tree, bundle_of({MODPROBE_D: "x\n"}, *trigger(UPDATE_GRUB)))
    steps = (folder / "steps").read_text().split("\n")
    before = tree.files()
    for lines in range(1, len(steps) - 1):
        (folder / "steps").write_text("\n".join(steps[:lines]) + "\n")
        ran = from_folder(tree, folder)
        assert ran.exit == 5
        assert ran.words(f"{folder}/steps") == "the list is cut off\n"
    assert tree.files() == before


def test_a_damaged_copy_in_the_bundle_is_refused(tree: Tree) -> None:
    folder = unpacked(tree, bundle_of({MODPROBE_D: "x\n"}))
    (folder / f"files{MODPROBE_D}").write_text("half of")
    ran = from_folder(tree, folder)
    assert ran.words("place") == f"the bundle's own copy of {MODPROBE_D} is damaged\n"
    assert not tree.exists(MODPROBE_D)


# --- the other form of a bundle -----------------------------------------------------------


def unpacked(tree: Tree, bundle: Bundle) -> Path:
    folder = tree.root.parent / "bundle"
    with tarfile.open(fileobj=io.BytesIO(tar_bytes(bundle))) as tar:
        for entry in tar.getmembers():  # Debian's 3.11 has no filters for extractall yet
            content = tar.extractfile(entry)
            assert content is not None
            (folder / entry.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / entry.name).write_bytes(content.read())
    return folder


def from_folder(tree: Tree, folder: Path, *arguments: str) -> Ran:
    done = subprocess.run(
        [*tree.shell, str(folder / "apply.sh"), *(arguments or ("apply", "5", "end"))],
        env=tree.env(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr)


def test_a_bundle_on_disk_does_the_same(tree: Tree) -> None:
    before = tree.files()
    bundle = bundle_of({MODPROBE_D: "x\n"}, *trigger(UPDATE_GRUB))
    folder = unpacked(tree, bundle)
    ran = from_folder(tree, folder)
    assert (ran.exit, ran.stderr) == (0, "")
    after = {path: each[:4] for path, each in tree.files().items()}
    assert from_folder(tree, folder, "rollback", "last", "5", "end").exit == 0
    assert tree.files() == before
    assert tree.run(sent(bundle)).exit == 0
    assert {path: each[:4] for path, each in tree.files().items()} == after


# --- machines that lack things ------------------------------------------------------------

# What the engine is allowed to need; every other command may be missing.
NEEDED = """cat chmod chown cp date dirname find grep id ln mkdir mv readlink rm rmdir sed
    sha256sum sleep stat sync tail tr"""


def poor(tree: Tree, without: str = "") -> str:
    """A PATH that holds nothing but the commands that are needed."""
    folder = tree.root.parent / "poor"
    folder.mkdir()
    for name in NEEDED.split():
        real = shutil.which(name)
        if name != without and real:
            (folder / name).symlink_to(real)
    return str(folder)


def full_shell(tree: Tree) -> Tree:
    return Tree(tree.root, (str(shutil.which(tree.shell[0])), *tree.shell[1:]))


def test_it_needs_no_mktemp_tar_awk_or_base64(tree: Tree) -> None:
    # The node's own command may need more than we do.
    tree.command("update-grub", "#!/bin/sh\necho new >$GDR_ROOT/boot/grub/grub.cfg\n")
    before, path = tree.files(), poor(tree)
    ran = full_shell(tree).run(usual(), PATH=path)
    assert (ran.exit, ran.stderr) == (0, "")
    assert full_shell(tree).run(rollback_script("all", 5), PATH=path).exit == 0
    assert tree.files() == before


@pytest.mark.parametrize("shell", ["dash", "bash"])  # busybox is its own sha256sum
def test_without_sha256sum_nothing_is_touched(tmp_path: Path, shell: str) -> None:
    tree = make_tree(tmp_path / "node", SHELLS[shell])
    before = tree.files()
    bundle = bundle_of(
        {MODPROBE_D: "x\n"}, expect=[f"expect file /etc/modprobe.d/site.conf {digest('x')}"]
    )
    ran = full_shell(tree).run(sent(bundle), PATH=poor(tree, without="sha256sum"))
    assert ran.exit == 5
    assert "sha256sum" in ran.words("expect file")
    assert tree.files() == before


def in_a_small_world(tree: Tree, prepare: str, text: str) -> Ran:
    """Run ``text`` where ``prepare`` has mounted things; nobody else sees those mounts."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        lacks = "no user namespaces here, so nothing can be mounted for a test"
        pytest.fail(lacks) if in_ci() else pytest.skip(lacks)
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f'set -e\n{prepare}\nexec "$@" -s', "sh", *tree.shell],
        input=text, env=tree.env(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr)


LARGE = "".join(f"softdep module{number} pre: nvidia\n" for number in range(2000))


def test_a_full_disk_is_told_and_leaves_no_half_file(tree: Tree) -> None:
    folder = tree.root / "etc/security/limits.d"
    folder.mkdir(parents=True)
    bundle = bundle_of({MODPROBE_D: "x\n", LIMITS: LARGE}, *trigger(UPDATE_GRUB))
    ran = in_a_small_world(tree, f"mount -t tmpfs -o size=8k none {folder}", sent(bundle))
    assert ran.exit == 5
    assert "No space left" in ran.words(f"place {LIMITS}")
    assert ran.states()[f"place {MODPROBE_D}"] == "ok"
    assert ran.states()[f"not begun: {UPDATE_GRUB}"] == "absent"
    assert tree.state("pending") == [UPDATE_GRUB]
    assert tree.state("owned") == [MODPROBE_D]
    assert tree.run(sent(bundle_of({LIMITS: LARGE}, *trigger(UPDATE_GRUB)))).exit == 0


def test_a_read_only_etc_is_told(tree: Tree) -> None:
    etc = tree.root / "etc"
    before = tree.files()
    mount = f"mount --bind {etc} {etc}\nmount -o remount,ro,bind {etc}"
    ran = in_a_small_world(tree, mount, usual())
    assert ran.exit == 5
    assert "Read-only file system" in ran.words(f"place {MODPROBE_D}")
    assert ran.states()[f"not begun: {UPDATE_GRUB}"] == "absent"
    assert {path: each[:4] for path, each in tree.files().items()} == {
        path: each[:4] for path, each in before.items()
    }


def test_where_nothing_can_be_remembered_nothing_is_done(tree: Tree) -> None:
    tree.write("/var/lib", "a file where a folder should be\n")
    before = tree.files()
    ran = tree.run(usual())
    assert ran.exit == 5
    assert "mkdir" in ran.evidence.frames["state"].text
    assert ran.evidence.complete
    assert tree.files() == before


def test_a_limit_on_the_size_of_files_leaves_no_half_file(tree: Tree) -> None:
    text = sent(bundle_of({MODPROBE_D: LARGE, LIMITS: "x\n"}))
    limited = Tree(tree.root, ("sh", "-c", 'ulimit -f 32 && exec "$@"', "sh", *tree.shell))
    before = tree.files()
    ran = limited.run(text)
    assert ran.exit == 5
    assert ran.evidence.complete
    assert tree.files() == before
    assert tree.leftovers() == []


# --- words that mean harm -----------------------------------------------------------------

HOSTILE = [
    pytest.param("$(touch pwned) `touch pwned` ${PATH} $PATH\n", id="expansions"),
    pytest.param("GDR_END\ntouch pwned\n", id="the-end-of-the-document"),
    pytest.param("EOT\nGDR_END \n\tGDR_END\n", id="nearly-the-end"),
    pytest.param("'; touch pwned; '\n\\\n\\n\n", id="quotes-and-backslashes"),
    pytest.param("no newline at the end", id="unended"),
    pytest.param("\x81\x82 ünïcödé \u2028 \x0c\x0b\r\n", id="bytes-that-shells-stumble-over"),
    pytest.param("", id="empty"),
    pytest.param("= end ok 1\n|= begin\n", id="our-own-grammar"),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_arrive_byte_for_byte(tree: Tree, text: str) -> None:
    assert tree.run(sent(bundle_of({MODPROBE_D: text}))).exit == 0
    assert (tree.root / MODPROBE_D[1:]).read_bytes() == text.encode()
    assert not list(tree.root.parent.rglob("pwned"))
    assert not Path("pwned").exists()


@given(st.text(max_size=200))
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_text_arrives_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    tree = make_tree(tmp_path_factory.mktemp("any") / "node", SHELLS["dash"])
    encodable = text.encode(errors="replace").decode()
    assert tree.run(sent(bundle_of({MODPROBE_D: encodable}))).exit == 0
    assert (tree.root / MODPROBE_D[1:]).read_bytes() == encodable.encode()


def test_output_that_looks_like_frames_is_content(tree: Tree) -> None:
    tree.command("dkms", "#!/bin/sh\necho '= end ok 1'\necho '= 9.place ok x'\n")
    ran = tree.run(sent(bundle_of({}, *trigger("BUILD_DKMS dkms"))))
    assert ran.words("BUILD_DKMS dkms") == "= end ok 1\n= 9.place ok x\n"
    assert "9.place" not in ran.evidence.frames
    assert ran.evidence.complete


def test_what_the_login_prints_around_it_does_not_matter(tree: Tree) -> None:
    ran = tree.run(f"echo 'Welcome to {KERNEL}'\n" + usual())
    assert ran.evidence.complete
    assert "ok" in ran.states().values()


def test_what_is_no_plain_text_travels_packed() -> None:
    packed = base64.b64encode("ü\n".encode()).decode()
    assert packed in sent(bundle_of({MODPROBE_D: "ü\n"}))
