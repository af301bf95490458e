"""Evidence from transports that work, break off, or talk nonsense; and from saved evidence."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

import pytest

from tests.replay import ReplayTransport
from toolkit.errors import TransportError
from toolkit.evidence import Evidence, Frame, State
from toolkit.node.collect import collect, probe_script
from toolkit.ssh.become import Become
from toolkit.ssh.stream import Lines
from toolkit.ssh.transport import Result, Sink, quiet

WHOLE = "= begin ok gdr-toolkit/1\n= uid ok id -u\n|0\n= cmdline ok /proc/cmdline\n|x\f\u2028\n"
END = "= end ok 2\n"


@dataclass
class Scripted:
    """Says ``text``, then ends with ``result`` or breaks with an error."""

    text: str
    exit: int = 0
    stderr: str = ""
    error: TransportError | None = None
    name: str = "gpu1"
    waited_s: float = 0

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        assert script == probe_script()
        self.waited_s = limit_s
        lines = Lines(sink)
        lines.feed(self.text.encode("utf-8", "surrogateescape"))
        if self.error is not None:
            raise self.error
        return Result(self.exit, lines.end(), self.stderr)

    def close(self) -> None: ...


def test_a_probe_that_is_cut_runs_nothing_and_goes_to_gdr_node_as_it_is_installed() -> None:
    """gdr-node compares the bytes; others copy the file, and pipe it."""
    probe = probe_script()
    assert Become(wrapped=True).feed(probe) == probe.encode()
    for name in re.finditer(r"^\w+(?=\(\) \{)", probe, re.M):
        part = probe[: name.end()].encode()
        ran = subprocess.run(["sh", "-xs"], input=part, capture_output=True, check=False)
        assert (ran.stdout, ran.stderr.count(b"+ ")) == (b"", 0), name[0]


def test_all_nodes_that_are_asked_at_once_share_one_text_of_the_probe() -> None:
    assert probe_script() is probe_script()


def test_what_a_login_prints_around_it_is_not_evidence() -> None:
    evidence = collect(Scripted(f"welcome\n= uid ok\n{WHOLE}{END}bye\n"))
    assert evidence.complete
    assert list(evidence.frames) == ["uid", "cmdline"]
    assert evidence.text("cmdline") == "x\f\u2028\n"


@pytest.mark.parametrize(
    ("said", "times"),
    [
        pytest.param("3", 3, id="thrice"),
        pytest.param("0.1", 1, id="never-less-than-nodes-need"),
        pytest.param("long", 1, id="no-number"),
    ],
)
def test_an_emulated_node_is_waited_for_as_long_as_is_said(
    said: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GDR_PATIENCE", said)
    node = Scripted(WHOLE + END)
    collect(node, limit_s=10)
    assert node.waited_s == 10 * times
    assert f"\npatience={times}\n" in probe_script(), "and so is each of its commands"


def test_a_lost_connection_leaves_what_had_arrived() -> None:
    lost = TransportError("gpu1: lost")
    evidence = collect(Scripted(WHOLE, error=lost))
    assert not evidence.complete
    assert list(evidence.frames) == ["uid"]  # the second may have been cut


@pytest.mark.parametrize("text", ["", "welcome\n", "= begin ok gdr-toolkit/1\n", WHOLE[:30]])
def test_a_lost_connection_with_nothing_is_the_error_itself(text: str) -> None:
    lost = TransportError("gpu1: lost")
    with pytest.raises(TransportError) as raised:
        collect(Scripted(text, error=lost))
    assert raised.value is lost


def test_a_script_without_evidence_is_an_error_that_quotes_the_shell() -> None:
    with pytest.raises(TransportError, match=r"status 2 .*: sh: 1: Syntax error"):
        collect(Scripted("motd\n", exit=2, stderr="sh: 1: Syntax error\n"))


def test_evidence_of_another_grammar_is_refused() -> None:
    with pytest.raises(TransportError, match=r"^gpu1: .*gdr-toolkit/9"):
        collect(Scripted("= begin ok gdr-toolkit/9\n"))


@pytest.mark.parametrize("complete", [True, False])
def test_saved_evidence_answers_as_the_node_did(complete: bool) -> None:
    frames = {
        "uid": Frame("uid", State.OK, "id -u", "0\n"),
        "dkms": Frame("dkms", State.FAILED, "dkms status", "\udcff\n", 4),
    }
    saved = Evidence(frames, complete)
    assert collect(ReplayTransport("gpu1", saved)) == saved


def test_saved_evidence_cannot_be_acted_on() -> None:
    with pytest.raises(TransportError, match="only be judged"):
        ReplayTransport("gpu1", Evidence()).run("reboot")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpu1", "see that a POSIX sh works there: ssh gpu1 'echo true | sh -s'"),
        ("root@::1;x", "see that a POSIX sh works there: ssh 'root@::1;x' 'echo true | sh -s'"),
        ("docker://a;x", "see that a POSIX sh works there"),
    ],
)
def test_what_is_to_be_typed_can_be_typed_without_harm(name: str, hint: str) -> None:
    with pytest.raises(TransportError) as refused:
        collect(Scripted("", 1, name=name))
    assert refused.value.hint == hint
