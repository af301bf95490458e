"""What old runs need not keep is let go of, at the end of a run that went well."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.scripts.engine import MODPROBE_D, STATE, Ran, Tree, bundle_of, sent
from tests.scripts.test_apply_deliver import Local
from toolkit.node import deliver
from toolkit.plan.bundle import Bundle

pytestmark = pytest.mark.shell

IMAGE = "/boot/initrd.img-6.8"
COMMAND = "REBUILD_INITRAMFS update-initramfs -u -k 6.8"

# An image is what it was made from.
MAKE = f"""#!/bin/sh
cat "$GDR_ROOT"/etc/modprobe.d/* >"$GDR_ROOT{IMAGE}"
"""


@pytest.fixture
def node(tree: Tree) -> Tree:
    tree.command("update-initramfs", MAKE)
    tree.write(IMAGE, "the vendor's\n", 0o600)
    return tree


def keeping(bundle: Bundle, runs: int) -> Bundle:
    return replace(bundle, steps=(*bundle.steps[:-1], f"{bundle.steps[-1]} {runs}"))


def remade(node: Tree, text: str, *, runs: int = 2, steps: Sequence[str] = ()) -> Ran:
    made = (f"keep REBUILD_INITRAMFS {IMAGE}", f"undo kept '{COMMAND}'", f"trigger '{COMMAND}'")
    return node.run(sent(keeping(bundle_of({MODPROBE_D: text}, *made, *steps), runs)))


def copies(node: Tree) -> list[str]:
    """The images that runs keep, oldest run first."""
    runs = [node.root / STATE / "runs" / line.split()[0] for line in node.state("journal")]
    return [each.read_text() for run in runs for each in run.glob("kept/tree/**/initrd.img-6.8")]


def test_the_newest_runs_keep_their_images_and_older_ones_let_go(node: Tree) -> None:
    for text in ("one\n", "two\n"):
        assert "pruned" not in remade(node, text).evidence.frames
    ran = remade(node, "three\n")
    first = node.state("journal")[0].split()[0]
    assert ran.evidence.text("pruned") == f"{first}: {IMAGE} as it was before it, 0 MB\n"
    assert len(copies(node)) == 2
    assert not [each for each in copies(node) if "vendor" in each]


def test_files_come_back_to_the_first_and_what_is_derived_is_made_of_them(node: Tree) -> None:
    before = node.files()
    for text in ("one\n", "two\n", "three\n", "four\n"):
        remade(node, text)
    assert node.rollback("last").exit == 0
    assert "three" in node.read(IMAGE)
    ran = node.rollback("all")
    assert ran.exit == 0, ran.stdout
    assert "no copy is kept of so old a run" in ran.stdout
    after = node.files()
    image = IMAGE.lstrip("/")
    assert {p: f for p, f in after.items() if p != image} == {
        p: f for p, f in before.items() if p != image
    }
    assert node.read(IMAGE) == "options site\n"  # made anew: not the vendor's bytes


def test_a_copy_that_no_later_run_made_anew_is_kept(node: Tree) -> None:
    remade(node, "one\n")
    for number in range(4):
        node.run(sent(keeping(bundle_of({MODPROBE_D: f"{number}\n"}), 1)))
    assert copies(node) == ["the vendor's\n"]


def test_the_copy_of_an_image_whose_kernel_was_removed_is_let_go(node: Tree) -> None:
    remade(node, "one\n")
    (node.root / IMAGE.lstrip("/")).unlink()
    node.run(sent(keeping(bundle_of({MODPROBE_D: "two\n"}), 1)))
    assert copies(node) == []
    assert node.rollback("all").exit == 0


def test_a_run_that_fails_lets_nothing_go(node: Tree) -> None:
    for text in ("one\n", "two\n"):
        remade(node, text)
    node.command("fails", "#!/bin/sh\nexit 1\n")
    ran = remade(node, "three\n", runs=1, steps=("trigger 'DEPMOD fails'",))
    assert ran.exit == 5
    assert "pruned" not in ran.evidence.frames
    assert len(copies(node)) == 3


def test_folders_of_runs_that_never_stood_go(node: Tree) -> None:
    node.write(f"{STATE}/runs/20200101T000000Z-9/kept/1", "x\n")
    remade(node, "one\n")
    assert len(list((node.root / STATE / "runs").iterdir())) == 1


def test_the_controller_hears_of_it(dash_tree: Tree) -> None:
    dash_tree.write(f"{STATE}/runs/20200101T000000Z-9/kept/1", "x\n")
    applied = deliver.apply(Local(dash_tree), sent(bundle_of({MODPROBE_D: "x\n"})))
    assert applied.pruned == ("20200101T000000Z-9: left by a run that is over",)
