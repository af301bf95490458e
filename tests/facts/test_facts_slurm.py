"""What Slurm prints, as 22.05 printed it, and the shapes of other releases."""

from __future__ import annotations

import pytest

from toolkit.errors import Unparsable
from toolkit.facts.slurm import (
    SlurmConfig,
    SlurmJob,
    SlurmNode,
    parse_config,
    parse_jobs,
    parse_nodes,
    parse_nodesets,
)

HEAD = (
    "NodeName=gpu01 Arch=x86_64 CoresPerSocket=1  CPUAlloc={cpus} CPUEfctv=4 CPUTot=4 "
    "CPULoad=2.97 AvailableFeatures=h100,ib ActiveFeatures=h100 Gres=(null) "
    "NodeAddr=127.0.0.11 NodeHostName=vm Port=26901 Version=22.05.8 "
    "OS=Linux 6.18.44-fc-v657 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=1 AllocMem=0 "
    "FreeMem=21342 Sockets=4 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 "
    "Owner=N/A MCS_label=N/A Partitions=gpu,debug  BootTime=2026-11-22T07:05:52 "
    "SlurmdStartTime=2026-11-22T14:39:23 LastBusyTime=2026-11-22T14:39:24 "
    "CfgTRES=cpu=4,mem=1M,billing=4 AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 "
    "ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s"
)


def line(state: str = "IDLE", told: str = "", cpus: int = 0) -> str:
    return HEAD.format(state=state, cpus=cpus) + told


def one(text: str) -> SlurmNode:
    (node,) = parse_nodes(text)
    return node


def test_a_node_as_22_05_prints_it() -> None:
    node = one(line("MIXED+DRAIN", " Reason=bad dimm [root@2026-11-22T14:39:27]\n", cpus=1))
    assert node == SlurmNode(
        name="gpu01",
        address="127.0.0.11",
        hostname="vm",
        states=frozenset({"MIXED", "DRAIN"}),
        partitions=("gpu", "debug"),
        features=frozenset({"h100", "ib"}),
        reason="bad dimm",
        reason_by="root",
        reason_since="2026-11-22T14:39:27",
        cpus_taken=1,
    )
    assert node.drained
    assert node.working


@pytest.mark.parametrize(
    ("told", "reason", "by"),
    [
        pytest.param("", "", "", id="none"),
        pytest.param(
            " Reason=multi [root@2026-11-22T14:45:31]        line x=y Comment=a c Extra=an extra",
            "multi line x=y",
            "root",
            id="several-lines-then-comment-and-extra",
        ),
        pytest.param(
            ' Reason=q"uo"te, and State=IDLE [x] [root@2026-11-22T14:45:31]',
            'q"uo"te, and State=IDLE [x]',
            "root",
            id="quotes-brackets-and-a-lie",
        ),
        pytest.param(
            " Reason=gdr-toolkit: RUN: in hand : reboot issued [slurm@2026-11-22T14:40:13]",
            "gdr-toolkit: RUN: in hand : reboot issued",
            "slurm",
            id="slurmctld-adds-its-own-words",
        ),
        pytest.param(" Reason=Not responding Comment=c", "Not responding", "", id="unsigned"),
        pytest.param(
            " Reason=x [4711@2026-11-22T14:40:13] ResvName=maint InstanceId=i-1",
            "x",
            "4711",
            id="a-user-without-a-name-and-what-23.11-adds",
        ),
    ],
)
def test_a_reason_ends_where_it_ends_and_never_tells_of_the_state(
    told: str, reason: str, by: str
) -> None:
    node = one(line("DOWN", told))
    assert (node.reason, node.reason_by) == (reason, by)
    assert node.states == {"DOWN"}


@pytest.mark.parametrize(
    ("said", "states"),
    [
        pytest.param("IDLE", {"IDLE"}, id="plain"),
        pytest.param("IDLE*+DRAIN", {"IDLE", "NOT_RESPONDING", "DRAIN"}, id="star-amid"),
        pytest.param("DOWN*", {"DOWN", "NOT_RESPONDING"}, id="star"),
        pytest.param(
            "DOWN+DRAIN+NOT_RESPONDING", {"DOWN", "DRAIN", "NOT_RESPONDING"}, id="spelled-out"
        ),
        pytest.param("IDLE+CLOUD~", {"IDLE", "CLOUD", "POWERED_DOWN"}, id="asleep"),
        pytest.param(
            "DOWN+DRAIN+MAINTENANCE+REBOOT_ISSUED+RESERVED+PLANNED",
            {"DOWN", "DRAIN", "MAINTENANCE", "REBOOT_ISSUED", "RESERVED", "PLANNED"},
            id="booting-in-our-reservation",
        ),
        *(
            pytest.param(f"IDLE{mark}", {"IDLE", flag}, id=flag.lower())
            for mark, flag in (
                *(("#", "POWERING_UP"), ("!", "POWER_DOWN"), ("%", "POWERING_DOWN")),
                *(("$", "MAINTENANCE"), ("@", "REBOOT_REQUESTED"), ("^", "REBOOT_ISSUED")),
                ("-", "PLANNED"),
            )
        ),
    ],
)
def test_a_state_is_a_word_and_its_flags(said: str, states: set[str]) -> None:
    assert one(line(said)).states == states


