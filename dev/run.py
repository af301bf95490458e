"""Runs tiers, one step after another, with the terminal left to them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dev import tally
from dev.tiers import Ended, Ending, Step, Tier, closing, command, ending, groups, succeeded
from dev.tools import in_ci, missing, sentence
from toolkit.errors import ExitCode, ToolkitError

ROOT = Path(__file__).resolve().parent.parent
MARK = "gdr.root"  # in what lies outside of git: the checkout that made it
SHEBANGS = ("#!/bin/sh", "#!/usr/bin/env bash")
_NOT_OURS = {"build", "dist", "__pycache__"}
_MANY_WORDS = 16


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


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
    for group in groups(tiers):
        say("\n" + "\n".join(f"== {tier.name}: {tier.shows}" for tier in group))
        names = [tier.name for tier in group for _ in tier.steps]
        steps = [step for tier in group for step in tier.steps]
        workers = asked.jobs if group[0].together or len(group) > 1 else 1
        one = partial(_step, asked=asked, held=workers > 1)
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(one, names, steps)


def _step(tier: str, step: Step, *, asked: Asked, held: bool) -> Ended:
    lacks = missing(step.needs)
    if lacks:
        say(f"-- {step.title}: not run: {sentence(lacks)}")
        return Ended(tier, step, Ending.NOT_RUN, sentence(lacks))
    words = command(step, keyword=asked.keyword, jobs=asked.jobs, quick=asked.quick)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder, "tally")
        status = _status(words, counts, dry=asked.dry, held=held)
        counted = tally.read(counts)
    came = ending(step, status, keyword=asked.keyword)
    return Ended(tier, step, came, "", time.monotonic() - began, counted)


def _status(words: tuple[str, ...], counts: Path, *, dry: bool, held: bool) -> int:
    """The exit status of a command; one of several at once prints what it has when it ends."""
    if dry or not held:
        say(f"-- {_shown(words)}")
    if dry:
        return 0
    environment = os.environ | {tally.FILE: str(counts)}
    # A dozen steps import all of us: what is compiled once is read by the others.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    pipe = subprocess.PIPE if held else None
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=environment,
        stdout=pipe,
        stderr=subprocess.STDOUT if held else None,
        text=True,
        check=False,
    )
    if held:
        say(f"-- {_shown(words)}\n{done.stdout}".rstrip())
    return done.returncode


def _shown(words: tuple[str, ...]) -> str:
    """The command as one would type it; a long list of files is only counted."""
    plain = ["python" if word == sys.executable else word for word in words]
    many = len(plain) > _MANY_WORDS
    return shlex.join(plain[:_MANY_WORDS]) + f" ... ({len(plain)} words)" * many
