"""What whoever waits is shown of a node's own words."""

from __future__ import annotations

import pytest

from toolkit.node.deliver import heard


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param("= 12.place ok place /etc/x", "place /etc/x", id="a-step"),
        pytest.param(
            "= 3.trigger.output ok DEPMOD depmod -a 6.8", "DEPMOD depmod -a 6.8", id="a-call"
        ),
        pytest.param(
            "|Building module(s)... done.", "Building module(s)... done.", id="its-output"
        ),
        pytest.param("= run ok 20261122T114949Z-3973", "", id="the-name-of-a-run"),
        pytest.param("= begin ok gdr-toolkit/1", "", id="the-beginning"),
        pytest.param("= end ok 12", "", id="the-end"),
        pytest.param("motd of the login", "", id="no-frame"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_the_grammar_of_the_wire_is_not_shown(line: str, said: str) -> None:
    assert heard(line) == said


def test_a_long_line_is_cut() -> None:
    assert len(heard("|" + "x" * 500)) == 80
