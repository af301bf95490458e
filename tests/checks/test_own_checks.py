"""A site's own checks: facts in, a finding out, and nothing else."""

from __future__ import annotations

import pytest

from tests.evidence import build
from toolkit.checks.check import Check, Status
from toolkit.checks.own import checks_of
from toolkit.errors import UsageError
from toolkit.facts.node.node import Node
from toolkit.want import Want

NODE = Node(build.node())
HEAD = "from toolkit.checks.check import Finding, Impact, check, failed, passed, unknown\n"
CHECK = """
@check("{id}", impact={impact}, source="our wiki", fix="by hand")
def own(node, want):
    {title}
    {body}
"""


def text(body: str = 'return passed("x")', **said: str) -> str:
    usual = {"id": "site.x", "impact": "Impact.SLOW", "title": '"""As it should be."""'}
    return HEAD + CHECK.format(**usual | said, body=body)


def only(source: str) -> Check:
    (found,) = checks_of("own.py", source)
    return found


@pytest.mark.parametrize(
    ("body", "status", "found"),
    [
        pytest.param("return passed(node.kernel)", Status.PASS, "5.15.0-170-generic", id="passes"),
        pytest.param("return failed('a', expected='b')", Status.FAIL, "a", id="fails"),
        pytest.param(
            "return node.no_such", Status.UNKNOWN, "own.py:6: AttributeError", id="mistake"
        ),
        pytest.param("return 5", Status.UNKNOWN, "own.py: gives no finding", id="no-finding"),
    ],
)
def test_it_judges_by_facts_and_a_mistake_leaves_it_open(
    body: str, status: Status, found: str
) -> None:
    verdict = only(text(body))(NODE, Want())
    assert verdict.status is status
    assert verdict.finding.found.startswith(found)


def test_it_cites_what_it_asked_for_and_a_fact_that_is_not_there_is_unknown() -> None:
    check = only(text("return passed(node.kernel)"))
    assert check(NODE, Want()).cited == ("kernel-release",)
    assert check(Node(build.node({"kernel-release": None})), Want()).status is Status.UNKNOWN


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "from os import environ",
        "from subprocess import run",
        "from pathlib import Path",
        "from toolkit.verbs.access import state_dir",
        "from toolkit.facts.node import node as module",
        "from toolkit.facts.node.node import *",
        "from . import other",
        "open('/etc/passwd')",
        "print('hello')",
        "eval('1')",
        "getattr(check, 'x')",
        "__import__('os')",
        "__builtins__",
        "().__class__",
        "check.__globals__",
        "passed._x",
    ],
)
def test_what_reads_or_writes_by_itself_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match=r"^own\.py:\d+: ") as caught:
        checks_of("own.py", text() + line)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("source", "why"),
    [
        pytest.param(text(id="peermem.loaded"), "is a check of this version", id="taken-by-ours"),
        pytest.param(text(id="one"), "its id is TOPIC.NAME", id="no-topic"),
        pytest.param(text(impact="'slow'"), "its impact one of Impact", id="no-impact"),
        pytest.param(text(title="pass"), "docstring the title", id="no-title"),
        pytest.param("def (", r"own\.py:1: SyntaxError", id="no-python"),
        pytest.param("\nnone_such", r"own\.py:2: NameError", id="no-name"),
        pytest.param(
            "from toolkit.facts.gone import fact",
            r"own\.py:1: ModuleNotFoundError",
            id="of-another-version",
        ),
    ],
)
def test_what_is_no_check_here_is_one_sentence(source: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        checks_of("own.py", source)
