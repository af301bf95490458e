"""The pictures that README and docs show are there, small, and the ones that a command makes."""

from __future__ import annotations

import re

from dev import pictures
from dev.run import ROOT

SHOWN = re.compile(r"""(?:src|srcset)="([^"]+)"|!\[[^\]]*\]\(([^)]+)\)""")


def test_every_picture_that_a_page_shows_is_one_that_we_make() -> None:
    shown = {
        (page.parent / (found[1] or found[2])).resolve()
        for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"))
        for found in SHOWN.finditer(page.read_text())
    }
    made = {(pictures.FOLDER / f"{each.name}.png").resolve() for each in pictures.PICTURES}
    assert made
    assert made <= shown
    assert {each for each in shown if each.parent == pictures.FOLDER.resolve()} == made


def test_pictures_are_there_and_small() -> None:
    for each in pictures.PICTURES:
        file = pictures.FOLDER / f"{each.name}.png"
        assert file.read_bytes().startswith(b"\x89PNG")
        assert file.stat().st_size <= pictures.MOST_KB * 1000
