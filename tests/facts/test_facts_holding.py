"""Who depends on modules: what the parser makes of the node's words, hostile ones among them."""

from __future__ import annotations

import pytest

from tests.unit.holdings import LOADED, TEXTS, evidence, holding, user
from toolkit.errors import NeedsRoot, NoEvidence, Unparsable
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.modules.module_users import (
    Mount,
    Net,
    RemoteDisk,
    Way,
    parse_holding,
    parse_users,
)

UVERBS = "/dev/infiniband/uverbs0"


def test_a_process_is_told_with_its_owner_and_its_devices() -> None:
    [found] = holding(users=user(4711, "python3", UVERBS, "/dev/nvidia0")).users
    assert (found.pid, found.name, found.account) == (4711, "python3", "alice")
    assert found.devices == (UVERBS, "/dev/nvidia0")
    assert str(found) == "python3, pid 4711 of alice"


@pytest.mark.parametrize(
    ("group", "job"),
    [
        ("0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0", "job 42"),
        (
            "0::/kubepods.slice/kubepods-pod1f3c2a44_97aa_4a0e_9a55_0123456789ab.slice/cri-1.scope",
            "pod 1f3c2a44-97aa-4a0e-9a55-0123456789ab",
        ),
        ("0::/user.slice/user-1000.slice", ""),
        ("", ""),
    ],
    ids=["slurm", "kubernetes", "login", "untold"],
)
def test_its_job_is_told_where_its_group_says_so(group: str, job: str) -> None:
    [found] = holding(users=user(7, "a.out", UVERBS, group=group)).users
    assert found.job == job
    assert str(found).endswith(job or "of alice")


@pytest.mark.parametrize(
    ("escaped", "name"),
    [
        (r"a\nb", "a?b"),
        (r"back\\slash", "back\\slash"),
        ("two words", "two words"),
        ("\x1b[31mred", "?[31mred"),
        ("tab\there", "tab?here"),
        ("Name:\tx", "Name:?x"),
    ],
)
def test_a_name_is_text_and_never_an_instruction(escaped: str, name: str) -> None:
    [found] = holding(users=user(7, escaped, UVERBS)).users
    assert (found.pid, found.name, found.devices) == (7, name, (UVERBS,))


@pytest.mark.parametrize(
    ("name", "uid", "daemon"),
    [
        ("nvidia-persiste", 0, True),
        ("nv-hostengine", 990, True),
        ("nv-hostengine", 1000, False),
        *(
            (name, 0, True)
            for name in (
                *("opensm", "dcgm-exporter", "nv-fabricmanage", "ibacm", "nvidia-imex", "nvlsm"),
                *("srp_daemon", "rdma-ndd", "iwpmd", "nvidia-device-p", "nvidia-smi"),
                *("gpu-feature-dis", "nvsm_core", "nvidia-powerd", "systemd-udevd"),
                "(udev-worker)",
            )
        ),
        ("opensm2", 0, False),
        ("my-opensm", 0, False),
        ("python3", 0, False),
    ],
)
def test_a_daemon_is_known_by_its_whole_name_and_its_account(
    name: str, uid: int, daemon: bool
) -> None:
    [found] = holding(users=user(7, name, UVERBS, uid=uid)).users
    assert found.daemon is daemon


def test_a_process_that_ended_amid_the_look_still_counts() -> None:
    [found] = holding(users=f"@9\nDevice:\t{UVERBS}\n").users
    assert (found.pid, found.name, found.daemon, found.group) == (9, "?", False, "")


def test_who_is_not_root_sees_no_processes_and_says_so() -> None:
    with pytest.raises(NeedsRoot, match="permission denied"):
        parse_users(evidence({"uid": "1000\n"}))


@pytest.mark.parametrize("key", [key for key in TEXTS if key != "accounts"])
def test_what_was_not_read_is_not_taken_for_nothing(key: str) -> None:
    whole = evidence()
    frames = dict(whole.frames)
    frames[key] = Frame(key, State.ABSENT, key)
    with pytest.raises(NoEvidence, match="not there"):
        parse_holding(Evidence(frames, complete=True))
    del frames[key]
    with pytest.raises(NoEvidence, match="cut off"):
        parse_holding(Evidence(frames, complete=False))


