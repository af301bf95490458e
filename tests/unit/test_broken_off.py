"""Ctrl-C while nodes are looked at is an answer, for verbs that would change them next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from toolkit.cli import main
from toolkit.errors import ExitCode, Outcome
from toolkit.features.iommu_groups import cli
from toolkit.features.reload import cli as reloading
from toolkit.hosts.host import Host
from toolkit.ssh.pool import Abandoned, NotBegun
from toolkit.verbs.access import Access, Fleet


@pytest.mark.parametrize(
    ("module", "verb_changes"),
    [
        pytest.param(reloading, ("reload", "reload_nodes"), id="reload"),
        pytest.param(cli, ("iommu", "change"), id="iommu"),
    ],
)
@pytest.mark.parametrize("why", [Abandoned, NotBegun], ids=["ctrl-c", "max-fail"])
def test_a_verb_that_was_stopped_amid_looking_changes_nothing(
    module: ModuleType,
    verb_changes: tuple[str, str],
    why: type[Abandoned | NotBegun],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verb, changes = verb_changes

    @contextmanager
    def opened(_: object) -> Iterator[Fleet]:
        yield Fleet((Host("gpu01"),), lambda _: pytest.fail("a node was reached"), Access())

    def looked(*_: Any) -> list[Outcome[Any]]:
        return [Outcome("gpu01", error=why("gpu01: stopped"))]

    def changed(*_: Any) -> None:
        pytest.fail("it went on to change nodes")

    monkeypatch.setattr(module, "fleet", opened)
    monkeypatch.setattr(module, "look", looked)
    monkeypatch.setattr(module, changes, changed)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["gdr", verb, "--hosts", "gpu01", "--yes", "--quiet"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == why.exit_code
    assert why.exit_code in {ExitCode.INTERRUPTED, ExitCode.STOPPED}
