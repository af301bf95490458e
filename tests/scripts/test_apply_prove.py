"""A command that ends well and writes rubbish: what it rewrote is put back at once."""

from __future__ import annotations

import pytest

from tests.scripts.engine import (
    GRUB_CFG,
    LIMITS,
    UPDATE_GRUB,
    Tree,
    bundle_of,
    noted,
    noting,
    sent,
    trigger,
)

pytestmark = pytest.mark.shell

EMPTY_MENU = '#!/bin/sh\nexec >"$GDR_ROOT/boot/grub/grub.cfg"\necho "set timeout=5"\n'
NAMED = f"prove {GRUB_CFG} menuentry"


def test_a_menu_that_names_no_kernel_is_put_back_and_the_run_stops(tree: Tree) -> None:
    """update-grub on a disk that it cannot make out exits 0 and writes no entry."""
    tree.command("update-grub", EMPTY_MENU)
    before = tree.files()["boot/grub/grub.cfg"]
    noting(tree)
    ran = tree.run(sent(bundle_of({LIMITS: "x\n"}, *trigger(UPDATE_GRUB), NAMED)))
    assert ran.exit == 5
    assert ran.states()[NAMED] == "failed:1"
    assert ran.words(NAMED) == (f"{GRUB_CFG} does not name menuentry\nit is as it was before\n")
    assert tree.files()["boot/grub/grub.cfg"][:4] == before[:4]
    assert tree.leftovers() == []
    temp, calls = "/boot/grub/.grub.cfg.gdr-toolkit-new", noted(tree)
    assert f"sync -d {temp}" in calls[: calls.index(f"mv -f {temp} {GRUB_CFG}")]


def test_what_it_put_back_is_ours_to_take_back(tree: Tree) -> None:
    tree.command("update-grub", EMPTY_MENU)
    before = tree.files()
    tree.run(sent(bundle_of({LIMITS: "x\n"}, *trigger(UPDATE_GRUB), NAMED)))
    back = tree.rollback()
    assert back.exit == 0
    assert "changed since" not in back.stdout
    assert {path: each[:4] for path, each in tree.files().items()} == {
        path: each[:4] for path, each in before.items()
    }


def test_a_menu_that_names_it_stays(tree: Tree) -> None:
    tree.command("update-grub", EMPTY_MENU.replace("set timeout=5", "menuentry new"))
    ran = tree.run(sent(bundle_of({LIMITS: "x\n"}, *trigger(UPDATE_GRUB), NAMED)))
    assert ran.exit == 0
    assert tree.read(GRUB_CFG) == "menuentry new\n"


def test_a_text_is_no_pattern_and_no_option(tree: Tree) -> None:
    tree.command("update-grub", EMPTY_MENU.replace("set timeout=5", "menuentry -- -e a.b"))
    steps = (f"prove {GRUB_CFG} '-e a.b'", f"prove {GRUB_CFG} a.*")
    ran = tree.run(sent(bundle_of({LIMITS: "x\n"}, *trigger(UPDATE_GRUB), *steps)))
    assert [ran.states()[step.replace("'", "")] for step in steps] == ["ok", "failed:1"]