@pytest.mark.parametrize(
    ("key", "text", "source"),
    [
        ("ways", "session 192.0.2.1\n", "ways"),
        ("nets", "eno1 i40e\n", "/sys/class/net"),
        ("remote-disks", "nvme0: what\n", "/sys/class/nvme, scsi_host"),
        ("mounts", "ext4 259:2 /\n", "/proc/self/mountinfo"),
        ("disks", "259:2\n", "/sys/dev/block"),
    ],
)
def test_an_unknown_shape_is_refused_not_guessed(key: str, text: str, source: str) -> None:
    with pytest.raises(Unparsable, match=rf"^{source}: cannot read line 1"):
        parse_holding(evidence({key: text}))
    whole = evidence().frames[key].text
    count = whole.count("\n") + 1
    with pytest.raises(Unparsable, match=rf"cannot read line {count}"):
        parse_holding(evidence({key: whole + text}))


def test_the_references_of_a_module_are_read() -> None:
    found = holding().modules
    assert {name: each.refs for name, each in found.items()} == {
        name: refs for name, (refs, _) in LOADED.items()
    }


def test_ip_over_infiniband_is_driven_by_its_own_module_too() -> None:
    found = holding(nets="ib0 32 mlx5_core -\nbond0 1 - ens1f0,ens1f1\n").nets
    assert found["ib0"] == Net("ib0", ("mlx5_core", "ib_ipoib"), ())
    assert found["bond0"] == Net("bond0", (), ("ens1f0", "ens1f1"))


def test_a_mount_is_told_with_what_drives_its_disk() -> None:
    told = holding(
        mounts="xfs 259:7 /my\\040data /dev/nvme1n1 rw\nnfs4 0:52 /home s:/h rw,addr=10.0.0.5\n",
        disks="259:7 /dev/nvme1n1 nvme_rdma\n",
        ways="server 10.0.0.5 eno1\n",
    )
    assert told.mounts[0] == Mount("xfs", "/my data", "/dev/nvme1n1", "rw", ("nvme_rdma",))
    assert told.mounts[1].modules == ()
    assert told.ways == (Way("server", "10.0.0.5", "eno1"),)


def test_disks_of_servers_are_told_by_what_would_end_them() -> None:
    text = (
        "nvme1/transport:rdma\nnvme1/subsysnqn:nqn.2014\n"
        "nvme1/address:traddr=10.0.0.5,trsvcid=4420\n"
        "host0/proc_name:ahci\nhost3/proc_name:ib_srp\nhost4/proc_name:iscsi_iser\n"
        "connection1:0/address:10.0.0.9\n"
    )
    kinds = "host5/proc_name:iser\nhost6/proc_name:iscsi_tcp\nnvme2/transport:tcp\n"
    assert holding(remote_disks=kinds).remote == (
        RemoteDisk("host5", "ib_iser"),
        RemoteDisk("host6", "iscsi_tcp"),
        RemoteDisk("nvme2", "nvme_tcp"),
    )
    assert holding(remote_disks=text).remote == (
        RemoteDisk("nvme1", "nvme_rdma", "10.0.0.5"),
        RemoteDisk("host3", "ib_srp"),
        RemoteDisk("host4", "ib_iser"),
        RemoteDisk("connection1:0", "iscsi_tcp", "10.0.0.9"),
    )


def test_a_module_whose_file_is_gone_is_told_by_the_kernels_name() -> None:
    found = holding(
        module_files="/lib/modules/6.1/nvidia-current-open-peermem.ko gone\n"
        "/lib/modules/6.1/nvidia-current.ko\n/lib/modules/6.1/ib-core.ko.xz\n"
        "/lib/modules/6.1/a/gdrdrv.ko gone\n/lib/modules/6.1/b/gdrdrv.ko\n"
        "/lib/modules/6.1/nvidia-tesla-535-open-uvm.ko\n"
    ).files
    assert found == {
        "nvidia_peermem": False, "nvidia": True, "ib_core": True, "gdrdrv": True,
        "nvidia_uvm": True,
    }  # fmt: skip
