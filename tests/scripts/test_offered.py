"""What a node's repositories have of packages, as each package manager tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.engine import SHELLS
from tests.scripts.shells import say
from toolkit.evidence import Evidence, State
from toolkit.node.scripts import assembled

pytestmark = pytest.mark.shell

APT = """\
linux-image-6.8.0-90-generic | 6.8.0-90.91 | http://archive noble-updates/main amd64 Packages
     linux-image-6.8.0-90-generic |  6.8.0-90.90 | http://archive noble/main amd64 Packages
"""
DNF = "\nkernel 5.14.0-570.62.1.el9_6\n\n"
ZYPPER = """\

S | Name           | Type    | Version           | Arch   | Repository
--+----------------+---------+-------------------+--------+-----------
v | kernel-default | package | 6.4.0-150600.23.7 | x86_64 | SLE-Module
"""


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return SHELLS[request.param]


@pytest.mark.parametrize(
    ("tool", "said", "told"),
    [
        pytest.param(
            "apt-cache", APT,
            [f"linux-image-6.8.0-90-generic 6.8.0-90.{last}" for last in (91, 90)],
            id="apt",
        ),
        pytest.param("dnf", DNF, ["kernel 5.14.0-570.62.1.el9_6"], id="dnf"),
        pytest.param("zypper", ZYPPER, ["kernel-default 6.4.0-150600.23.7"], id="zypper"),
    ],
)  # fmt: skip
def test_each_package_manager_is_asked_for_all_names_at_once(
    shell: tuple[str, ...], tmp_path: Path, tool: str, said: str, told: list[str]
) -> None:
    (tmp_path / "said").write_text(said)
    command = tmp_path / "bin" / tool
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\ncat {tmp_path}/said\n')
    command.chmod(0o755)
    script = assembled(("frames.sh", "offered.sh"), "offered one two")
    around = {"GDR_ROOT": str(tmp_path), "GDR_BIN": str(tmp_path / "bin")}
    frame = Evidence.parse(say(shell, script, **around).stdout).frame("packages")
    assert frame.text.split("\n")[:-1] == ["asked one", "asked two", *told]
    assert (tmp_path / "asked").read_text().endswith(" one two\n")
    command.unlink()
    frame = Evidence.parse(say(shell, script, **around).stdout).frame("packages")
    assert frame.state is State.ABSENT
