"""Runs tiers, one step after another, with the terminal left to them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dev import tally
from dev.tiers import Ended, Ending, Step, Tier, closing, command, ending, succeeded
from dev.tools import in_ci, missing, sentence
from toolkit.errors import ExitCode, ToolkitError

ROOT = Path(__file__).resolve().parent.parent
MARK = "gdr.root"  # in what lies outside of git: the checkout that made it
SHEBANGS = ("#!/bin/sh", "#!/usr/bin/env bash")
_NOT_OURS = {"build", "dist", "__pycache__"}
_MANY_WORDS = 16
MEMORY = Path("/dev/shm")  # noqa: S108 the system's own file system in memory
_SPARE = 4 << 30  # bytes that must be free where tests write to memory; they write a tenth of it


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def place(tier: Tier) -> dict[str, str]:
    """The variable that has a tier's tests write to memory, where there is plenty of it.

    ext4 passes over what was deleted within the last minute: where tests make and delete trees
    of nodes, a fifth of their time goes into finding a free inode.
    """
    if tier.disk or "TMPDIR" in os.environ:
        return {}
    try:
        free = os.statvfs(MEMORY)
        [kib] = re.findall(r"^MemAvailable: +(\d+)", Path("/proc/meminfo").read_text(), re.M)
    except (OSError, ValueError):
        return {}
    enough = min(free.f_bavail * free.f_frsize, int(kib) << 10) >= _SPARE
    return {"TMPDIR": str(MEMORY)} if enough and os.access(MEMORY, os.W_OK) else {}


def scripts(root: Path = ROOT) -> tuple[str, ...]:
    """Every shell script of the project, by its first line or its suffix, sorted."""
    return tuple(sorted(str(file.relative_to(root)) for file in files(root) if _is_shell(file)))


def files(root: Path = ROOT) -> Iterator[Path]:
    """The project's own files: no environments, caches or build outputs."""
    for folder, folders, names in os.walk(root):
        folders[:] = [
            each for each in folders if each == ".ci" or not (each[0] == "." or each in _NOT_OURS)
        ]
        # In a second work tree .git is a file, which holds a path of the machine.
        yield from (Path(folder, name) for name in names if name != ".git")


def _is_shell(file: Path) -> bool:
    if file.suffix == ".sh":
        return True
    with file.open("rb") as text:
        return text.readline(80).decode("utf-8", "replace").strip() in SHEBANGS


