"""Who is asked before nodes are changed, and which answers count."""

from __future__ import annotations

import io

import pytest

from toolkit.cli.options import Said
from toolkit.errors import UsageError
from toolkit.verbs.cli.session import consent


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def ask(monkeypatch: pytest.MonkeyPatch, answer: str) -> str:
    """What somebody at a terminal is asked, who answers so."""
    told = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("sys.stderr", told)
    consent("change 2 nodes?", Said({}))
    return told.getvalue()


@pytest.mark.parametrize("answer", ["y\n", "Yes\n", " YES \n", "y"])
def test_a_yes_in_any_letters_is_one(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    assert ask(monkeypatch, answer) == "change 2 nodes? [y/N] "


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "yy\n", "yes please\n"])
def test_all_else_is_a_no(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    with pytest.raises(UsageError, match="not confirmed; nothing was changed"):
        ask(monkeypatch, answer)


@pytest.mark.parametrize("name", ["sys.stdin", "sys.stderr"])
def test_without_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr(name, io.StringIO("y\n"))
    with pytest.raises(UsageError, match="nobody to ask whether to drain them") as raised:
        consent("drain?", Said({}), look="--dry", what="drain them")
    assert raised.value.hint.endswith("look: --dry")
    consent("drain?", Said({"yes": True}))
