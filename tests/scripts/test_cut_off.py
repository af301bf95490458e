"""Power, a kill or a full disk amid a trigger: what was before comes back, byte for byte."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from dev.tools import in_ci
from tests.scripts.engine import (
    MODPROBE_D,
    SHELLS,
    STATE,
    Ran,
    Tree,
    bundle_of,
    make_tree,
    noted,
    noting,
    sent,
    trigger,
)
from toolkit.node.deliver import rollback_script

pytestmark = pytest.mark.shell

MODULE = "/lib/modules/6.8/updates/nvidia-peermem.ko"
INDEX = "/lib/modules/6.8/modules.dep"
ADDED = "/var/lib/dkms/nvidia-peermem/1.0/source"
IMAGE = "/boot/initrd.img-6.8"
WORK = "/var/lib/dkms/nvidia-peermem/1.0/build"
CALLS = ("BUILD_DKMS dkms build", "DEPMOD depmod -a 6.8", "REBUILD_INITRAMFS update-initramfs -u")
STEPS = (
    "keep DEPMOD /lib/modules/6.8/modules.*",
    f"keep REBUILD_INITRAMFS {IMAGE}",
    f"keep BUILD_DKMS {ADDED}",
    f"temps BUILD_DKMS {WORK}",
    f"temps REBUILD_INITRAMFS {IMAGE}.new",
    "undo first 'BUILD_DKMS dkms remove'",
    *(step for call in CALLS for step in trigger(call)),
)
# Each rewrites in steps, as the real ones do: something of its own first, the file then by halves.
DKMS = f"""#!/bin/sh
set -e
cd "$GDR_ROOT"
case $1 in remove) rm .{ADDED}; rm -f .{MODULE}; echo x >.{INDEX}; exit ;; esac
[ -e .{ADDED} ] || echo added >.{ADDED} # a rollback that was cut off has removed it: build adds it
mkdir -p .{WORK} && echo object >.{WORK}/one.o
printf 'half of ' >.{MODULE}
chmod 600 .{MODULE}
cat etc/modprobe.d/* >>.{MODULE}
cp .{MODULE} lib/modules/6.8/updates/second.ko
"$GDR_BIN/depmod" -a 6.8
rm -rf .{WORK}
"""
DEPMOD = f"""#!/bin/sh
set -e
cd "$GDR_ROOT"
echo index >.{INDEX}.17.1
cat lib/modules/6.8/updates/* >>.{INDEX}.17.1
mv .{INDEX}.17.1 .{INDEX}
"""
INITRAMFS = f"""#!/bin/sh
set -e
cd "$GDR_ROOT"
cat .{MODULE} >.{IMAGE}.new
printf 'half of ' >.{IMAGE}
cat .{IMAGE}.new >.{IMAGE}
rm .{IMAGE}.new
"""
# Each of these, before it does its work, ends the whole session where its turn has come.
DEADLY = """#!/bin/sh
count=$(($(/bin/cat "$GDR_COUNT") + 1))
echo $count >"$GDR_COUNT"
if [ $count = "$GDR_FATAL" ]; then kill -9 -$(ps -o sid= -p $$ | tr -d ' '); sleep 5; fi
exec {real} "$@"
"""
WATCHED = ("cat", "chmod", "cp", "find", "grep", "mkdir", "mv", "rm", "rmdir", "sort", "sync")


def node(root: Path, shell: Sequence[str] = SHELLS["dash"]) -> Tree:
    """A node with a module, its index and an initramfs, and commands that rewrite them."""
    tree = make_tree(root, shell)
    for name, text in (("dkms", DKMS), ("depmod", DEPMOD), ("update-initramfs", INITRAMFS)):
        tree.command(name, text)
    tree.write(MODULE, "the module that works\n", 0o640)
    tree.write(ADDED, "added\n")
    tree.write(INDEX, "updates/nvidia-peermem.ko:\n")
    tree.write(IMAGE, "the image that boots\n", 0o600)
    return tree


@pytest.fixture(params=sorted(SHELLS))
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return node(tmp_path / "node", SHELLS[request.param])


def bundle() -> str:
    return sent(bundle_of({MODPROBE_D: "softdep x pre: y\n"}, *STEPS))


def all_of(tree: Tree) -> dict[str, tuple[bytes, int, float]]:
    """Every file below the root but our own state: its bytes, mode and time; folders too."""
    found = {}
    for path in sorted(tree.root.rglob("*")):
        inside = str(path.relative_to(tree.root))
        if inside.startswith(STATE) or inside in {"var", "var/lib", "var/lib/dkms"}:
            continue
        stat = path.lstat()
        plain = path.is_file()
        found[inside] = (path.read_bytes() if plain else b"", stat.st_mode, stat.st_mtime * plain)
    return found


def left(tree: Tree) -> list[str]:
    """What is still there of us after all was taken back, but for the journal and empty lists."""
    state = tree.root / STATE
    own = {"journal", "owned", "pending", "runs"}
    found = [str(p.relative_to(state)) for p in state.rglob("*") if p.name not in own]
    return [*tree.leftovers(), *found, *tree.state("owned"), *tree.state("pending")]


def as_before(tree: Tree, before: dict[str, tuple[bytes, int, float]], ran: Ran) -> None:
    assert ran.exit == 0, ran.stdout + ran.stderr
    after = all_of(tree)
    assert {p: after.get(p) for p in {*after, *before} if after.get(p) != before.get(p)} == {}
    assert left(tree) == []
    assert "other hands" not in ran.stdout
    assert {line.split()[1] for line in tree.state("journal")} <= {"rolled-back"}


class Killer:
    """Ends a script before its n-th command, those of its triggers counted with it."""

    def __init__(self, tree: Tree, fatal: int) -> None:
        self.tree, self.count = tree, tree.root.parent / "count"
        self.count.write_text("0\n")
        self.more = {"GDR_COUNT": str(self.count), "GDR_FATAL": str(fatal)}
        for name in WATCHED:
            # Waiting for the disk is nearly all the time that a run takes here.
            real = "/bin/true" if name == "sync" else shutil.which(name, path=os.environ["PATH"])
            tree.tool(name, DEADLY.replace("{real}", str(real)))

    def run(self, text: str) -> Ran:
        ran = self.tree.run(text, **self.more)
        shutil.rmtree(self.tree.tools)
        self.tree.tools.mkdir()
        (self.tree.tools / "sync").symlink_to("/bin/true")
        assert ran.exit in {0, -signal.SIGKILL}, ran.stdout + ran.stderr
        return ran


def moments(limit: int) -> list[int]:
    """Every moment where GDR_CUTS=all asks for them; else some, over the whole length."""
    every = 1 if os.environ.get("GDR_CUTS") == "all" else 31
    return list(range(1, limit, every))


def test_killed_before_any_command_of_a_run_what_was_comes_back(tmp_path: Path) -> None:
    killed = 0
    for fatal in moments(4000):
        tree = node(tmp_path / str(fatal) / "node")
        before = all_of(tree)
        if Killer(tree, fatal).run(bundle()).exit == 0:
            break
        killed += 1
        as_before(tree, before, tree.rollback())
        shutil.rmtree(tmp_path / str(fatal))
    assert killed > 10
    as_before(tree, before, tree.rollback())


def test_killed_before_any_command_of_a_rollback_the_next_one_ends_it(tmp_path: Path) -> None:
    killed = 0
    for fatal in moments(4000):
        tree = node(tmp_path / str(fatal) / "node")
        before = all_of(tree)
        assert tree.run(bundle()).exit == 0
        done = Killer(tree, fatal).run(rollback_script("last", 5))
        as_before(tree, before, tree.rollback())
        if done.exit == 0:
            break
        killed += 1
        shutil.rmtree(tmp_path / str(fatal))
    assert killed > 3


def test_killed_amid_a_run_and_again_amid_its_rollback(tmp_path: Path) -> None:
    amid_setting_aside = ((142, 50), (165, 35), (183, 49))
    for first, second in (
        *((150, 20), (150, 90), (190, 40), (230, 60), (260, 110)),
        *amid_setting_aside,
    ):
        tree = node(tmp_path / f"{first}-{second}" / "node")
        before = all_of(tree)
        Killer(tree, first).run(bundle())
        Killer(tree, second).run(rollback_script("last", 5))
        as_before(tree, before, tree.rollback())


def test_what_a_killed_run_left_half_written_of_the_state_goes_with_the_next(tree: Tree) -> None:
    assert tree.run(bundle()).exit == 0
    for name in ("pending.new", "journal.new", "try.17", "dead-17-1-b", "lock.17"):
        tree.write(f"{STATE}/{name}", "half of")
    assert tree.rollback().exit == 0
    assert left(tree) == []


KILL = 'kill -9 -$(ps -o sid= -p $$ | tr -d " "); sleep 5'
HALF = DKMS.replace("chmod 600", f"{KILL}; chmod 600")


def cut_in(tree: Tree, name: str, text: str) -> dict[str, tuple[bytes, int, float]]:
    """A run that was killed in a command which is ``text`` this time; what was before it."""
    before, command = all_of(tree), tree.root / "bin" / name
    real = command.read_text()
    tree.command(name, text)
    assert tree.run(bundle()).exit == -signal.SIGKILL
    tree.command(name, real)
    os.utime(command, (before[f"bin/{name}"][2],) * 2)
    return before


def cut_in_the_build(tree: Tree) -> dict[str, tuple[bytes, int, float]]:
    """A run that was killed when half of the module was written; what was before it."""
    before = cut_in(tree, "dkms", HALF)
    assert tree.read(MODULE) == "half of "
    return before


def test_half_a_module_gives_way_to_the_one_before(tree: Tree) -> None:
    before = cut_in_the_build(tree)
    assert tree.exists(WORK)
    as_before(tree, before, tree.rollback())


def test_the_depmod_of_the_build_is_part_of_it(tree: Tree) -> None:
    half = f'#!/bin/sh\nprintf half >"$GDR_ROOT{INDEX}"\n{KILL}\n'
    before = cut_in(tree, "depmod", half)
    assert tree.state("journal")
    as_before(tree, before, tree.rollback())


def test_what_others_change_after_the_next_call_is_theirs(tree: Tree) -> None:
    cut_in_the_build(tree)
    assert tree.run(sent(bundle_of({"/etc/x.conf": "x\n"}))).exit == 0
    assert not tree.exists(WORK)  # nobody needs half a build
    tree.write(MODULE, "the site's own\n")
    ran = tree.rollback("all")
    assert f"{MODULE}: changed since by other hands" in ran.stdout
    assert tree.read(IMAGE) == "the image that boots\n"


def test_a_trigger_that_was_not_cut_leaves_others_what_is_theirs(tree: Tree) -> None:
    before = cut_in_the_build(tree)
    tree.write("/boot/grub/grub.cfg", "a kernel was installed since\n")
    ran = tree.rollback()
    assert "/boot/grub/grub.cfg: changed since by other hands" in ran.stdout
    assert tree.read("/boot/grub/grub.cfg") == "a kernel was installed since\n"
    assert all_of(tree)[MODULE[1:]] == before[MODULE[1:]]


def test_what_was_beside_it_before_stays(tree: Tree) -> None:
    tree.write(f"{WORK}/make.log", "the site's own failed build\n")
    cut_in_the_build(tree)
    assert tree.rollback().exit == 0
    assert tree.read(f"{WORK}/make.log") == "the site's own failed build\n"


def test_what_a_failed_trigger_left_stays_to_be_read_until_it_is_taken_back(tree: Tree) -> None:
    before = all_of(tree)
    tree.command("dkms", DKMS.replace('"$GDR_BIN/depmod"', "exit 10 #"))
    assert tree.run(bundle()).exit == 5
    assert tree.exists(WORK)
    tree.command("dkms", DKMS)
    os.utime(tree.root / "bin/dkms", (before["bin/dkms"][2],) * 2)
    as_before(tree, before, tree.rollback())


# --- a full disk ----------------------------------------------------------------------------

FULL = """set -e
mount -t tmpfs -o size=4m none {disk}
cp -a {node} {disk}/node
export GDR_ROOT={disk}/node GDR_BIN={disk}/node/bin
setsid -w {shell} -s <{home}/apply >/dev/null || :
cp -p {home}/bin/* {disk}/node/bin/
cat /dev/zero >{disk}/fill 2>/dev/null || :
{shell} -s <{home}/back >{home}/first 2>&1 || :
find {disk}/node -name '*gdr-toolkit-new' -o -name '*.new' >{home}/temps
rm {disk}/fill
{shell} -s <{home}/back >{home}/second 2>&1 || echo "status $?" >>{home}/second
rm -rf {node}
cp -a {disk}/node {node}
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("dkms", HALF, id="cut-in-the-build"),
        pytest.param(
            "update-initramfs",
            INITRAMFS.replace(f"cat .{IMAGE}.new", f"{KILL}; cat .{IMAGE}.new"),
            id="cut-in-the-image",
        ),
        pytest.param("update-initramfs", INITRAMFS, id="not-cut"),
    ],
)
def test_a_rollback_that_met_a_full_disk_is_ended_by_the_next(
    tree: Tree, name: str, text: str
) -> None:
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        lacks = "no user namespaces here, so nothing can be mounted for a test"
        pytest.fail(lacks) if in_ci() else pytest.skip(lacks)
    before, home = all_of(tree), tree.root.parent
    (home / "apply").write_text(bundle())
    (home / "back").write_text(rollback_script("all", 5))
    shutil.copytree(tree.root / "bin", home / "bin")
    (home / "disk").mkdir()
    tree.command(name, text)
    words = {"disk": home / "disk", "node": tree.root, "home": home, "shell": " ".join(tree.shell)}
    subprocess.run(
        ["unshare", "-rm", "sh", "-c", FULL.format(**words)],
        env=tree.env(),
        check=True,
        timeout=120,
    )
    told = (home / "second").read_text()
    assert "status" not in told, (home / "first").read_text() + told
    assert (home / "temps").read_text() == ""
    as_before(tree, before, Ran(0, told, ""))


def test_copies_are_on_the_disk_before_a_trigger_and_what_is_restored_before_they_go(
    tree: Tree,
) -> None:
    noting(tree)
    tree.command("dkms", DKMS.replace("set -e", 'set -e\necho trigger >>"$GDR_ROOT/../calls"'))
    tree.run(bundle())
    calls = noted(tree)
    begun = calls.index("trigger")
    assert any(c.startswith("sync -d") and "kept/tree" in c and MODULE in c for c in calls[:begun])
    assert any(c.startswith("mv") and c.endswith("/going") for c in calls[:begun])
    after = next(n for n, c in enumerate(calls) if c.startswith("mv") and c.endswith("/after"))
    assert any(c.startswith("sync -d") and MODULE in c for c in calls[begun:after])
    (tree.root.parent / "calls").unlink()
    assert tree.rollback().exit == 0
    calls = noted(tree)
    ends = [n for n, c in enumerate(calls) if c.endswith("/journal")][-1]
    temp = f"{MODULE.rpartition('/')[0]}/.nvidia-peermem.ko.gdr-toolkit-new"
    placed = calls.index(f"mv -f {temp} {MODULE}")
    assert calls.index(f"sync -d {temp}") < placed
    assert placed < calls.index(f"sync -d {MODULE.rpartition('/')[0]}") < ends
