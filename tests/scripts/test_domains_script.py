"""Domains of IOMMU groups, on trees of our own, under each shell; a thread is their kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scripts.depending import HCA, first, make, process, put
from tests.scripts.engine import SHELLS
from toolkit.errors import ApplyError, LockedError, StaleError
from toolkit.evidence import Evidence
from toolkit.facts.pci.iommu import Domain
from toolkit.facts.pci.iommu_groups import Domains, parse_domains, parse_groups
from toolkit.features.iommu_groups import io as reach
from toolkit.features.iommu_groups.plan import Switch, back, switches
from toolkit.ssh.transport import Result, Sink, quiet

pytestmark = pytest.mark.shell
IDLE, OTHER = "0000:1a:00.0", "0000:1b:00.0"
GROUPS = "sys/kernel/iommu_groups"
DRIVER = "sys/bus/pci/drivers/mlx5_core"


class Tree:
    """A node in a folder, asked by one shell, with a kernel that binds and unbinds."""

    name = "gpu01"

    def __init__(self, root: Path, shell: tuple[str, ...]) -> None:
        self.root, self.shell = root, shell
        self.picky = False  # the driver takes no device in an identity domain
        self.over = threading.Event()
        self.kernel = threading.Thread(target=self._serve, daemon=True)

    def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
        told = {"GDR_ROOT": str(self.root), "GDR_BIN": str(self.root / "bin")}
        done = subprocess.run(
            [*self.shell, "-s"],
            input=script,
            env={
                "PATH": first(self.root),
                **told,
                "SSH_CONNECTION": "192.0.2.1 4 198.51.100.7 22",
            },
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=limit_s,
            check=False,
        )
        assert done.stderr == ""
        return Result(done.returncode, done.stdout, done.stderr)

    def close(self) -> None:
        """Nothing is open."""

    def device(self, address: str) -> Path:
        return self.root / "sys/bus/pci/devices" / address

    def driver(self, address: str) -> str:
        link = self.device(address) / "driver"
        return link.readlink().name if link.is_symlink() else ""

    def type_of(self, group: str) -> str:
        return (self.root / GROUPS / group / "type").read_text().strip()

    @property
    def domains(self) -> Domains:
        return parse_domains(reach.ask(self))

    def _serve(self) -> None:
        while not self.over.wait(0.01):
            for act in ("unbind", "bind"):
                file = self.root / DRIVER / act
                if address := file.read_text().strip():
                    file.write_text("")
                    self._obey(act, address)

    def _obey(self, act: str, address: str) -> None:
        link = self.device(address) / "driver"
        if act == "unbind":
            link.unlink(missing_ok=True)
        elif not (self.picky and self.type_of("13") == "identity"):
            link.symlink_to(self.root / DRIVER)


@pytest.fixture(params=sorted(SHELLS))
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tree]:
    tree = Tree(_grouped(make(tmp_path / "node")), SHELLS[request.param])
    tree.kernel.start()
    yield tree
    tree.over.set()
    tree.kernel.join()


def _grouped(root: Path) -> Path:
    """The HCA that carries our session in group 12, an idle one of two functions in 13."""
    put(root, "proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
    for act in ("bind", "unbind"):
        put(root, f"{DRIVER}/{act}", "")
    for address, group in (("0000:19:00.0", "12"), (IDLE, "13"), (OTHER, "13")):
        place = root / (HCA if group == "12" else f"{HCA}-beside/{address}")
        put(root, str(place.relative_to(root) / "class"), "0x020700\n")
        put(root, str(place.relative_to(root) / "vendor"), "0x15b3\n")
        put(root, f"{GROUPS}/{group}/type", "DMA-FQ\n")
        _link(root / f"sys/bus/pci/devices/{address}", place)
        _link(root / f"{GROUPS}/{group}/devices/{address}", place)
    _link(root / f"sys/bus/pci/devices/{IDLE}/driver", root / DRIVER)
    return root


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)


def _ready(node: Tree, to: Domain = Domain.IDENTITY) -> tuple[Evidence, tuple[Switch, ...]]:
    look = reach.ask(node)
    found = switches(parse_domains(look), to, ssh=True)
    return look, tuple(each for each in found if each.ready)


def _change(node: Tree, to: Domain = Domain.IDENTITY) -> reach.GroupsChanged:
    look, ready = _ready(node, to)
    return reach.change(node, reach.change_script(look, [e.word for e in ready], wait_s=0))


def test_the_look_tells_groups_devices_and_what_they_carry(node: Tree) -> None:
    found = node.domains
    assert [(e.number, e.domain, e.writable) for e in found.groups] == [
        ("12", Domain.DMA_FQ, True),
        ("13", Domain.DMA_FQ, True),
    ]
    assert [(e.address, e.driver, e.hca) for e in found.groups[1].devices] == [
        (IDLE, "mlx5_core", True),
        (OTHER, "", True),
    ]
    (net,) = found.carried
    assert (net.kind, net.name) == ("net", "ens1np0")
    assert net.below(frozenset({"0000:19:00.0"}))
    assert found.before == {}


def test_a_group_whose_devices_cannot_be_listed_is_told_of_without_any(node: Tree) -> None:
    put(node.root, f"{GROUPS}/14/type", "identity\n")
    told = {each.number: len(each.devices) for each in node.domains.groups}
    assert told == {"12": 1, "13": 2, "14": 0}


def test_no_groups_are_no_groups(node: Tree) -> None:
    shutil.rmtree(node.root / GROUPS)
    assert node.domains.groups == ()


def test_the_group_that_carries_our_session_is_refused_by_name(node: Tree) -> None:
    ours, idle = switches(node.domains, Domain.IDENTITY, ssh=True)
    texts = [each.text for each in ours.obstacles]
    assert "our SSH session from 192.0.2.1 comes over ens1np0" in texts
    assert "our SSH session from 192.0.2.1 comes over bond0" in texts, "it stands on that"
    assert "the default route leads over ens1np0" in texts
    assert "10.0.0.5 is mounted over ens1np0" in texts
    assert idle.ready


def test_an_idle_group_gets_its_domain_and_its_driver_back(node: Tree) -> None:
    changed = _change(node)
    assert node.type_of("13") == "identity"
    assert node.driver(IDLE) == "mlx5_core"
    assert node.driver(OTHER) == ""
    assert [step.rpartition(": ")[2] for step in changed.steps] == ["done"] * 3
    assert parse_groups(changed.groups)[1].domain is Domain.IDENTITY
    assert node.type_of("12") == "DMA-FQ", "the other group is as it was"


def test_what_was_changed_can_be_taken_back(node: Tree) -> None:
    _change(node)
    look = reach.ask(node)
    domains = parse_domains(look)
    assert domains.before == {IDLE: "DMA-FQ"}
    (undo,) = back(domains, ssh=True)
    assert undo.to is Domain.DMA_FQ
    reach.change(node, reach.change_script(look, [undo.word], wait_s=0))
    assert node.type_of("13") == "DMA-FQ"
    assert back(node.domains, ssh=True) == ()


def test_the_first_domain_of_a_boot_is_what_is_gone_back_to(node: Tree) -> None:
    _change(node)
    _change(node, Domain.DMA)
    assert node.domains.before == {IDLE: "DMA-FQ"}


def test_from_dma_to_dma_fq_no_driver_lets_go(node: Tree) -> None:
    put(node.root, f"{GROUPS}/13/type", "DMA\n")
    changed = _change(node, Domain.DMA_FQ)
    assert len(changed.steps) == 1
    assert node.type_of("13") == "DMA-FQ"


def test_a_job_that_began_meanwhile_stops_it_before_anything_is_touched(node: Tree) -> None:
    look, ready = _ready(node)
    process(node.root, 77, "python3", "/dev/infiniband/uverbs0")
    with pytest.raises(StaleError, match="has changed since"):
        reach.change(node, reach.change_script(look, [e.word for e in ready], wait_s=0))
    assert (node.type_of("13"), node.driver(IDLE)) == ("DMA-FQ", "mlx5_core")


def test_another_run_that_holds_the_node_is_left_alone(node: Tree) -> None:
    look, ready = _ready(node)
    stat = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(") ")[2].split()
    lock = node.root / "var/lib/gdr-toolkit/lock"
    lock.parent.mkdir(parents=True)
    lock.symlink_to(f"{os.getpid()},{stat[19]},b,now,somebody")
    with pytest.raises(LockedError, match="somebody"):
        reach.change(node, reach.change_script(look, [e.word for e in ready], wait_s=0))
    assert node.type_of("13") == "DMA-FQ"


def test_a_node_without_a_place_for_a_lock_is_left_alone_and_said_so(node: Tree) -> None:
    put(node.root, "var/lib", "no folder")
    look, ready = _ready(node)
    with pytest.raises(ApplyError, match="cannot be written, so nobody can hold the node"):
        reach.change(node, reach.change_script(look, [e.word for e in ready], wait_s=0))
    assert node.type_of("13") == "DMA-FQ"


def test_a_type_that_the_kernel_refuses_leaves_the_driver_where_it_was(node: Tree) -> None:
    look, ready = _ready(node)
    type_file = node.root / GROUPS / "13/type"
    type_file.unlink()
    type_file.symlink_to("/proc/version")  # the kernel takes no write there
    script = reach.change_script(look, [e.word for e in ready], wait_s=0)
    script = script.replace("same_domains() {", "same_domains() { return 0; }\nnever() {")
    with pytest.raises(ApplyError, match=r"/13/type: failed"):
        reach.change(node, script)
    assert node.driver(IDLE) == "mlx5_core"


def test_a_driver_that_does_not_work_with_it_gets_the_old_domain_back(node: Tree) -> None:
    node.picky = True
    with pytest.raises(ApplyError, match=r"mlx5_core/bind: failed"):
        _change(node)
    assert (node.type_of("13"), node.driver(IDLE)) == ("DMA-FQ", "mlx5_core")


def test_a_script_that_was_cut_off_does_nothing(node: Tree) -> None:
    look, ready = _ready(node)
    script = reach.change_script(look, [e.word for e in ready], wait_s=0)
    assert node.run(script.rpartition(" end")[0] + "\n").exit == 64
    assert (node.type_of("13"), node.driver(IDLE)) == ("DMA-FQ", "mlx5_core")
