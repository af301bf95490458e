"""What others say into our sentences is cut: nothing of theirs fills a screen or a log of ours."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from toolkit.evidence import Frame, State
from toolkit.features.builds.plan.deb import _word
from toolkit.features.builds.plan.rpm import _words as rpm_words
from toolkit.features.kubernetes.run import _words as pod_words
from toolkit.features.slurm.io import _refusal as slurm_says
from toolkit.hosts.host import Host
from toolkit.node.audit import of_run
from toolkit.node.collect import _nothing
from toolkit.node.deliver import _tail, heard
from toolkit.node.inside import last_line
from toolkit.redfish.reader import one_line
from toolkit.rollout.hooks import HookError, run_hook
from toolkit.ssh.vagrant import _refusal as vagrant_says


def frame(text: str) -> Frame:
    return Frame("k", State.FAILED, "k", text, 1)


ROWS: dict[str, tuple[Callable[[str], str], int]] = {
    "probe": (lambda said: str(_nothing("h", 1, f"first\n{said}\n\n")), 200),
    "vagrant": (lambda said: str(vagrant_says("v", (), f"first\n{said}\n")), 200),
    "slurm": (lambda said: str(slurm_says(["scontrol", "show"], f"first\n{said}\n")), 300),
    "container": (lambda said: last_line(frame(f"first\n{said}\n")), 300),
    "pod": (lambda said: pod_words(frame(said)), 497),
    "modinfo in a deb": (_word, 200),
    "modinfo in an rpm": (rpm_words, 120),
    "step's line": (lambda said: heard(f"|{said}"), 80),
    "step's call": (lambda said: heard(f"= 1 call {said}"), 80),
    "BMC": (one_line, 200),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_line_is_cut(name: str) -> None:
    cut, most = ROWS[name]
    assert [cut("y" * count).count("y") for count in (most - 1, most, most + 1, 9999)] == [
        *(most - 1, most, most, most)
    ]


def test_the_last_lines_of_a_node_are_kept() -> None:
    lines = [str(number) for number in range(99)]
    assert _tail("\n".join(lines) + "\n").split("\n") == lines[-12:]
    assert _tail("one\n") == "one"


def test_the_last_lines_of_a_hook_are_kept() -> None:
    with pytest.raises(HookError) as failed:
        run_hook("drain", "seq 99; exit 1", Host("gpu1"), 60)
    assert str(failed.value).split("\n")[1:] == [str(number) for number in range(94, 100)]


def test_a_reason_in_a_nodes_journal_is_cut() -> None:
    assert of_run("r", "y" * 900).split(" reason=")[1] == "y" * 120
