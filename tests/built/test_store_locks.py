"""Locks of the cache: whoever dies gives them back, and nobody holds one on nothing."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from toolkit.built.io.store import Store
from toolkit.safe_file import hold

DIGEST = "0123456789abcdef" * 4


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


def test_only_one_holds_a_build(store: Store) -> None:
    first = store.hold(DIGEST)
    assert first is not None
    assert store.hold(DIGEST) is None
    first.let_go()
    second = store.hold(DIGEST)
    assert second is not None
    second.let_go()
    second.let_go()  # twice does no harm


HOLDER = """
    import sys
    from pathlib import Path
    from toolkit.built.io.store import Store
    store = Store(Path(sys.argv[1]))
    held = store.hold(sys.argv[2])
    (store.folder / f".making-{sys.argv[2]}-x").mkdir()
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_killed_builder_leaves_no_lock_and_no_rest(store: Store) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(store.folder), DIGEST],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        assert store.hold(DIGEST) is None
        child.kill()
        child.wait()
    held = store.hold(DIGEST)
    assert held is not None
    assert not list(store.folder.glob(".making-*"))
    held.let_go()


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prune may remove the file between our open and our lock: then others lock another one."""
    file, lock = tmp_path / "lock", fcntl.flock
    calls: list[int] = []

    def flock(descriptor: int, how: int) -> None:
        if not calls:
            file.unlink()
        calls.append(descriptor)
        lock(descriptor, how)

    monkeypatch.setattr("toolkit.safe_file.fcntl.flock", flock)
    held = hold(file)
    assert held is not None
    assert hold(file) is None
    held.let_go()


def test_a_lock_whose_file_is_gone_holds_nobody_up(store: Store) -> None:
    held = store.hold(DIGEST)
    assert held is not None
    held.forget()
    again = store.hold(DIGEST)
    assert again is not None
    again.let_go()
    held.let_go()