def test_a_reason_whose_second_line_is_a_line_of_its_own_stays_with_its_node() -> None:
    text = line("DOWN", " Reason=first [bob@2026-11-22T14:40:13]\n    second\n") + line("IDLE")
    down, idle = parse_nodes(text)
    assert (down.reason, idle.reason) == ("first second", "")


def test_a_reason_never_stands_for_what_the_line_does_not_have() -> None:
    node = one("NodeName=gpu01 State=DOWN Reason=x Partitions=all NodeAddr=evil CPUAlloc=3\n")
    assert (node.partitions, node.address, node.cpus_taken) == ((), "", 0)


@pytest.mark.parametrize(
    "text",
    [
        "Node gpu99 not found\n",
        "NodeName=gpu01 Arch=x86_64\n",
        "NodeName= State=IDLE\n",
        "slurm: NodeName=gpu01 State=IDLE\n",
    ],
)
def test_what_is_no_node_is_refused_not_guessed(text: str) -> None:
    with pytest.raises(Unparsable, match="scontrol show node"):
        parse_nodes(text)


def test_no_nodes_are_no_nodes() -> None:
    assert parse_nodes("") == ()


def test_jobs_have_names_with_anything_in_them() -> None:
    assert parse_jobs(
        "2|alice|RUNNING|1-02:30:00|None|a|b c\n7_3|bob|PENDING|5:00|Priority|x\n"
    ) == (
        SlurmJob("2", "alice", "RUNNING", "1-02:30:00", "None", "a|b c"),
        SlurmJob("7_3", "bob", "PENDING", "5:00", "Priority", "x"),
    )
    with pytest.raises(Unparsable, match="squeue: cannot read line 1"):
        parse_jobs("slurm_load_jobs error\n")


def test_the_settings_that_concern_us() -> None:
    text = (
        "RebootProgram           = {}\n"
        "SLURM_CONF              = /etc/slurm/slurm.conf\n"
        "SLURM_VERSION           = 22.05.8\n"
    )
    found = parse_config(text.format("/sbin/reboot"))
    assert (found.reboot_program, found.file, found.version) == (
        "/sbin/reboot",
        "/etc/slurm/slurm.conf",
        "22.05.8",
    )
    assert parse_config(text.format("(null)")).reboot_program == ""
    headings = "Configuration data as of 2026-11-22T14:39:27\nSLURM_CONF\n\nSLURM_VERSION\n"
    assert parse_config(f"{text.format('x')}{headings}") == parse_config(text.format("x"))
    assert parse_config(headings) == SlurmConfig()


def test_node_sets_are_nodes_or_a_feature() -> None:
    text = (
        "NodeSet=rack1 Nodes=gpu[01-02] # the first\nnodeset=fast \\\n Feature=h100\nNodeName=x\n"
    )
    assert parse_nodesets(text) == {"rack1": ("gpu[01-02]", ""), "fast": ("", "h100")}


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        pytest.param("(null)", None, id="none"),
        pytest.param("gpu:8", 8, id="without-a-type"),
        pytest.param("gpu:h100:8(S:0-1)", 8, id="with-sockets"),
        pytest.param("gpu:a100:4(S:0),gpu:h100:4(S:1)", 8, id="two-types"),
        pytest.param("gpu:8,shard:64", 8, id="shards-are-none"),
        pytest.param("shard:64,mps:800", None, id="no-gpus"),
        pytest.param("gpu:nvidia_h100_80gb_hbm3_1g.10gb:56", None, id="mig"),
        pytest.param("gpu:h100:4,gpu:1g.10gb:7", None, id="some-mig"),
        pytest.param("gpu", None, id="no-number"),
    ],
)
def test_whole_gpus_of_a_nodes_gres(gres: str, gpus: int | None) -> None:
    assert one(line().replace("Gres=(null)", f"Gres={gres}")).gpus == gpus
