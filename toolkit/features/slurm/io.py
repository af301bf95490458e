"""Slurm's own commands, called as its administrator would; what they print is read elsewhere."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from toolkit.errors import TransportError, UsageError
from toolkit.ssh.local import answer

_LIMIT_S = 60.0  # a controller that is busy with a wave of jobs answers late
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT")  # of the settings, whoever calls us
# Nothing of the controller's own environment or limits is carried to a node: what is read
# there must be the node's. slurmd's limits are what its jobs get.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PLAIN = ("--chdir=/", f"--export=PATH={PATH}", "--propagate=NONE")
_RESERVED_MIN = 1440  # minutes after which a reservation of a run that died is over


class SlurmError(TransportError):
    """Slurm cannot be asked, or refuses; what was asked of it was not done."""


class NoRight(SlurmError):
    """Only Slurm's administrators and operators may do that; nothing was done."""


def settings() -> dict[str, str]:
    """The environment for Slurm's commands: no job's that we may be part of, plain words."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")}
    kept = {key: os.environ[key] for key in _KEPT if key in os.environ}
    # As SLURM_TIME_FORMAT has it when it is not set; a site's profile may have set it.
    return own | kept | {"LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}


class Slurm:
    """The commands; each raises SlurmError with the command's own last words."""

    def nodes(self, names: str = "") -> str:
        """``scontrol show node``, one line a node.

        :param names: a host list; "" for all nodes.
        """
        return _ask("scontrol", "show", "--oneliner", "node", *([names] if names else []))

    def config(self) -> str:
        """``scontrol show config``."""
        return _ask("scontrol", "show", "config")

    def config_file(self, path: str) -> str:
        """The text of slurm.conf, and of the files that it includes; "" where it is not here."""
        return _included(Path(path), depth=0)

    def jobs(self, form: str, *, node: str = "", name: str = "") -> str:
        """``squeue`` in the given format: of a node, or of a name, in all states."""
        words = ["--noheader", "--states=all" if name else "--states=running,completing"]
        words += [f"--nodelist={node}"] if node else []
        words += [f"--name={name}"] if name else []
        return _ask("squeue", *words, f"--format={form}")

    def drain(self, node: str, reason: str) -> None:
        """No further job; those that run go on. A reason that is there is replaced."""
        _ask("scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}")

    def resume(self, node: str) -> None:
        """Back to service; its reason is gone."""
        _ask("scontrol", "update", f"nodename={node}", "state=resume")

    def reboot(self, node: str, reason: str) -> None:
        """Have slurmd call RebootProgram once no job runs; a drain stays, see docs/slurm.md."""
        _ask("scontrol", "reboot", f"reason={reason}", node)

    def reserve(self, name: str, node: str, user: str) -> None:
        """Keep a node for one user's jobs, from now on."""
        words = (f"reservationname={name}", "starttime=now", f"duration={_RESERVED_MIN}")
        flags = "flags=maint,ignore_jobs"  # maint: also where a reservation of others is
        _ask("scontrol", "create", "reservation", *words, f"users={user}", f"nodes={node}", flags)

    def reservations(self) -> str:
        """``scontrol show reservation``, one line each."""
        return _ask("scontrol", "show", "--oneliner", "reservation")

    def unreserve(self, name: str) -> None:
        """End a reservation."""
        _ask("scontrol", "delete", f"reservation={name}")

    def hold(
        self, node: str, name: str, seconds: int, *, partition: str, reservation: str = ""
    ) -> str:
        """Submit a job that takes the whole node and sleeps so long; its id.

        :param reservation: of ours; then it may start beside nobody, and as long as that lasts.
        """
        words = [f"--nodelist={node}", "--nodes=1", "--exclusive", "--no-requeue", *_PLAIN]
        words += [f"--job-name={name}", "--output=/dev/null", "--parsable"]
        words += [f"--partition={partition}"] if partition else []
        words += [f"--reservation={reservation}"] if reservation else []
        said = _ask("sbatch", *words, f"--wrap=exec sleep {seconds}")
        job = said.strip().partition(";")[0]  # behind it a cluster's name
        if not job.isdigit():
            raise SlurmError(
                f"sbatch did not say which job it made: {said.strip()[:80]!r}",
                hint="is sbatch wrapped by the site? it should print the job's id",
            )
        return job

    def cancel(self, job: str) -> None:
        """End a job; one that has ended is no trouble."""
        _ask("scancel", "--quiet", job)


def step(job: str, node: str, command: str) -> list[str]:
    """The words that run ``sh -c command`` in a job of ours, with stdin, stdout and stderr."""
    words = ["srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1"]
    words += [f"--nodelist={node}", "--mpi=none", "--unbuffered", "--quiet", *_PLAIN]
    return [*words, "sh", "-c", command]


def _ask(*words: str) -> str:
    try:
        done = answer(words, limit_s=_LIMIT_S, settings=settings())
    except FileNotFoundError:
        raise UsageError(
            f"--via slurm needs Slurm's commands, and {words[0]} is not here",
            hint="apt install slurm-client, or run this where sinfo works",
        ) from None
    except OSError as why:
        raise UsageError(
            f"{words[0]} cannot be started: {why.strerror}",
            hint="is Slurm installed here, and in PATH?",
        ) from why
    except subprocess.TimeoutExpired as why:
        raise SlurmError(
            f"{' '.join(words[:3])}: no answer within {_LIMIT_S:g} s",
            hint="is slurmctld up? scontrol ping",
        ) from why
    if done.returncode != 0:
        raise _refusal(words, (done.stderr or done.stdout).decode("utf-8", "replace"))
    return done.stdout.decode("utf-8", "replace")


def _refusal(words: Sequence[str], said: str) -> SlurmError:
    lines = [line.strip() for line in said.split("\n") if line.strip()]
    shown = " ".join(words[:2])
    last = lines[-1][:300] if lines else "it does not say why"
    if "Invalid user id" in said or "Access/permission denied" in said:
        return NoRight(
            f"{shown}: {last}", hint="run it as SlurmUser, root, or an operator of Slurm's"
        )
    return SlurmError(f"{shown}: {last}", hint=f"try it by hand: {shown}; or: scontrol ping")


def _included(file: Path, depth: int) -> str:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:  # configless, or for others alone: then there are no node sets to be had
        return ""
    lines = []
    for line in text.split("\n"):
        key, _, value = line.strip().partition(" ")
        if key.lower() == "include" and depth < 3:
            line = _included(file.parent / value.strip(), depth + 1)  # noqa: PLW2901 in its place
        lines.append(line)
    return "\n".join(lines)
