"""ACS as a booted guest's config space has it, for tests.

The tree is that of two sockets: on each switch the ports of GPU and HCA are on the path, a third
port and the root ports are not. Before any of ours the kernel has redirection on at all of them.
"""

from __future__ import annotations

import re

from dev.lab.machine import Guest
from tests.machine.pool import Ran
from tests.machine.specs import GPU_PORT, HCA_PORT

ON_PATH = (GPU_PORT, HCA_PORT, "0001:82:00.0", "0001:82:01.0")
PATHS = tuple(f"0001:{bus}:01.0/00.0/{port}.0" for bus in (10, 80) for port in ("00", "01"))
BARE = 'role = "bare-metal"\n'


def spaces(guest: Guest) -> dict[str, str]:
    """The config space of every function, in hexadecimal; what the link's status holds apart."""
    said = guest.run(
        "cd /sys/bus/pci/devices && for each in 0001:*; do"
        """ echo "$each $(od -An -v -tx1 $each/config | tr -d ' \\n')"; done"""
    ).out
    return dict(line.split(" ") for line in said.split("\n") if line)


def control(space: str) -> int:
    """The ACS control register, which the table puts at 14Eh; -1 without the capability."""
    data = bytes.fromhex(space)
    return int.from_bytes(data[0x14E:0x150], "little") if data[0x148] == 0x0D else -1


def without_acs(space: str) -> str:
    return space[: 2 * 0x14E] + space[2 * 0x150 :]


def assert_off_on_the_path_alone(before: dict[str, str], now: dict[str, str], left: int) -> None:
    """``left`` is what the path's control registers hold."""
    assert {each: control(now[each]) for each in ON_PATH} == dict.fromkeys(ON_PATH, left)
    others = before.keys() - set(ON_PATH)
    assert {each: control(now[each]) for each in others} == {
        each: control(before[each]) for each in others
    }
    assert before.keys() == now.keys()


def assert_well(ran: Ran) -> None:
    """What was said after the changes: nothing about ACS fails, and nothing was blocked."""
    after = ran.out.partition("\nafter\n")[2]
    assert after, ran.out + ran.err
    assert not re.search(r"^error: ", ran.out + ran.err, re.MULTILINE), ran.out + ran.err
    assert not re.search(r"^(fail|unknown) +acs\.", after, re.MULTILINE), after
    assert "blocked   acs." not in ran.out, ran.out


def assert_argued(guest: Guest, before: dict[str, str], word: str, said: str) -> None:
    """The kernel did it at this boot because of ``word``, to these ports, and changed nothing else.

    :param said: how its log begins to tell of a port.
    """
    assert word in guest.cmdline.split(" ")
    now = spaces(guest)
    assert_off_on_the_path_alone(before, now, 0x11)
    assert {each: without_acs(now[each]) for each in now} == {
        each: without_acs(before[each]) for each in before
    }, "all else in config space is as it was, bit by bit"
    named = re.findall(rf"pci (\S+): {said}", guest.run("dmesg").out)
    assert sorted(named) == sorted(ON_PATH)
