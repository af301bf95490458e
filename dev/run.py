"""Runs tiers, one step after another, with the terminal left to them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from dev.tiers import (
    Ended,
    Ending,
    Step,
    Tier,
    closing,
    command,
    ending,
    memory,
    once_more,
    second,
    succeeded,
)
from dev.tools import in_ci, missing, sentence
from toolkit.errors import ExitCode, ToolkitError

ROOT = Path(__file__).resolve().parent.parent
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
    if not (Path(sys.prefix) / "gdr.root").exists():
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


def in_order(
    tiers: tuple[Tier, ...], *, keyword: str = "", jobs: int = 1, dry: bool = False
) -> ExitCode:
    """Run the tiers and say how each of their steps ended; OK only if all that ran passed."""
    provide()
    ended = tuple(_each(tiers, keyword=keyword, jobs=jobs, dry=dry))
    say("\n" + closing(ended))
    return ExitCode.OK if succeeded(ended, strict=in_ci()) else ExitCode.FAILED


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


def _each(tiers: tuple[Tier, ...], *, keyword: str, jobs: int, dry: bool) -> Iterator[Ended]:
    for tier in tiers:
        say(f"\n== {tier.name}: {tier.shows}")
        for step in tier.steps:
            lacks = missing(step.needs)
            if lacks:
                say(f"-- {step.title}: not run: {sentence(lacks)}")
                yield Ended(tier.name, step, Ending.NOT_RUN, sentence(lacks))
                continue
            if not dry:
                shutil.rmtree(ROOT / memory(step), ignore_errors=True)
            status = _status(command(step, keyword=keyword, jobs=jobs), dry=dry)
            failed = _failed(step) if status else ()
            if once_more(step, status, failed) and _passes(second(step, failed)):
                yield Ended(tier.name, step, Ending.UNSTEADY, ", ".join(failed))
                continue
            yield Ended(tier.name, step, ending(step, status, keyword=keyword))


def _status(words: tuple[str, ...], *, dry: bool) -> int:
    say(f"-- {_shown(words)}")
    return 0 if dry else subprocess.run(words, cwd=ROOT, check=False).returncode


def _passes(words: tuple[str, ...]) -> bool:
    say("-- what failed is run once more, alone; what passes then is named at the end")
    return not _status(words, dry=False)


def _failed(step: Step) -> tuple[str, ...]:
    """The tests of a step that failed, as pytest noted them; none where it noted nothing."""
    try:
        noted = json.loads((ROOT / memory(step) / "v/cache/lastfailed").read_text())
    except (OSError, ValueError):
        return ()
    return tuple(sorted(noted))


def _shown(words: tuple[str, ...]) -> str:
    """The command as one would type it; a long list of files is only counted."""
    plain = ["python" if word == sys.executable else word for word in words]
    many = len(plain) > _MANY_WORDS
    return shlex.join(plain[:_MANY_WORDS]) + f" ... ({len(plain)} words)" * many
