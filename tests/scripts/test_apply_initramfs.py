"""An initramfs that the engine has made again is looked into before it counts."""

from __future__ import annotations

import pytest

from tests.scripts.engine import STATE, Ran, Tree, bundle_of, noted, noting, sent

pytestmark = pytest.mark.shell

RELEASE = "6.8.0-45-generic"
IMAGE = f"/boot/initrd.img-{RELEASE}"
PLAIN = f"REBUILD_INITRAMFS update-initramfs -u -k {RELEASE}"
CALL = f"REBUILD_INITRAMFS initramfs {RELEASE} {IMAGE} update-initramfs -u -k {RELEASE}"
OFED, INBOX = "updates/dkms/mlx5_core", "kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core"
DISK, NET = "kernel/drivers/nvme/host/nvme-core", "kernel/drivers/net/virtio_net"

# An image is its own list here; "made" is what the next one will hold.
LIST = '#!/bin/sh\n[ -r "$GDR_ROOT$1" ] && sed "s|.*|usr/lib/modules/%s/&.ko.zst|" "$GDR_ROOT$1"\n'
MAKE = f"""#!/bin/sh
echo "making $3"
cat "$GDR_ROOT/made" >"$GDR_ROOT{IMAGE}"
exit $(cat "$GDR_ROOT/ends")
"""
MODINFO = f"""#!/bin/sh
[ "$5" = mlx5_core ] && echo /lib/modules/{RELEASE}/{OFED}.ko.zst
"""


@pytest.fixture
def node(tree: Tree) -> Tree:
    """OFED's mlx5_core is on disk; the image holds the inbox one, and the driver of a disk."""
    tree.command("lsinitramfs", LIST % RELEASE)
    tree.command("update-initramfs", MAKE)
    tree.command("modinfo", MODINFO)
    tree.write(IMAGE, f"{INBOX}\n{DISK}\n{NET}\n", 0o600)
    tree.write("/sys/module/nvme_core/initstate", "live\n")
    tree.write("/sys/module/virtio_net/initstate", "live\n")
    tree.write("/ends", "0\n")
    return tree


def remade(node: Tree, *modules: str) -> Ran:
    node.write("/made", "".join(f"{each}\n" for each in modules))
    steps = (f"keep REBUILD_INITRAMFS {IMAGE}", f"undo kept '{PLAIN}'", f"trigger '{CALL}'")
    return node.run(sent(bundle_of({}, *steps)))


def test_one_that_holds_what_it_should_takes_the_place_of_the_old(node: Tree) -> None:
    ran = remade(node, OFED, DISK)
    assert ran.exit == 0, ran.stdout + ran.stderr
    assert ran.words(CALL) == f"making {RELEASE}\n{IMAGE}: looked into, and as it should be\n"
    assert node.read(IMAGE) == f"{OFED}\n{DISK}\n"
    assert node.state("pending") == []


@pytest.mark.parametrize(
    ("modules", "why"),
    [
        pytest.param(
            (INBOX, DISK),
            f"it holds {INBOX}, and modprobe would load {OFED}.ko.zst",
            id="inbox-beside-ofed",
        ),
        pytest.param(
            (OFED,),
            f"it lacks {DISK}, which the one before had, and which is in use",
            id="without-the-driver-of-a-disk",
        ),
        pytest.param((), "it is not there", id="empty"),
    ],
)
def test_one_that_should_not_be_booted_gives_way_to_the_old(
    node: Tree, modules: tuple[str, ...], why: str
) -> None:
    before = node.files()
    noting(node)
    ran = remade(node, *modules)
    assert ran.exit == 5
    assert {f"sync -d {IMAGE}", "sync -d /boot"} <= set(noted(node))
    assert f"{IMAGE}: {why}\n" in ran.words(CALL)
    assert ran.words(CALL).endswith("the one before is back, byte for byte\n")
    after = node.files()
    assert after.pop("made")
    assert after == before, "not as it was: bytes, mode and time"
    assert node.state("pending") == [CALL]
    assert node.leftovers() == []


def test_half_an_image_of_a_command_that_failed_gives_way_to_the_old(node: Tree) -> None:
    before = node.files()[IMAGE[1:]]
    node.write("/ends", "3\n")
    ran = remade(node, OFED)
    assert ran.states()[CALL] == "failed:3"
    assert "update-initramfs ended with status 3\n" in ran.words(CALL)
    assert node.files()[IMAGE[1:]] == before


def test_one_that_nothing_can_list_is_kept_and_it_is_said(node: Tree) -> None:
    (node.root / "bin/lsinitramfs").unlink()
    ran = remade(node, INBOX)
    assert ran.exit == 0
    assert ran.words(CALL).endswith(f"{IMAGE}: not looked into, for lsinitrd lists none here\n")


def test_one_that_can_no_longer_be_listed_gives_way_to_the_old(node: Tree) -> None:
    node.command("update-initramfs", MAKE.replace("exit", 'rm "$GDR_BIN/lsinitramfs"\nexit'))
    ran = remade(node, OFED, DISK)
    assert ran.exit == 5
    assert "it cannot be listed\n" in ran.words(CALL)
    assert INBOX in node.read(IMAGE)


def test_a_rollback_brings_the_one_from_before_byte_for_byte(node: Tree) -> None:
    before = node.files()[IMAGE[1:]]
    assert remade(node, OFED, DISK).exit == 0
    assert node.rollback().exit == 0
    assert node.files()[IMAGE[1:]] == before


@pytest.mark.parametrize("earlier", [False, True], ids=["", "begun-by-an-earlier-version"])
def test_a_rollback_gives_its_mode_back_where_the_run_wrote_modes_down(
    node: Tree, earlier: bool
) -> None:
    """The command rewrites the same bytes, and opens them to everybody."""
    node.write(IMAGE, f"{OFED}\n", 0o600)
    node.command("update-initramfs", MAKE.replace("exit", f'chmod 644 "$GDR_ROOT{IMAGE}"\nexit'))
    assert remade(node, OFED).exit == 0
    [run] = (node.root / STATE / "runs").iterdir()
    for kept in (run / "before", run / "after") if earlier else ():
        lines = [each for each in kept.read_text().splitlines() if not each.startswith("mode:")]
        kept.write_text("\n".join(["#  heading", *lines[1:]]) + "\n")
    assert node.rollback().exit == 0
    assert (node.root / IMAGE[1:]).stat().st_mode & 0o777 == (0o644 if earlier else 0o600)
    assert node.leftovers() == []


def test_a_command_that_the_node_lacks_is_found_before_anything_is_touched(node: Tree) -> None:
    (node.root / "bin/update-initramfs").unlink()
    ran = remade(node, OFED)
    assert "update-initramfs: the node has no such command" in ran.stdout
    assert node.state("journal") == []


def test_one_made_for_the_first_time_is_looked_into_as_well(node: Tree) -> None:
    (node.root / IMAGE[1:]).unlink()
    ran = remade(node, INBOX)
    assert ran.exit == 5
    assert f"it holds {INBOX}" in ran.words(CALL)
