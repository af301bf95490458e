"""Eight nodes with Soft-RoCE in one guest: real bytes name the slow one, evidence alone the others.

By GDR_NIGHT alone, for it takes five minutes; no boot beside that of test_exercise.py. Each node is
an sshd of its own with its own view of the RDMA devices and of the processes; one kernel carries
all, for rxe speaks in the first network namespace alone. That what goes from one to the other
takes the wire and not the short way, the local table is asked after routes by device; a bridge is
the switch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dev.lab.machine import Guest
from dev.lab.making import ready
from dev.run import ROOT
from tests.machine.pool import Guests, gdr
from tests.machine.test_exercise import BOOTED, _tools

pytestmark = pytest.mark.machine
BOOTS = 0
LONG = True
SCHEMA = json.loads((ROOT / "docs/exercise.schema.json").read_text())
NODES = range(1, 9)
SLOW, SMALL, OTHER = 5, 6, 7  # by netem, by its MTU, by the order of its GIDs
SETUP = f"""set -e
modprobe -a bridge veth sch_netem rdma_rxe
for at in all default; do
    sysctl -qw net.ipv4.conf.$at.accept_local=1 net.ipv4.conf.$at.rp_filter=0 \
        net.ipv4.conf.$at.arp_ignore=1 net.ipv4.conf.$at.arp_announce=2
done
ip link add br0 type bridge && ip link set br0 mtu 4200 up
for i in 1 2 3 4 5 6 7 8; do
    ip link add net$i type veth peer name port$i
    ip link set port$i master br0 mtu 4200 up
    mtu=4200
    if [ $i = {SMALL} ]; then mtu=1500; fi
    ip link set net$i mtu $mtu up
    if [ $i = {OTHER} ]; then ip -6 addr add fd00::$i/64 dev net$i nodad; fi
    ip rule add pref 10 oif net$i lookup main
    ip addr add 192.0.2.$i/24 dev net$i
    rdma link add rxe$i type rxe netdev net$i
    echo "192.0.2.$i node$i" >>/etc/hosts
done
ip rule add pref 50 lookup local && ip rule del pref 0
tc qdisc add dev net{SLOW} root netem delay 20ms
udevadm settle
for i in 1 2 3 4 5 6 7 8; do
    cat >/tmp/node$i.sh <<END
mount -t tmpfs -o mode=755 none /sys/class/infiniband
ln -s ../../devices/virtual/infiniband/rxe$i /sys/class/infiniband/rxe$i
exec /usr/sbin/sshd -D -p 220$i -o PidFile=/run/sshd$i.pid
END
    setsid unshare -m -p -f --mount-proc sh /tmp/node$i.sh >/tmp/node$i.log 2>&1 </dev/null &
done
for i in 1 2 3 4 5 6 7 8; do until ss -ltn | grep -q ":220$i "; do sleep 0.2; done; done
"""


def _ssh_config(guest: Guest) -> str:
    """The guest's own as the way to each node, and its host key for all of them."""
    own = guest.ssh_config.read_text()
    known = guest.folder / "known_hosts"
    key = known.read_text().split("\n")[0].partition(" ")[2]
    known.write_text(known.read_text() + "".join(f"[127.0.0.1]:220{i} {key}\n" for i in NODES))
    lines = own.split("\n")
    rest = "\n".join(e for e in lines if e.strip() and not e.strip().startswith(("Host", "Port")))
    for i in NODES:
        own += (
            f"Host node{i}\n  HostName 127.0.0.1\n  Port 220{i}\n  ProxyJump {guest.name}\n{rest}\n"
        )
    return own


@pytest.fixture(scope="module")
def fabric(_pool: Guests, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """The guest under the names of its eight nodes."""
    _pool.close()
    guest = Guest("switch", tmp_path_factory.mktemp("fabric"), BOOTED)
    try:
        ready(guest)
        guest.start()
        guest.wait()
        guest.put("/tmp/tools.tar", _tools())
        guest.run("tar xf /tmp/tools.tar -C / --skip-old-files && ldconfig")
        guest.run(SETUP)
        nodes = Guest("node[1-8]", guest.folder / "nodes", BOOTED)
        nodes.folder.mkdir()
        nodes.ssh_config.write_text(_ssh_config(guest))
        yield nodes
    finally:
        guest.remove()


def test_another_mtu_and_another_order_of_gids_are_named_without_moving_a_byte(
    fabric: Guest,
) -> None:
    done = gdr(fabric, "compare", "--json")
    assert done.status == 2, done
    told = json.loads(done.out)
    found = {
        each["id"]: [one["hosts"] for one in each["differing"]]
        for each in told["between"]
        if each["status"] == "fail"
    }
    assert found == {
        "between.mtu": [[f"node{SMALL}"]],
        "between.gid": [[f"node{OTHER}"]],
    }


def test_the_slow_node_is_named_by_real_bytes_and_no_other(fabric: Guest) -> None:
    """By a tenth of what most reach: emulated runs differ by a factor of four among themselves."""
    words = ("--pairs", "bisect", "--seconds", "1", "--threshold", "0.1", "--yes", "--json")
    done = gdr(fabric, "exercise", *words, limit_s=400)
    told: dict[str, Any] = json.loads(done.out)
    jsonschema.validate(told, SCHEMA)
    pairs = told["pairs"]
    assert [each["ends"] for each in pairs["named"]] == [[f"node{SLOW} rxe{SLOW}"]], pairs
    assert done.status == 2
    assert (pairs["nodes"], pairs["possible"]) == (8, 28)
    assert len(pairs["runs"]) <= 16, "four touch every node; a few more part them"
    kept = Path(done.err.split("kept in ")[1].splitlines()[0])
    assert len(list(kept.glob("node*.evidence"))) == len(NODES)
