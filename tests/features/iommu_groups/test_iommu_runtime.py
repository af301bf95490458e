"""Which IOMMU groups may get another domain while the node runs, and why others may not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from toolkit.errors import ExitCode, NoEvidence, Outcome, TransportError, Unparsable, Unsupported
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.modules.module_users import Holding, Mount, Net, RemoteDisk, User, Way
from toolkit.facts.pci.iommu import Domain
from toolkit.facts.pci.iommu_groups import (
    CarriedDevice,
    Domains,
    Group,
    GroupDevice,
    parse_domains,
    parse_groups,
)
from toolkit.facts.versions import Version
from toolkit.features.iommu_groups.cli import domain_lines
from toolkit.features.iommu_groups.plan import Switch, Switching, back, switches
from toolkit.features.reload.plan_obstacles import ObstacleKind as Kind
from toolkit.features.reload.plan_obstacles import ReloadObstacle
from toolkit.report.table import WIDTH, Painter

IDENTITY, DMA, DMA_FQ = Domain.IDENTITY, Domain.DMA, Domain.DMA_FQ
HCA = GroupDevice("0000:19:00.0", 0x020700, 0x15B3, "mlx5_core", 0)
PORT = GroupDevice("0000:18:00.0", 0x060400, 0x1000, "pcieport", 0)
GPU = GroupDevice("0000:1a:00.0", 0x030200, 0x10DE, "nvidia", 0)
ABOVE = "/sys/devices/pci0000:15/0000:18:00.0"
NET = CarriedDevice("net", "ib0", f"{ABOVE}/0000:19:00.0/net/ib0")
RDMA = CarriedDevice("infiniband", "mlx5_0", f"{ABOVE}/0000:19:00.0/infiniband/mlx5_0")
DISK = CarriedDevice("block", "nvme0n1", f"{ABOVE}/0000:19:00.0/nvme/nvme0/nvme0n1")
ELSEWHERE = Way("session", "192.0.2.1", "eno1")
NETS = {
    "eno1": Net("eno1", ("tg3",), ()),
    "ib0": Net("ib0", ("mlx5_core",), ()),
    "bond0": Net("bond0", (), ("ib0",)),
    "wg0": Net("wg0", (), ()),
}
QUIET = Holding("boot", {}, (), NETS, (ELSEWHERE,), (), (), (), {})


def node(
    *devices: GroupDevice,
    kernel: str = "6.8.0-45-generic",
    domain: Domain = DMA_FQ,
    writable: bool = True,
    carried: tuple[CarriedDevice, ...] = (NET, RDMA),
    holding: Holding = QUIET,
) -> Domains:
    group = Group("12", domain, writable, devices or (HCA,))
    return Domains(Version(kernel), (group,), carried, holding, {})


def one(domains: Domains, to: Domain = IDENTITY) -> Switch:
    (switch,) = switches(domains, to, ("0000:19:00.0",), ssh=True)
    return switch


def told(domains: Domains, to: Domain = IDENTITY) -> list[tuple[Kind, str]]:
    return [(each.kind, each.text) for each in one(domains, to).obstacles]


def depends(**parts: object) -> Holding:
    return replace(QUIET, **parts)


def test_an_idle_hca_is_ready_and_its_driver_lets_go() -> None:
    switch = one(node())
    assert switch.ready
    assert switch.word == "12/identity/0000:19:00.0=mlx5_core"


def test_a_port_stays_with_its_driver_for_it_does_no_dma() -> None:
    assert one(node(PORT, HCA)).word == "12/identity/0000:18:00.0=,0000:19:00.0=mlx5_core"


EMPTY = Group("13", DMA_FQ, True, ())


@pytest.mark.parametrize("addresses", [(), ("0000:77:00.0",)])
def test_groups_that_list_no_device_are_not_known_which_is_not_nothing(
    addresses: tuple[str, ...],
) -> None:
    domains = replace(node(GPU), groups=(EMPTY, Group("12", DMA_FQ, True, (GPU,))))
    with pytest.raises(NoEvidence, match="1 of 2 groups list no device") as found:
        switches(domains, IDENTITY, addresses, ssh=True)
    assert found.value.exit_code is ExitCode.UNKNOWN
    assert switches(replace(domains, groups=()), IDENTITY, ssh=True) == ()  # no IOMMU


def test_what_was_changed_may_be_in_a_group_that_lists_no_device() -> None:
    changed = replace(node(), groups=(EMPTY,), before={"0000:19:00.0": "DMA-FQ"})
    with pytest.raises(NoEvidence, match="1 of 1 groups list no device"):
        back(changed, ssh=True)
    assert back(replace(changed, before={}), ssh=True) == ()


def test_an_hca_that_is_listed_waits_for_no_other_group() -> None:
    assert one(replace(node(), groups=(*node().groups, EMPTY))).ready


def test_what_has_its_domain_already_is_left_alone() -> None:
    switch = one(node(domain=IDENTITY))
    assert switch.same
    assert not switch.ready


@pytest.mark.parametrize(
    ("domains", "to", "kind", "text"),
    [
        pytest.param(node(writable=False), IDENTITY, Kind.KERNEL, "5.11 does", id="before-5.11"),
        pytest.param(
            node(HCA, GPU, kernel="6.1.0-40-amd64"), IDENTITY, Kind.KERNEL,
            "group 12 has 2 devices, and 6.1.0-40-amd64 changes groups of one alone: 6.4 does more",
            id="several-before-6.4",
        ),
        pytest.param(
            node(kernel="5.14.0-503.el9", domain=IDENTITY), DMA_FQ, Kind.KERNEL, "5.15 does",
            id="no-fq",
        ),
        pytest.param(node(domain=Domain.UNMANAGED), IDENTITY, Kind.KERNEL, "user's", id="vfio"),
        pytest.param(node(HCA, GPU), IDENTITY, Kind.HOLDER, "is nvidia's", id="a-gpu-beside-it"),
        pytest.param(
            node(replace(HCA, driver="vfio-pci")), IDENTITY, Kind.GUEST, "given to a guest",
            id="given-away",
        ),
        pytest.param(
            node(replace(HCA, driver="mlx5 core")), IDENTITY, Kind.HOLDER,
            "only network cards are taken from theirs", id="a-driver-of-no-name",
        ),
        pytest.param(
            node(replace(HCA, functions=4)), IDENTITY, Kind.GUEST, "4 virtual functions",
            id="virtual-functions",
        ),
        pytest.param(
            node(holding=depends(ways=(Way("session", "192.0.2.1", "ib0"),))), IDENTITY, Kind.SSH,
            "our SSH session from 192.0.2.1 comes over ib0", id="our-session",
        ),
        pytest.param(
            node(holding=depends(ways=(Way("session", "192.0.2.1", "bond0"),))), IDENTITY,
            Kind.SSH, "comes over bond0", id="our-session-over-a-bond",
        ),
        pytest.param(
            node(holding=depends(ways=(ELSEWHERE, Way("route", "default", "ib0")))), IDENTITY,
            Kind.ROUTE, "the default route leads over ib0", id="default-route",
        ),
        pytest.param(
            node(holding=depends(ways=(ELSEWHERE, Way("server", "10.0.0.5", "ib0")))), IDENTITY,
            Kind.MOUNT, "10.0.0.5 is mounted over ib0", id="a-server",
        ),
        pytest.param(
            node(holding=depends(ways=())), IDENTITY, Kind.UNKNOWN, "does not tell", id="no-session"
        ),
        pytest.param(
            node(holding=depends(ways=(ELSEWHERE, Way("route", "default", "?")))), IDENTITY,
            Kind.UNKNOWN, "nobody can tell", id="a-route-nobody-knows",
        ),
        pytest.param(node(carried=(DISK,)), IDENTITY, Kind.MOUNT, "disk nvme0n1", id="a-disk"),
        pytest.param(
            node(holding=depends(remote=(RemoteDisk("nvme1", "nvme_rdma"),))), IDENTITY,
            Kind.MOUNT, "nvme1 is a disk of a server", id="a-disk-of-a-server",
        ),
        pytest.param(
            node(holding=depends(mounts=(Mount("lustre", "/l", "10.0.0.5@o2ib:/l", "rw"),))),
            IDENTITY, Kind.MOUNT, "/l is mounted (lustre) by RDMA", id="lustre",
        ),
        pytest.param(
            node(holding=depends(mounts=(Mount("nfs4", "/n", "fs:/n", "rw,proto=rdma"),))),
            IDENTITY, Kind.MOUNT, "/n is mounted (nfs4) by RDMA", id="nfs-by-rdma",
        ),
        pytest.param(
            node(holding=depends(users=(
                User(77, "python3", 1000, "alice", ("/dev/infiniband/uverbs0",)),
            ))),
            IDENTITY, Kind.JOB, "python3, pid 77 of alice has /dev/infiniband/uverbs0 open",
            id="a-job",
        ),
        pytest.param(
            node(holding=depends(users=(
                User(7, "opensm", 0, "root", ("/dev/infiniband/umad0",)),
            ))),
            IDENTITY, Kind.DAEMON, "opensm", id="a-daemon",
        ),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_is_named(
    domains: Domains, to: Domain, kind: Kind, text: str
) -> None:
    assert any(each is kind and text in words for each, words in told(domains, to))
    assert not one(domains, to).ready


def test_what_depends_on_other_devices_does_not_matter() -> None:
    busy = depends(
        users=(User(7, "python3", 1000, "alice", ("/dev/nvidia0",)),),
        ways=(
            *(ELSEWHERE, Way("route", "default", "eno1"), Way("server", "127.0.0.1", "lo")),
            Way("server", "10.0.0.6", "team0"),
        ),
        nets={**NETS, "team0": Net("team0", (), ("bond1",)), "bond1": Net("bond1", (), ("team0",))},
        mounts=(Mount("nfs4", "/n", "fs:/n", "rw,proto=tcp"),),
    )
    other = CarriedDevice("block", "sda", "/sys/devices/pci0000:00/0000:00:17.0/ata1/sda")
    assert told(node(holding=busy, carried=(NET, RDMA, other))) == []
    unknown = depends(ways=(Way("session", "192.0.2.1", "wg9"),))
    assert told(node(carried=(), holding=unknown)) == [], "nothing hangs on it"
    (local,) = switches(node(holding=depends(ways=())), IDENTITY, ssh=False)
    assert local.ready, "there is no session of ours to be cut"


def test_from_dma_to_dma_fq_nobody_has_to_let_go() -> None:
    busy = depends(ways=(Way("session", "192.0.2.1", "ib0"),))
    switch = one(node(HCA, GPU, domain=DMA, holding=busy, kernel="5.15.0-100-generic"), DMA_FQ)
    assert switch.ready
    assert switch.word == "12/DMA-FQ/0000:19:00.0=,0000:1a:00.0="
    back_to = one(node(domain=DMA))
    assert (back_to.live, back_to.word) == (False, "12/identity/0000:19:00.0=mlx5_core")


def test_without_names_the_groups_of_hcas_are_meant() -> None:
    gpu = Group("13", DMA_FQ, True, (GPU,))
    both = replace(node(), groups=(*node().groups, gpu))
    assert [each.group.number for each in switches(both, IDENTITY, ssh=True)] == ["12"]
    with pytest.raises(Unsupported, match=r"^0000:77:00\.0 is in no IOMMU group"):
        switches(both, IDENTITY, ("0000:ff:00.0", "0000:77:00.0"), ssh=True)
    with pytest.raises(Unsupported, match=r"0000:ff:00\.0 is in no IOMMU group"):
        switches(both, IDENTITY, ("0000:ff:00.0",), ssh=True)


def test_going_back_means_what_was_changed_and_still_differs() -> None:
    changed = replace(node(domain=IDENTITY), before={HCA.address: "DMA-FQ", "0000:ff:00.0": "DMA"})
    (undo,) = back(changed, ssh=True)
    assert (undo.to, undo.ready) == (DMA_FQ, True)
    assert back(replace(node(), before={HCA.address: "DMA-FQ"}), ssh=True) == ()
    assert back(node(), ssh=True) == ()


@pytest.mark.parametrize(
    ("switching", "code"),
    [
        pytest.param(Switching(()), ExitCode.OK, id="nothing-to-do"),
        pytest.param(Switching((one(node()),)), ExitCode.PENDING, id="would-change"),
        pytest.param(Switching((one(node()),), done=True), ExitCode.OK, id="changed"),
        pytest.param(Switching((one(node(carried=(DISK,))),)), ExitCode.STOPPED, id="refused"),
        pytest.param(
            Switching(
                (Switch(node().groups[0], IDENTITY, (ReloadObstacle(Kind.UNKNOWN, "", "?"),)),)
            ),
            ExitCode.UNKNOWN,
            id="not-known",
        ),
    ],
)
def test_the_exit_code_says_what_came_of_it(switching: Switching, code: ExitCode) -> None:
    assert switching.exit_code is code


def test_the_report_names_group_devices_and_reasons() -> None:
    refused = one(node(holding=depends(ways=(Way("session", "192.0.2.1", "ib0"),))))
    same = one(node(domain=IDENTITY))
    lost: Outcome[Switching] = Outcome("gpu003", error=TransportError("gpu003: no route"))
    outcomes = [
        Outcome("gpu001", Switching((refused,))),
        Outcome("gpu002", Switching((refused,))),
        Outcome("gpu004", Switching((same,))),
        lost,
    ]
    lines = domain_lines(outcomes, Painter(False))
    text = "\n".join(lines)
    assert "gpu[001-002]" in text
    assert "refused      DMA-FQ -> identity" in text
    assert "our SSH session from 192.0.2.1 comes over ib0" in text
    assert "as wanted    identity" in text
    assert "no route" in text
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize(
    ("ids", "klass", "hca"),
    [
        ("0x15b3:0x1021", "0x020000", True),
        ("0x1d0f:0xefa2", "0x020000", True),
        ("0x14e4:0x1760", "0x020000", True),
        ("0x14e4:0x165f", "0x020000", False),  # a mainboard's BCM5720
        ("0x8086:0x1592", "0x020000", True),
        ("0x1dd8:0x1002", "0x020000", True),
        ("0x1425:-", "0x020700", True),
        ("0x14e4:-", "0x020000", False),
        ("0x15b3:0xc2d5", "0x010802", False),  # no network function
    ],
)
def test_hcas_of_every_maker_are_known(ids: str, klass: str, hca: bool) -> None:
    (group,) = parse_groups(f"12 DMA-FQ yes 0000:19:00.0 {klass} {ids} - 0\n")
    assert [each.hca for each in group.devices] == [hca]


@pytest.mark.parametrize(
    "line", ["12 DMA yes 0000:19:00.0", "12 odd yes 0000:19:00.0 0x020700 0x15b3 - 0", "12"]
)
def test_a_line_of_another_shape_is_refused_not_guessed(line: str) -> None:
    with pytest.raises(Unparsable, match="iommu_groups: cannot read line 1"):
        parse_groups(f"{line}\n")


def test_a_look_that_was_cut_off_is_no_judgement() -> None:
    frames = {"kernel-release": Frame("kernel-release", State.OK, "x", "6.8.0\n")}
    with pytest.raises(NoEvidence):
        parse_domains(Evidence(frames, complete=False))


@pytest.mark.parametrize(
    ("state", "text", "before"),
    [
        (State.ABSENT, "", {}),
        (State.OK, "", {}),
        # Of one that was changed twice the first row tells what it had.
        (State.OK, "a DMA\nb identity\na identity\n", {"a": "DMA", "b": "identity"}),
    ],
)
def test_what_a_node_says_of_its_groups_is_read(
    state: State, text: str, before: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = object()
    monkeypatch.setattr("toolkit.facts.pci.iommu_groups.parse_holding", lambda _: held)
    told = {
        "kernel-release": "6.8.0-45-generic\n",
        "groups": "12 DMA yes 0000:19:00.0 0x020700 0x15b3:0x1021 mlx5_core 0\n",
        "carried": "net ens1 /sys/devices/pci0000:15/0000:19:00.0/net/a b\n",
    }
    frames = {key: Frame(key, State.OK, "x", each) for key, each in told.items()}
    frames["domains-before"] = Frame("domains-before", state, "x", text)
    found = parse_domains(Evidence(frames, complete=True))
    assert (str(found.kernel), [each.number for each in found.groups]) == (
        "6.8.0-45-generic",
        ["12"],
    )
    (carried,) = found.carried
    assert (carried.kind, carried.name) == ("net", "ens1")
    assert carried.path.endswith("/net/a b")
    assert (found.holding, found.before) == (held, before)
