"""What the plays read of the engine's frames: the same as our own reader, sentence by sentence."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from dev.run import ROOT
from toolkit.errors import ApplyError
from toolkit.facts.modules.module_users import DAEMONS, FIRST_PERSON, WORK
from toolkit.node.deliver import apply, rollback
from toolkit.ssh.transport import Result, Sink, quiet


def _plugin() -> ModuleType:
    file = ROOT / "playbooks/filter_plugins/gdr_frames.py"
    spec = importlib.util.spec_from_file_location("gdr_frames", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # as dataclasses want it
    spec.loader.exec_module(module)
    return module


FRAMES = _plugin()
PLACE, GRUB = "place /etc/x.conf", "UPDATE_BOOTLOADER update-grub"


@dataclass(frozen=True, slots=True)
class Said:
    """A node that has said this."""

    stdout: str
    name: str = "gpu1"

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        del script, limit_s, sink
        return Result(0, self.stdout, "")

    def close(self) -> None:
        pass


DONE = f"= run ok 1\n= 1.expect ok expect kernel 6\n= 2.place ok {PLACE}\n"
CASES = {
    "done": f"{DONE}= 3.trigger.output ok {GRUB}\n|made\n= 3.trigger ok {GRUB}\n",
    "nothing": "= 1.expect ok expect kernel 6\n",
    "settled": "= settled ok 20261122T100000Z-1\n",
    "held": "= lock failed:75 /l\n|held since 10:00 by process 7, started by op 192.0.2.1\n",
    "stale": "= 1.expect failed:65 expect kernel 6\n|the plan was made for kernel 6, not 7\n"
    f"= 2.place absent not begun: {PLACE}\n",
    "read-only": "= state failed:1 /var/lib/gdr-toolkit\n|mkdir: read-only file system\n",
    "unsigned": "= signature failed:1 /etc/x\n|the bundle is not signed\n",
    "failed": f"{DONE}= 3.trigger.output ok {GRUB}\n|no disk\n= 3.trigger failed:7 {GRUB}\n"
    "= 4.trigger absent not begun: DEPMOD depmod\n",
    "first": f"= 1.place failed:1 {PLACE}\n|No space left on device\n",
    "looked": "= 1.expect absent not begun: expect kernel 6\n"
    f"= 2.place absent not begun: {PLACE}\n",
    "back": f"= run-1 ok 1\n|{GRUB}\n= 1.undo ok restore /etc/x.conf\n",
    "partly": "= run-1 ok 1\n= 1.undo failed:1 restore /etc/x\n|changed since by other hands\n",
    "no-run": "= nothing ok no run to take back\n",
}


def told(case: str, *, cut: bool = False) -> str:
    lines = CASES[case].split("\n")[:-1]
    end = "" if cut else f"= end ok {sum(line.startswith('= ') for line in lines)}\n"
    return "login banner\n= begin ok gdr-toolkit/1\n" + "\n".join([*lines, end])


def read(stdout: str) -> dict[str, object]:
    found: dict[str, object] = FRAMES.applied({"stdout": stdout, "rc": 0}, "gpu1")
    return found


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
@pytest.mark.parametrize("case", sorted(CASES))
def test_what_is_trouble_for_us_is_trouble_for_the_plays(case: str, cut: bool) -> None:
    stdout = told(case, cut=cut)
    call = rollback if case in {"back", "partly", "no-run"} else apply
    try:
        call(Said(stdout), "all")
    except ApplyError as error:
        ours = str(error)
    else:
        ours = ""
    theirs = str(read(stdout)["trouble"])
    if case == "looked" and not cut:
        assert "stopped by a signal" in ours
        assert theirs == "", "a look is stopped before its first step, as it should be"
    elif cut and case in {"back", "no-run"}:
        assert "broke off" in ours
        assert "broke off" in theirs
    elif ours:
        assert theirs.startswith(ours.partition("\n")[0]), f"{ours!r} is not {theirs!r}"
    else:
        assert theirs == ""


@pytest.mark.parametrize(
    ("case", "changed"),
    [
        ("done", True), ("nothing", False), ("settled", False), ("held", False), ("stale", False),
        ("failed", True), ("first", False), ("looked", False), ("back", True), ("no-run", False),
    ],
)  # fmt: skip
def test_changed_is_what_the_engine_says_that_it_did(case: str, changed: bool) -> None:
    assert read(told(case))["changed"] is changed


def test_a_look_tells_what_would_be_done() -> None:
    assert read(told("looked"))["would"] == [PLACE]
    assert read(told("settled"))["settled"] is True
    assert read("= begin ok gdr-toolkit/1\n= standing ok a b\n= end ok 1\n")["standing"] == [
        "a",
        "b",
    ]


@pytest.mark.parametrize("case", ["done", "back"])
def test_what_the_next_boot_shows_is_known(case: str) -> None:
    assert read(told(case))["boots"] is True
    assert read(told("first"))["boots"] is False


def test_a_node_that_says_nothing_is_told_in_a_sentence() -> None:
    away = {"unreachable": True, "msg": "Failed to connect\nssh: connect to host: timed out"}
    assert FRAMES.applied(away, "gpu1")["trouble"] == (
        "gpu1: out of reach: ssh: connect to host: timed out"
    )
    broken = {"rc": 127, "stdout": "", "stderr": "sh: not found\n"}
    assert FRAMES.applied(broken, "gpu1")["trouble"] == (
        "gpu1: the script ended with 127 and said: sh: not found"
    )


def test_evidence_is_kept_word_for_word_and_a_cut_is_told() -> None:
    text = "= begin ok gdr-toolkit/1\n= boot-id ok /proc\n|1-2\n= x ok y\n|a\rb\udcff\n"
    whole = FRAMES.evidence({"stdout": f"banner\n{text}= end ok 2\n"}, "gpu1")
    assert whole == {"trouble": "", "text": f"{text}= end ok 2\n", "boot": "1-2"}
    cut = FRAMES.evidence({"stdout": text}, "gpu1")
    assert cut["trouble"] == "gpu1: the evidence breaks off after 1 frame"
    assert cut["text"] == text


# --- jobs -----------------------------------------------------------------------------------

RULES = {"daemons": sorted(DAEMONS), "work": WORK.pattern, "first_person": FIRST_PERSON}


def users(*blocks: str, uid: str = "0") -> dict[str, object]:
    body = "".join(f"|{line}\n" for block in blocks for line in block.split("\n"))
    text = f"= uid ok id\n|{uid}\n= users ok /proc/*/fd\n{body}= accounts ok /etc/passwd\n"
    return {"rc": 0, "stdout": f"= begin ok gdr-toolkit/1\n{text}= end ok 3\n"}


JOB = "@42\nName:\tpython3\nUid:\t1001\t1001\nDevice:\t/dev/nvidia0"
DAEMON = "@7\nName:\tnv-hostengine\nUid:\t0\t0\nDevice:\t/dev/nvidia0"
FABRIC = "@8\nName:\tibnetdiscover\nUid:\t1001\t1001\nDevice:\t/dev/infiniband/umad0"


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        pytest.param(users(), "", id="nobody"),
        pytest.param(users(DAEMON, FABRIC), "", id="daemons-and-tools"),
        pytest.param(
            users(DAEMON, JOB),
            "gpu1: not rebooted: at work: python3, pid 42 of uid 1001",
            id="a-job",
        ),
        pytest.param(
            users(DAEMON.replace("0\t0", "1001\t1001")),
            "gpu1: not rebooted: at work: nv-hostengine, pid 7 of uid 1001",
            id="a-job-by-the-name-of-a-daemon",
        ),
        pytest.param(
            users(uid="1000"),
            "gpu1: not rebooted: it cannot be told whether a job is at work",
            id="not-root",
        ),
        pytest.param(
            {"stdout": "", "rc": 1},
            "gpu1: not rebooted: it cannot be told whether a job is at work",
            id="silence-is-not-nobody",
        ),
    ],
)
def test_whose_work_a_reboot_would_end(found: dict[str, object], sentence: str) -> None:
    assert FRAMES.busy(found, "gpu1", RULES) == sentence


# --- the toolkit on the controller -------------------------------------------------------------


def judged(*verdicts: tuple[str, str, bool]) -> dict[str, object]:
    checks = [
        {"check": name, "status": status, "found": "so", "waived": waived}
        for name, status, waived in verdicts
    ]
    host = {"name": "gpu1", "error": None, "verdicts": checks}
    return {"rc": 2, "stdout": json.dumps({"hosts": [host]})}


def test_a_verdict_names_what_fails_and_what_nobody_knows() -> None:
    found = judged(
        ("a.b", "fail", False), ("c.d", "unknown", False), ("e.f", "pass", False),
        ("g.h", "fail", True),
    )  # fmt: skip
    assert FRAMES.verdict(found, "gpu1") == "gpu1: fail a.b: so\ngpu1: unknown c.d: so"
    assert FRAMES.verdict({"rc": 0}, "gpu1") == ""


def test_a_toolkit_that_cannot_judge_is_no_good_verdict() -> None:
    found = FRAMES.verdict({"rc": 127, "stdout": "", "stderr": "no such command\n"}, "gpu1")
    assert found == "gpu1: not judged: no such command"
    # Whatever the exit status says: a failure of which nothing is told stays one.
    assert FRAMES.verdict(judged(), "gpu1") == "gpu1: not judged: doctor ended with 2"


def test_the_plugin_runs_under_the_oldest_python_of_a_controller() -> None:
    text = Path(FRAMES.__file__ or "").read_text()
    compile(text, "gdr_frames.py", "exec", dont_inherit=True)
    assert "StrEnum" not in text
    assert "slots=True" not in text, "dataclasses of Python 3.9 know no slots"


@pytest.mark.parametrize(
    "path", ["/a/run.sh", "/a b/run.sh", "/it's/run.sh", '/a"$x`y`/run.sh', "/a\\b/run.sh"]
)
def test_a_path_stands_among_ansibles_words_as_it_is(path: str) -> None:
    """What the module script does with its words: split, then put another path in the place."""
    words = f"{FRAMES.script(path)} apply 60 end"
    assert shlex.split(words) == [path, "apply", "60", "end"]
    assert shlex.split(words.replace(path, "/tmp/x/run.sh"))[0] == "/tmp/x/run.sh"


def test_a_path_that_no_quotes_can_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="rename the folder"):
        FRAMES.script("/it's $x/run.sh")
