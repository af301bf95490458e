"""Captures as people paste them: quoted, fenced, behind a prompt. What is right stays right."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from itertools import product

import pytest

from tests.corpus.expected import EXPECTED
from tests.corpus.known import CORPUS
from tests.corpus.table import TODAY, against, held, word_of
from tests.laws import sample
from toolkit.checks.judged import Judged, judge_node
from toolkit.errors import ToolkitError
from toolkit.facts.text.pasted_logs import evidence_of, frames_of
from toolkit.verbs.pasted_logs import decoded
from toolkit.want import Want

# What prints a kind, as it is typed; of the others nobody pastes the command.
LONG = True
TYPED = {
    "nvidia-topology": "nvidia-smi topo -m",
    "nvidia-smi-q": "nvidia-smi -q",
    "lspci": "lspci -vvv",
    "dmesg": "dmesg",
    "dkms-status": "dkms status",
    "ibstat": "ibstat",
    "ibv-devinfo": "ibv_devinfo",
    "ibdev2netdev": "ibdev2netdev",
    "lsmod": "lsmod",
    "gdscheck": "gdscheck -p",
    "nvlink-status": "nvidia-smi nvlink -s",
}
PROMPTS = ("root@gpu01:~# ", "[root@gpu01 ~]# ", "$ ", "gpu01:~ # ", "(base) me@gpu01:~$ ", "# ",
           "bash-5.1# ", "+ ", "=== ")  # fmt: skip


def quoted(text: str) -> str:
    return "".join(f"> {line}\n" for line in text.rstrip("\n").split("\n"))


def each_line(text: str, before: str) -> str:
    """:param before: with the number of the line as N."""
    lines = text.rstrip("\n").split("\n")
    return "".join(f"{before.format(N=at)}{line}\n" for at, line in enumerate(lines, start=1))


DRESSES: dict[str, Callable[[str], str]] = {
    "quoted": quoted,
    "quoted-twice": lambda text: quoted(quoted(text)),
    "quoted-in-a-mail": lambda text: f"On Monday I wrote:\n{quoted(text)}\nRegards\n",
    "fenced": lambda text: f"```console\n{text.rstrip()}\n```\n",
    "windows": lambda text: text.replace("\n", "\r\n"),
    "mac": lambda text: text.replace("\n", "\r\r\n"),
    "colours": lambda text: f"\x1b[0m{text}".replace("\n", "\x1b[0m\n\x1b[1;32m"),
    "colours-shown": lambda text: f"^[[0m{text}".replace("\n", "^[[0m\n^[[1;32m"),
    "typographic": lambda text: text.replace("'", "\u2019").replace('"', "\u201d"),
    "numbered": lambda text: each_line(text, "{N:6}\t"),
    "of-a-kubelet": lambda text: each_line(text, "2026-11-28T10:00:00.{N:09}Z stdout F "),
    "barred": lambda text: each_line(text, "| "),
    "indented-code": lambda text: f"It says:\n\n{each_line(text, '    ')}\nThat is all.\n",
    "fenced-among-prose": lambda text: f"It says:\n```\n{text.rstrip()}\n```\nThat is all.\n",
    "glued-fence": lambda text: f"```{text.rstrip()}```\n",
    "source-of-a-page": lambda text: escape(text).replace("'", "&#39;"),
    "string-of-a-program": lambda text: repr(text) if "\\" not in text else text,
    "quoted-windows": lambda text: quoted(text).replace("\n", "\r\n"),
}
READ = [file for file, case in EXPECTED.items() if not case.refused]


def text_of(file: str) -> str:
    return decoded((CORPUS / file).read_bytes())


def as_told(text: str) -> Judged | ToolkitError:
    try:
        return judge_node("x", evidence_of(frames_of(text, "x.txt")), Want(), TODAY)
    except ToolkitError as why:
        return why


def stays(file: str, text: str) -> None:
    was = held(file, EXPECTED[file])
    now = as_told(text)
    assert isinstance(now, Judged), now
    assert against(file, EXPECTED[file], now, word_of(file)).right is was.right


@pytest.mark.parametrize(("file", "dress"), sample([*product(READ, DRESSES)], "dressed"))
def test_a_capture_stays_right_in_another_dress(file: str, dress: str) -> None:
    stays(file, DRESSES[dress](text_of(file)))


def commands() -> list[tuple[str, str]]:
    found = []
    for file in READ:
        frames = frames_of(text_of(file), "x.txt")
        if len(frames) == 1 and "," not in frames[0].source and frames[0].key in TYPED:
            found.append((file, TYPED[frames[0].key]))
    return found


@pytest.mark.parametrize(
    ("file", "command", "prompt"),
    sample([(*each, prompt) for each, prompt in product(commands(), PROMPTS)], "behind"),
)
def test_a_capture_stays_right_behind_its_command(file: str, command: str, prompt: str) -> None:
    """Another answer stands before it, as in a file of two commands."""
    end = " ===" if prompt == "=== " else ""
    first = f"{prompt}mokutil --sb-state{end}\nSecureBoot disabled\n\n"
    text = f"{first}{prompt}{command}{end}\n{text_of(file)}"
    assert {each.key for each in frames_of(text, "x.txt")} >= {"mokutil"}
    kind = frames_of(text_of(file), "x.txt")[0].key
    (frame,) = (each for each in frames_of(text, "x.txt") if each.key == kind)
    assert frame.text.strip() == frames_of(text_of(file), "x.txt")[0].text.strip()
