"""What the probe keeps of a kernel log, and that reading boot variables makes no file."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.checks.rows import ROWS
from tests.evidence.build import node
from tests.evidence.frames import Override
from tests.evidence.judging import Row, name
from toolkit.checks.all import BY_ID
from toolkit.evidence import Evidence, State
from toolkit.facts.boot.next_boot import parse_boot_entries
from toolkit.facts.node.node import Node
from toolkit.node.collect import probe_script

pytestmark = pytest.mark.shell

SHELLS = ("dash", "busybox", "bash")
LOGS = [row for row in ROWS if isinstance(row.frames.get("dmesg"), str)]
CHATTER = "[  812.441093] docker0: port 1(veth1f2a) entered forwarding state\n"
TELLING = "[  913.000001] NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n"


def probed(root: Path, commands: Mapping[str, str], shell: str = "dash") -> Evidence:
    """The evidence of a tree that has these commands alone."""
    tools = root / "bin"
    tools.mkdir(exist_ok=True)
    for command, text in commands.items():
        (tools / command).write_text(f"#!/bin/sh\n{text}\n")
        (tools / command).chmod(0o755)
    words = {"busybox": ["busybox", "sh", "-s"]}.get(shell, [shell, "-s"])
    done = subprocess.run(
        (shutil.which(words[0]) or words[0], *words[1:]),
        input=probe_script(),
        env={"GDR_ROOT": str(root), "GDR_BIN": str(tools), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return Evidence.parse(done.stdout)


def logged(root: Path, log: str, shell: str = "dash") -> str:
    (root / "log").write_text(log)
    evidence = probed(root, {"dmesg": f'cat "{root}/log"'}, shell)
    assert evidence.complete
    return evidence.frame("dmesg").text


@pytest.mark.parametrize("shell", SHELLS)
def test_of_a_long_log_the_lines_that_may_concern_us_are_kept(shell: str, tmp_path: Path) -> None:
    log = CHATTER * 4000 + TELLING + CHATTER
    assert logged(tmp_path, log, shell) == TELLING + CHATTER


def test_that_a_bar_found_its_place_in_the_end_is_kept(tmp_path: Path) -> None:
    log = (
        "[    1.9] pci 0000:18:00.0: BAR 1: no space for [mem size 0x2000000000 64bit pref]\n"
        "[    2.0] pci 0000:18:00.0: BAR 1: assigned [mem 0x20000000000-0x21fffffffff 64bit pref]\n"
    )
    assert logged(tmp_path, log + CHATTER) == log + CHATTER


def test_a_log_of_which_nothing_concerns_us_does_not_seem_empty(tmp_path: Path) -> None:
    assert logged(tmp_path, CHATTER * 4000) == CHATTER


def test_a_flood_of_them_leaves_the_newest(tmp_path: Path) -> None:
    newest = TELLING.replace("913", "914")
    kept = logged(tmp_path, TELLING * 5000 + newest).splitlines(keepends=True)
    assert (len(kept), kept[-1]) == (2000, newest)


def test_why_a_log_was_refused_is_told(tmp_path: Path) -> None:
    said = "dmesg: read kernel buffer failed: Operation not permitted"
    frame = probed(tmp_path, {"dmesg": f"echo '{said}' >&2; exit 1"}).frame("dmesg")
    assert (frame.state, frame.exit, frame.text) == (State.FAILED, 1, f"{said}\n")


def test_an_empty_log_is_empty(tmp_path: Path) -> None:
    frame = probed(tmp_path, {"dmesg": "true"}).frame("dmesg")
    assert (frame.state, frame.text) == (State.OK, "")


@pytest.mark.parametrize("row", LOGS, ids=name)
def test_no_judgement_rests_on_a_line_that_is_left_out(row: Row, tmp_path: Path) -> None:
    log = row.frames["dmesg"]
    assert isinstance(log, str)
    kept: dict[str, Override] = {**row.frames, "dmesg": logged(tmp_path, log)}
    judged = BY_ID[row.check](Node(node(kept, board=row.board)), row.want).finding
    assert (judged.status, row.found in judged.found) == (row.status, True)


def editor(root: Path) -> dict[str, str]:
    """As the real one: it makes the file where there is none."""
    file = root / "boot/grub/grubenv"
    return {"grub-editenv": f'[ -e "{file}" ] || : >"{file}"; cat "{file}"'}


@pytest.mark.parametrize("shell", SHELLS)
def test_grub_variables_that_were_never_set_are_none_and_no_file_is_made(
    shell: str, tmp_path: Path
) -> None:
    (tmp_path / "boot/grub").mkdir(parents=True)
    frame = probed(tmp_path, editor(tmp_path), shell).frame("grub-env")
    assert (frame.state, frame.text) == (State.OK, "")
    assert list((tmp_path / "boot/grub").iterdir()) == []


def test_grub_variables_are_what_its_own_tool_says(tmp_path: Path) -> None:
    (tmp_path / "boot/grub").mkdir(parents=True)
    (tmp_path / "boot/grub/grubenv").write_text("saved_entry=1>2\n")
    frame = probed(tmp_path, editor(tmp_path)).frame("grub-env")
    assert (frame.source, frame.text) == ("grub-editenv list", "saved_entry=1>2\n")


def test_without_grub_there_are_no_variables_to_know(tmp_path: Path) -> None:
    assert probed(tmp_path, {}).frame("grub-env").state is State.ABSENT
    assert probed(tmp_path, editor(tmp_path)).frame("grub-env").state is State.ABSENT


def test_how_long_grub_waits_is_read_as_ubuntu_writes_it(tmp_path: Path) -> None:
    (tmp_path / "boot/grub").mkdir(parents=True)
    (tmp_path / "boot/grub/grub.cfg").write_text(
        'function recordfail {\n  set recordfail=1\n  if [ -n "${have_grubenv}" ]; then if '
        '[ -z "${boot_once}" ]; then save_env recordfail; fi; fi\n}\n'
        'if [ "${recordfail}" = 1 ] ; then\n  set timeout=-1\nelse\n'
        "  if [ x$feature_timeout_style = xy ] ; then\n    set timeout_style=hidden\n"
        "    set timeout=0\n  else\n    set timeout=0\n  fi\nfi\n"
    )
    menu = parse_boot_entries(probed(tmp_path, {}).frame("boot-entries").text)
    assert (menu.waits, menu.waits_after_failure) == (False, True)
