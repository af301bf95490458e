"""The words that Slurm's commands are called with, and what is made of their answers.

The tier "slurm" shows that the real ones take them; here each program prints how it was called.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.errors import ExitCode, UsageError
from toolkit.features.slurm import io
from toolkit.features.slurm.io import NoRight, Slurm, SlurmError, settings, step

PROGRAMS = ("scontrol", "squeue", "sbatch", "scancel")
_TELLS = '#!/bin/sh\nprintf "%s" "${0##*/}"; printf " [%s]" "$@"\n'


def answer(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str = _TELLS) -> None:
    """Lay programs that answer with a script's output, before all others."""
    for name in PROGRAMS:
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        pytest.param(lambda s: s.nodes(), "scontrol [show] [--oneliner] [node]", id="nodes"),
        pytest.param(
            lambda s: s.nodes("gpu[1-2]"),
            "scontrol [show] [--oneliner] [node] [gpu[1-2]]",
            id="some",
        ),
        pytest.param(lambda s: s.config(), "scontrol [show] [config]", id="config"),
        pytest.param(
            lambda s: s.jobs("%i", node="n1"),
            "squeue [--noheader] [--states=running,completing] [--nodelist=n1] [--format=%i]",
            id="jobs-of-a-node",
        ),
        pytest.param(
            lambda s: s.jobs("%i", name="gdr"),
            "squeue [--noheader] [--states=all] [--name=gdr] [--format=%i]",
            id="jobs-of-a-name",
        ),
        pytest.param(
            lambda s: s.reservations(),
            "scontrol [show] [--oneliner] [reservation]",
            id="reservations",
        ),
    ],
)
def test_what_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ask: Callable[[Slurm], str], words: str
) -> None:
    answer(monkeypatch, tmp_path)
    assert ask(Slurm()) == words


@pytest.mark.parametrize(
    ("do", "words"),
    [
        pytest.param(
            lambda s: s.drain("n1", "ours"),
            "scontrol update nodename=n1 state=drain reason=ours",
            id="drain",
        ),
        pytest.param(
            lambda s: s.resume("n1"), "scontrol update nodename=n1 state=resume", id="resume"
        ),
        pytest.param(
            lambda s: s.reboot("n1", "ours"), "scontrol reboot reason=ours n1", id="reboot"
        ),
        pytest.param(
            lambda s: s.reserve("gdr", "n1", "root"),
            "scontrol create reservation reservationname=gdr starttime=now duration=1440"
            " users=root nodes=n1 flags=maint,ignore_jobs",
            id="reserve",
        ),
        pytest.param(
            lambda s: s.unreserve("gdr"), "scontrol delete reservation=gdr", id="unreserve"
        ),
        pytest.param(lambda s: s.cancel("7"), "scancel --quiet 7", id="cancel"),
    ],
)
def test_what_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, do: Callable[[Slurm], None], words: str
) -> None:
    answer(monkeypatch, tmp_path, f'#!/bin/sh\necho "${{0##*/}} $*" >{tmp_path}/done\n')
    do(Slurm())
    assert (tmp_path / "done").read_text().strip() == words


PLAIN = f"--chdir=/ --export=PATH={io.PATH} --propagate=NONE"
HELD = f"--nodelist=n1 --nodes=1 --exclusive --no-requeue {PLAIN} --job-name=gdr --output=/dev/null"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        pytest.param({"partition": ""}, "", id="default"),
        pytest.param({"partition": "p"}, " --partition=p", id="partition"),
        pytest.param({"partition": "", "reservation": "r"}, " --reservation=r", id="reservation"),
    ],
)
def test_a_job_holds_a_whole_node(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: dict[str, str], words: str
) -> None:
    answer(monkeypatch, tmp_path, f'#!/bin/sh\necho "$*" >{tmp_path}/done\necho "12;cluster"\n')
    assert Slurm().hold("n1", "gdr", 60, **more) == "12"
    told = (tmp_path / "done").read_text().strip()
    assert told == f"{HELD} --parsable{words} --wrap=exec sleep 60"


def test_a_job_without_a_number_is_no_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer(monkeypatch, tmp_path, "#!/bin/sh\necho Submitted batch job 12\n")
    with pytest.raises(SlurmError, match="did not say which job it made: 'Submitted batch job 12'"):
        Slurm().hold("n1", "gdr", 60, partition="")


def test_a_step_runs_in_our_job_as_a_shell_would() -> None:
    words = step("12", "n1", "true")
    assert words[-3:] == ["sh", "-c", "true"]
    head = "srun --jobid=12 --overlap --nodes=1 --ntasks=1 --nodelist=n1 --mpi=none --unbuffered"
    assert " ".join(words[:-3]) == f"{head} --quiet {PLAIN}"


def test_no_setting_of_a_job_that_we_are_part_of_is_handed_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_CONF", "SLURM_TIME_FORMAT", "LC_ALL"):
        monkeypatch.setenv(name, "theirs")
    for name in ("SLURM_JWT", "SLURM_CONF_SERVER"):
        monkeypatch.delenv(name, raising=False)
    told = settings()
    slurms = {key: value for key, value in told.items() if key.startswith("SLURM_")}
    assert slurms == {"SLURM_CONF": "theirs", "SLURM_TIME_FORMAT": "standard"}
    assert told["LC_ALL"] == "C"
    assert told["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize(
    ("script", "kind", "said"),
    [
        pytest.param("echo one >&2; echo two >&2; exit 1", SlurmError, "two", id="last-line"),
        pytest.param("echo out; exit 1", SlurmError, "out", id="on-stdout"),
        pytest.param("exit 1", SlurmError, "it does not say why", id="silent"),
        pytest.param("echo Invalid user id >&2; exit 1", NoRight, "", id="no-right"),
        pytest.param("echo Access/permission denied >&2; exit 1", NoRight, "", id="denied"),
    ],
)
def test_a_refusal_is_told_in_slurms_own_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, kind: type[SlurmError], said: str
) -> None:
    answer(monkeypatch, tmp_path, f"#!/bin/sh\n{script}\n")
    with pytest.raises(SlurmError) as caught:
        Slurm().config()
    assert type(caught.value) is kind
    assert said in str(caught.value)
    assert "scontrol show" in str(caught.value)


def test_a_command_that_is_not_here_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="and scontrol is not here") as caught:
        Slurm().config()
    assert caught.value.exit_code is ExitCode.USAGE
    (tmp_path / "scontrol").write_text("")
    (tmp_path / "scontrol").chmod(0o755)
    with pytest.raises(UsageError, match="scontrol cannot be started: Exec format error"):
        Slurm().config()


def test_an_answer_that_does_not_come_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer(monkeypatch, tmp_path, "#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(io, "_LIMIT_S", 0.1)
    with pytest.raises(SlurmError, match=r"scontrol show config: no answer within 0\.1 s"):
        Slurm().config()


def test_files_that_slurm_conf_includes_stand_in_their_place_three_deep(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("A=1\n Include  more/b.conf\nInclude gone.conf\nZ=1")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.conf").write_text("B=1\ninclude c.conf")
    (tmp_path / "more" / "c.conf").write_text("C=1\ninclude c.conf")
    assert Slurm().config_file(str(conf)).split("\n") == [
        *("A=1", "B=1", "C=1", "C=1", "include c.conf", "", "Z=1")
    ]
    assert Slurm().config_file(str(tmp_path / "none.conf")) == ""
