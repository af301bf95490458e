"""Verbs as an operator runs them: a process each, forked from one that has imported them all.

The imports of ``python -m toolkit.cli`` take more than most verbs that a test runs. The server
from which each is forked has one thread and has run nothing, so none finds what another left.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import TextIO, cast

import pytest

from toolkit.cli import main
from toolkit.cli.table import VERBS

ROOT = Path(__file__).parents[1]
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
FORKS = get_context("forkserver")
MODULES = (__name__, *{f"toolkit.{where.rpartition('.')[0]}": None for _, where in VERBS})
FORKS.set_forkserver_preload([*MODULES])


def gdr(
    *words: str,
    state: Path,
    cwd: Path = ROOT,
    timeout_s: float = 300,
    full: bool = False,
    around: Mapping[str, str] | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run ``gdr`` with these words, without input, and with nothing of ours around it.

    :param state: where it keeps what it keeps, as ``XDG_STATE_HOME`` says; its cache is not kept.
    :param full: its standard output is a full disk, and its standard input is closed.
    :param around: what else its environment has.
    :raises subprocess.TimeoutExpired: when it has not ended by then; it is killed.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        first, second = (None, Path("/dev/full")) if full else (Path(os.devnull), out)
        env = {"PATH": PATH, "XDG_STATE_HOME": str(state), "XDG_CACHE_HOME": f"{folder}/cache"}
        env |= {**(around or {}), **environment}
        streams = (first, second, err)
        process = FORKS.Process(target=_child, args=(words, env, cwd, streams))
        process.start()
        process.join(timeout_s)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(words, timeout_s, out.read_bytes(), err.read_bytes())
        return subprocess.CompletedProcess(
            words, process.exitcode, "" if full else out.read_text("utf-8"), err.read_text("utf-8")
        )


def here(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The exit code of ``gdr`` with these words in this process, as a test has patched it."""
    monkeypatch.setattr("sys.argv", ["gdr", *words])
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _child(
    words: tuple[str, ...], env: dict[str, str], cwd: Path, streams: tuple[Path | None, ...]
) -> None:
    """What Python does before ``__main__``, as far as a program can tell.

    :param streams: standard input, output and error; None for a closed one.
    """
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number, file in enumerate(streams):
        if file is None:
            os.close(number)
            continue
        opened = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        if opened != number:
            os.close(opened)
    closed = streams[0] is None
    sys.stdin = cast("TextIO", None) if closed else os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    sys.argv = [str(ROOT / "toolkit/cli/__main__.py"), *words]
    main()
