"""An image that is made twice from the same is the same, file by file.

By GDR_NIGHT alone: all of its modules are built twice.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.images.golden import golden
from tests.images.test_born import image
from toolkit.features.image.io.index import differences, look

pytestmark = pytest.mark.machine
BOOTS = 0
LONG = True
# docs/image-boot.md has these, with their reasons: journals, by the time of their run.
VARYING = ("/var/lib/gdr-toolkit/journal", "/var/lib/gdr-toolkit/runs/")


def test_built_twice_the_files_are_the_same_but_for_what_the_page_names(tmp_path: Path) -> None:
    made = [golden(tmp_path / name) for name in ("one", "other")]
    try:
        for root in made:
            ran = image(root)
            assert ran.status == 0, ran.out + ran.err
        found = [each.path for each in differences(*map(look, made))]
        assert [each for each in found if not each.startswith(VARYING)] == []
    finally:
        subprocess.run(("rm", "-rf", *map(str, made)), check=True)
