"""Boxes of ours without Vagrant: booted by QEMU as the Vagrantfile would, reached as Vagrant would.

Whoever has a box logs in as the user vagrant by the key that it brings along, and is root by sudo.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from dev.lab.box import login
from dev.lab.machine import Done, Guest, factor
from dev.lab.qemu import Spec, _numa
from dev.run import ROOT

RUN = (sys.executable, "-m", "pytest", "-p", "gdr_toolkit.pytest_plugin")
SUITE_S = 120
# Its PCI tree is in its own initramfs; the board must have the two nodes of memory that it names.
BOARD = Spec(extra=_numa(Spec(), 2))


@dataclass(slots=True)
class Boxed(Guest):
    """A machine of a box."""

    def run(self, script: str, *, check: bool = True, limit_s: float = 60, text: str = "") -> Done:
        """The same as root, which takes sudo there."""
        words = f"sudo -n sh -c {shlex.quote(script)}"
        return Guest.run(self, words, check=check, limit_s=limit_s, text=text)

    def _write_ssh_files(self) -> None:
        self.ssh_config.write_text(
            f"Host {self.name}\n"
            f"  HostName 127.0.0.1\n  Port {self.port}\n  User vagrant\n"
            f"  IdentityFile {login()}\n  IdentitiesOnly yes\n"
            "  StrictHostKeyChecking accept-new\n"  # it made its key when it booted first
            f"  UserKnownHostsFile {self.folder / 'known_hosts'}\n"
            "  GlobalKnownHostsFile /dev/null\n  ConnectTimeout 60\n  LogLevel ERROR\n"
        )


@dataclass(frozen=True, slots=True)
class Cases:
    """What came of the suites: ids of checks, and names of tests that ask in other words."""

    passed: frozenset[str]
    failed: frozenset[str]
    skipped: dict[str, str]  # and why
    said: str


def suites(guest: Guest, profile: str, *more: str) -> Cases:
    """``pytest --pyargs toolkit.suites`` against a machine."""
    report = guest.folder / "cases.xml"
    reach = ("--hosts", guest.name, "--ssh-config", str(guest.ssh_config))
    words = ("-p", "no:cacheprovider", "-q", f"--junitxml={report}", f"--gdr-profile={profile}")
    done = subprocess.run(
        (*RUN, "--pyargs", "toolkit.suites", *reach, *words, *more),
        cwd=ROOT,
        env=os.environ | {"GDR_PATIENCE": str(factor())},
        capture_output=True,
        text=True,
        timeout=SUITE_S * factor(),
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    return read(report, done.stdout)


def read(report: Path, said: str = "") -> Cases:
    """A JUnit file of the suites, of one host."""
    ended: dict[str, list[str]] = {}
    skipped = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("name", "")
        inside = re.search(r"\[[a-z]+://[\w-]+-([a-z]\w*\.[\w.]+)\]$", name)
        ident = inside[1] if inside else name.partition("[")[0]
        tags = {each.tag: each.get("message", "") for each in case}
        word = next((tag for tag in ("error", "failure", "skipped") if tag in tags), "passed")
        ended.setdefault(word, []).append(ident)
        if word == "skipped":
            skipped[ident] = tags["skipped"]
    failed = frozenset(ended.get("failure", []) + ended.get("error", []))
    return Cases(frozenset(ended.get("passed", [])), failed, skipped, said)
