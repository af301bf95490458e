"""The program that rebuilds on nodes, and initramfs images that hold what was made anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scripts.engine import SHELLS
from tests.scripts.swapping import KERNEL, Node, node

pytestmark = pytest.mark.shell

OFED, INBOX = "updates/dkms/mlx5_core", "kernel/drivers/net/mlx5_core"
DISK = "kernel/drivers/nvme/host/nvme"
# An image is its own list; "made" is what the next one will hold.
LIST = f"""#!/bin/sh
sed 's|.*|usr/lib/modules/{KERNEL}/&.ko|' "$1"
"""
MAKE = f"""#!/bin/sh
echo "$*" >>"$HOME/asked"
cat "$HOME/made" >"$HOME/boot/initrd.img-{KERNEL}"
[ ! -e "$HOME/fails" ]
"""
MODINFO = f"""#!/bin/sh
[ "$1 $3 $4" != "-k -n mlx5_core" ] || echo "$HOME/lib/modules/$2/{OFED}.ko"
"""


@pytest.fixture(params=sorted(SHELLS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    """OFED's mlx5_core was installed after the initramfs, which holds the kernel's own."""
    made = node(tmp_path, SHELLS[request.param])
    for path in (OFED, INBOX, DISK):
        made.write(made.root / f"lib/modules/{KERNEL}/{path}.ko", "x\n")
    for path in (INBOX, DISK):
        os.utime(made.root / f"lib/modules/{KERNEL}/{path}.ko", (1, 1))
    image = made.write(image_of(made), f"{INBOX}\n{DISK}\n")
    os.utime(image, (1000, 1000))
    made.command("lsinitramfs", LIST)
    made.command("update-initramfs", MAKE)
    made.command("modinfo", MODINFO)
    return made


def image_of(place: Node) -> Path:
    return place.root / f"boot/initrd.img-{KERNEL}"


def ran(place: Node, *words: str, made: tuple[str, ...] = (OFED, DISK)) -> str:
    place.write(place.root / "made", "".join(f"{each}\n" for each in made))
    return place.program(*words).stdout


def asked(place: Node) -> bool:
    return (place.root / "asked").exists()


def test_one_that_is_older_than_what_it_holds_is_made_again(place: Node) -> None:
    assert f"the initramfs of {KERNEL}: made again: it is older than mlx5_core\n" in ran(place)
    assert image_of(place).read_text() == f"{OFED}\n{DISK}\n"
    (place.root / "asked").unlink()
    assert "initramfs" not in ran(place)
    assert not asked(place)


def test_a_dry_run_only_tells(place: Node) -> None:
    said = ran(place, "--dry-run")
    assert "would be made again: it is older than mlx5_core\n" in said
    assert not asked(place)


@pytest.mark.parametrize("made", [(INBOX, DISK), ()], ids=["inbox-again", "empty"])
def test_one_that_lacks_what_was_made_anew_gives_way_to_the_old(
    place: Node, made: tuple[str, ...]
) -> None:
    done = ran(place, "--hook", made=made)
    assert "not made again (it is older than mlx5_core): it " in done
    assert image_of(place).read_text() == f"{INBOX}\n{DISK}\n"
    assert image_of(place).stat().st_mtime == 1000
    assert [each.name for each in image_of(place).parent.iterdir()] == [image_of(place).name]
    (place.root / "asked").unlink()
    assert "failed before, and nothing has changed since" in ran(place, "--hook")
    assert not asked(place)
    assert "made again: " in ran(place), "by hand it is tried once more"


def test_half_an_image_gives_way_to_the_old(place: Node) -> None:
    place.write(place.root / "fails", "")
    assert "it could not be made, with status 1; the one before is back" in ran(place)
    assert image_of(place).read_text() == f"{INBOX}\n{DISK}\n"


def test_one_that_holds_none_of_them_is_left_alone(place: Node) -> None:
    image_of(place).write_text(f"{DISK}\n")
    os.utime(image_of(place), (1000, 1000))
    assert "initramfs" not in ran(place)
    assert not asked(place)


def test_what_modprobe_would_not_take_is_no_reason(place: Node) -> None:
    place.command("modinfo", f'#!/bin/sh\necho "$HOME/lib/modules/{KERNEL}/{INBOX}.ko"\n')
    assert "initramfs" not in ran(place)


def test_a_bundle_sees_to_it_by_itself(place: Node) -> None:
    ran(place, "--kernel", KERNEL, "--peermem")
    assert not asked(place)