def provide() -> None:
    """Have invokew put the development packages into the environment that it made.

    Whoever runs us from an environment of their own sees to its packages themselves.

    :raises ToolkitError: when they cannot be installed; invokew has said why.
    """
    if not (Path(sys.prefix) / MARK).exists():
        return
    done = subprocess.run(
        [str(ROOT / "invokew"), "--version"],
        env=os.environ | {"GDR_DEV": "1"},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        raise ToolkitError(
            "the development packages are not there", hint="see above for what invokew said"
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run was asked for beside its tiers."""

    keyword: str = ""  # pytest's -k
    jobs: int = 1  # tests at once
    quick: bool = False  # without the exhaustive part
    dry: bool = False


def in_order(
    tiers: tuple[Tier, ...], asked: Asked | None = None, *, beside: tuple[str, ...] = ()
) -> ExitCode:
    """Run the tiers and say how each of their steps ended; OK only if all that ran passed.

    :param beside: lines about what was not asked for, to be said near the end.
    """
    asked = asked or Asked()
    if not asked.dry:
        provide()
    began = time.monotonic()
    ended = tuple(_each(tiers, asked))
    if asked.dry:
        say("\n".join(("", *beside, "nothing was run: --dry")))
        return ExitCode.OK
    told = closing(ended, time.monotonic() - began)
    good = succeeded(ended, strict=in_ci())
    say("\n".join(("", told, *beside, "all passed" if good else "not all passed")))
    return ExitCode.OK if good else ExitCode.FAILED


def commands(lines: tuple[tuple[str, ...], ...], *, dry: bool = False) -> ExitCode:
    """Run commands in the project's folder until one fails."""
    for words in lines:
        say(f"-- {_shown(words)}")
        if not dry and subprocess.run(words, cwd=ROOT, check=False).returncode:
            return ExitCode.FAILED
    return ExitCode.OK


def benchmarks(hosts: int, rounds: int) -> tuple[tuple[str, ...], ...]:
    """The benchmarks, one command each; what they print are ratios within a round."""
    bench = (sys.executable, "-m")
    return (
        (*bench, "tests.bench.probe", "--rounds", str(rounds)),
        (*bench, "tests.bench.judge"),
        (*bench, "tests.bench.compare"),
        (*bench, "tests.bench.doctor", "--hosts", str(hosts), "--rounds", str(rounds)),
    )


def _each(tiers: tuple[Tier, ...], asked: Asked) -> Iterator[Ended]:
    """In the order of the tiers; those that mostly wait run beside the others meanwhile."""
    waiting = [tier for tier in tiers if tier.waits and asked.jobs > 1 and not asked.dry]
    if len(waiting) == len(tiers):
        waiting = []  # beside nothing
    here: dict[Tier, tuple[Ended, ...]] = {}
    with ThreadPoolExecutor(1) as lane:
        beside = {tier: lane.submit(_tier, tier, asked, beside=True) for tier in waiting}
        try:
            for tier in (each for each in tiers if each not in beside):
                if tier.alone:
                    wait(beside.values())
                here[tier] = _tier(tier, asked)
        except BaseException:
            lane.shutdown(wait=False, cancel_futures=True)
            raise
    for tier in tiers:
        yield from here[tier] if tier in here else beside[tier].result()


def _tier(tier: Tier, asked: Asked, *, beside: bool = False) -> tuple[Ended, ...]:
    say(f"\n== {tier.name}: {tier.shows}" + "; beside the others, and told at its end" * beside)
    workers = asked.jobs if tier.together else 1
    one = partial(_step, tier, asked=asked, held=beside or workers > 1)
    with ThreadPoolExecutor(workers) as pool:
        return tuple(pool.map(one, tier.steps))


def _step(tier: Tier, step: Step, *, asked: Asked, held: bool) -> Ended:
    lacks = missing(step.needs)
    if lacks:
        say(f"-- {step.title}: not run: {sentence(lacks)}")
        return Ended(tier.name, step, Ending.NOT_RUN, sentence(lacks))
    words = command(step, keyword=asked.keyword, jobs=asked.jobs, quick=asked.quick)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder, "tally")
        given = {tally.FILE: str(counts), **place(tier)}
        status, spent = _status(words, given, dry=asked.dry, held=held)
        counted = tally.read(counts)
    came = ending(step, status, keyword=asked.keyword)
    return Ended(tier.name, step, came, "", time.monotonic() - began, counted, spent)


def _status(
    words: tuple[str, ...], given: dict[str, str], *, dry: bool, held: bool
) -> tuple[int, float]:
    """The exit status of a command, and its seconds of processor.

    One of several at once prints what it has when it ends.
    """
    if dry or not held:
        say(f"-- {_shown(words)}")
    if dry:
        return 0, 0.0
    environment = os.environ | given
    # A dozen steps import all of us: what is compiled once is read by the others.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    pipe = subprocess.PIPE if held else None
    with subprocess.Popen(
        words,
        cwd=ROOT,
        env=environment,
        stdout=pipe,
        stderr=subprocess.STDOUT if held else None,
        text=True,
    ) as child:
        said = child.stdout.read() if child.stdout else ""
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if held:
        say(f"-- {_shown(words)}\n{said}".rstrip())
    return child.returncode, used.ru_utime + used.ru_stime


def _shown(words: tuple[str, ...]) -> str:
    """The command as one would type it; a long list of files is only counted."""
    plain = ["python" if word == sys.executable else word for word in words]
    many = len(plain) > _MANY_WORDS
    return shlex.join(plain[:_MANY_WORDS]) + f" ... ({len(plain)} words)" * many
