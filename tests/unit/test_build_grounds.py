"""What trees for the tests of builds are made from, and how they are kept."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest

from tests.builds.grounds import RECIPES, Recipe, kept, kernels
from tests.builds.mirrors import NotToBeHad, Source, codename, known, lines

DEB822 = """\
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb
URIs: http://mirror.example/security
Suites: bookworm-security
Components: main contrib
"""
OLDER = """\
# a comment
deb-src http://mirror.example/debian bookworm main
deb [arch=amd64 signed-by=/keys/site.asc] http://mirror.example/debian bookworm main non-free
deb http://tools.example/apt tools-bookworm main
deb http://extra.example/apt bookworm extra
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        pytest.param(
            "debian.sources",
            DEB822,
            (
                Source(
                    "http://mirror.example/debian", "bookworm", "/usr/share/keyrings/archive.gpg"
                ),
                Source(
                    "http://mirror.example/debian",
                    "bookworm-updates",
                    "/usr/share/keyrings/archive.gpg",
                ),
                Source("http://mirror.example/security", "bookworm-security"),
            ),
            id="deb822",
        ),
        pytest.param(
            "site.list",
            OLDER,
            (
                Source("http://mirror.example/debian", "bookworm", "/keys/site.asc"),
                Source("http://tools.example/apt", "tools-bookworm"),
            ),
            id="one-line",
        ),
        pytest.param("site.save", OLDER, (), id="a-file-that-apt-passes-over"),
    ],
)
def test_sources_are_read_as_apt_reads_them(
    name: str, text: str, expected: tuple[Source, ...], tmp_path: Path
) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / name).write_text(text)
    assert known(tmp_path) == expected


def test_another_release_comes_from_the_same_mirrors_and_keys() -> None:
    sources = (
        Source("http://mirror.example/debian", "bookworm", "/keys/site.asc"),
        Source("http://mirror.example/debian", "bookworm-security"),
        Source("http://tools.example/apt", "tools-bookworm"),
    )
    parts = "main contrib non-free non-free-firmware"
    assert lines("trixie", sources, "bookworm") == (
        f"deb [signed-by=/keys/site.asc] http://mirror.example/debian trixie {parts}",
        f"deb http://mirror.example/debian trixie-security {parts}",
    )


@pytest.mark.parametrize("own", ["jammy", ""])
def test_without_a_source_of_the_machines_release_there_is_no_tree(own: str) -> None:
    with pytest.raises(NotToBeHad, match="no source of packages"):
        lines("trixie", (Source("http://mirror.example/debian", "bookworm"),), own)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('NAME="Debian"\nVERSION_CODENAME=bookworm\n', "bookworm"),
        ('VERSION_CODENAME="noble"\n', "noble"),
        ("NAME=other\n", ""),
    ],
)
def test_the_machines_release_has_a_name(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text(text)
    assert codename(tmp_path / "os-release") == expected


def test_a_tree_is_another_one_when_its_recipe_changes() -> None:
    one, other = Recipe("a", "bookworm", ("dkms",)), Recipe("a", "bookworm", ("dkms", "gcc"))
    assert one.digest == Recipe("a", "bookworm", ("dkms",)).digest != other.digest
    assert len({each.digest for each in RECIPES}) == len(RECIPES)


def test_kernels_are_those_with_headers_by_age_though_their_links_lead_nowhere_here(
    tmp_path: Path,
) -> None:
    for name in ("6.12.1-amd64", "6.1.0-56-amd64", "6.1.0-9-amd64"):
        folder = tmp_path / "lib/modules" / name
        folder.mkdir(parents=True)
        (folder / "build").symlink_to(f"/usr/src/no-such-headers-{name}")
    (tmp_path / "lib/modules/6.5.0-amd64").mkdir()
    assert kernels(tmp_path) == ("6.1.0-9-amd64", "6.1.0-56-amd64", "6.12.1-amd64")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GDR_TEST_CACHE", str(tmp_path))
    return tmp_path


def test_what_is_kept_is_made_once(cache: Path) -> None:
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "file").touch()

    assert kept("thing", make) == kept("thing", make) == cache / "thing"
    assert (cache / "thing/file").exists()
    assert len(made) == 1


def test_what_could_not_be_made_leaves_nothing_and_is_tried_again(cache: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise NotToBeHad("no network")

    for _ in range(2):
        with pytest.raises(NotToBeHad, match="no network"):
            kept("thing", fail)
    assert [path.name for path in cache.iterdir()] == ["thing.lock"]


def test_what_a_killed_run_left_half_made_is_removed(cache: Path) -> None:
    (cache / "thing.new-abc").mkdir()
    (cache / "thing-too.new-abc").mkdir()
    kept("thing", lambda folder: (folder / "file").touch())
    assert not (cache / "thing.new-abc").exists()
    assert (cache / "thing-too.new-abc").exists()


def _slowly(folder: Path) -> None:
    time.sleep(0.5)
    (folder / "file").write_text(folder.name)


def _one(_number: int) -> str:
    return (kept("thing", _slowly) / "file").read_text()


def test_two_runs_at_once_make_one_thing(cache: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert len(set(pool.map(_one, range(2), chunksize=1))) == 1
    assert [path.name for path in sorted(cache.iterdir())] == ["thing", "thing.lock"]
