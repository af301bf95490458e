"""``vagrant://NAME`` among hosts: which machines are meant, and what is said of the others."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from tests.ssh.test_vagrant_said import STATUS, V23
from toolkit.errors import ExitCode, InventoryError, TransportError, UsageError
from toolkit.hosts.host import Host, Inventory, Machines, fold, select
from toolkit.report.progress import PlainProgress
from toolkit.ssh.pool import attempt
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.connect import open_fleet

NODES = {name: Host(f"vagrant://{name}", "192.168.121.2") for name in ("node1", "node2", "web")}
SITE = {"node1": Host("node1", "10.0.0.1"), "gpu1": Host("gpu1")}


def inventory() -> Inventory:
    return Inventory(
        SITE, {"rack": tuple(SITE)}, machines=lambda: Machines(NODES, {"node9": "not created"})
    )


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        pytest.param("vagrant://node1", "vagrant://node1", id="one"),
        pytest.param(
            "vagrant://node[1-2]", "vagrant://node1 vagrant://node2", id="range"
        ),
        pytest.param("vagrant://w*", "vagrant://web", id="wildcard"),
        pytest.param("vagrant://node[1,9]", "vagrant://node1 vagrant://node9", id="not-up"),
        pytest.param(
            "vagrant://", "vagrant://node1 vagrant://node2 vagrant://web", id="all-that-run"
        ),
        pytest.param("vagrant://!vagrant://web", "vagrant://node1 vagrant://node2", id="without"),
        pytest.param("vagrant://&vagrant://web", "vagrant://web", id="in-both"),
        pytest.param("gpu1,vagrant://web", "gpu1 vagrant://web", id="beside-the-site-s"),
        pytest.param("vagrant://!node1", "vagrant://node1 vagrant://node2 vagrant://web",
                     id="the-site-s-host-of-that-name-is-another"),
    ],
)  # fmt: skip
def test_an_expression_means(expression: str, names: str) -> None:
    assert [host.name for host in select(expression, inventory())] == names.split()


@pytest.mark.parametrize("expression", ["node1", "@rack", "@all", "node*", "gpu1"])
def test_the_site_s_own_names_never_mean_a_machine_of_vagrant_s(expression: str) -> None:
    def nobody() -> Machines:
        raise AssertionError("Vagrant was asked")

    site = Inventory(SITE, {"rack": tuple(SITE)}, machines=nobody)
    assert all(not host.name.startswith("vagrant://") for host in select(expression, site))


@pytest.mark.parametrize(
    ("expression", "sentence", "hint"),
    [
        ("vagrant://nope", "the Vagrantfile has no such machine", "it has: node1, node2, node9"),
        ("vagrant://x*", r"no such machine runs: node9 is not created", "vagrant up"),
        ("vagrant://a b", "is not the name of a host", "letters"),
        ("vagrant://-x", "is not the name of a host", "letters"),
        ("root@vagrant://web", "is no port", "ports"),
    ],
)
def test_what_cannot_be_meant_is_refused(expression: str, sentence: str, hint: str) -> None:
    with pytest.raises(UsageError, match=sentence) as refused:
        select(expression, inventory())
    assert hint in refused.value.hint


def test_names_stay_whole_when_they_are_folded() -> None:
    assert fold(["vagrant://node1", "gpu2", "gpu1"]) == "gpu[1-2],vagrant://node1"


WAY = "1795334089,node2,ssh-config," + V23.replace("node1", "node2").replace("\n", "\\n")


class Vagrant:
    """A ``vagrant`` on PATH that answers from files, and writes down what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.says("status", STATUS)
        self.says("ssh-config", WAY)
        program = folder / "vagrant"
        program.write_text(
            "#!/bin/sh\n"
            f'echo "$*" >>{self.log}\n'
            f'cat "{folder}/$1"; cat "{folder}/$1.err" >&2; exit "$(cat "{folder}/$1.rc")"\n'
        )
        program.chmod(0o755)

    def says(self, word: str, text: str, *, err: str = "", rc: int = 0) -> None:
        (self.folder / word).write_text(text)
        (self.folder / f"{word}.err").write_text(err)
        (self.folder / f"{word}.rc").write_text(str(rc))

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def vagrant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Vagrant:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return Vagrant(tmp_path)


def opened(hosts: str, *, hosts_file: str = "", exclude: str = "") -> Fleet:
    with open_fleet(Access(hosts=hosts, hosts_file=hosts_file, exclude=exclude)) as fleet:
        return fleet


def test_a_fleet_has_the_machines_that_run(vagrant: Vagrant) -> None:
    with open_fleet(Access(hosts="vagrant://")) as fleet:
        (host,) = fleet.hosts
        assert (host.name, host.address, host.user) == (
            "vagrant://node2",
            "192.168.121.15",
            "vagrant",
        )
        keys = Path(host.new_keys)
        assert keys.parent.is_dir()
        assert keys.parent.stat().st_mode & 0o077 == 0
    assert not keys.parent.exists()
    assert vagrant.asked == ["status --machine-readable", "ssh-config node2 --machine-readable"]


def test_vagrant_is_asked_once_and_only_where_it_is_named(vagrant: Vagrant, tmp_path: Path) -> None:
    opened("gpu[1-2]")
    assert vagrant.asked == []
    file = tmp_path / "hosts"
    file.write_text("vagrant://node2  # ours\n")
    opened("vagrant://node2,gpu1", hosts_file=str(file), exclude="vagrant://node2")
    assert len(vagrant.asked) == 2


def test_a_machine_that_does_not_run_is_one_host_out_of_reach(vagrant: Vagrant) -> None:
    fleet = opened("vagrant://node1,vagrant://node3,vagrant://node2")
    reached = [attempt(host, fleet.connect) for host in fleet.hosts]
    told = [
        (str(each.error), each.error.hint, each.error.exit_code) for each in reached if each.error
    ]
    assert told == [
        ("vagrant://node1 is not created", "vagrant up node1", ExitCode.UNREACHABLE),
        ("vagrant://node3 is shutoff", "vagrant up node3", ExitCode.UNREACHABLE),
    ]
    assert reached[2].error is None


@pytest.mark.parametrize("hosts", ["demo,vagrant://node2", "vagrant://node2,demo-healthy"])
def test_demo_nodes_are_not_mixed_with_machines(vagrant: Vagrant, hosts: str) -> None:
    with pytest.raises(UsageError, match="demo nodes cannot be mixed with machines of Vagrant"):
        opened(hosts)
    assert vagrant.asked == []


def test_whoever_waits_is_told_for_what(vagrant: Vagrant) -> None:
    said = StringIO()
    clock = iter(range(0, 100, 3))  # each look at it finds three more seconds gone
    heard = PlainProgress(said, lambda: next(clock))
    with open_fleet(Access(hosts="vagrant://node2", progress=heard)):
        assert said.getvalue() == "asking Vagrant: 1 of 2 after 3 s; vagrant status: done\n"


def test_a_machine_that_is_still_booting_is_told_of(vagrant: Vagrant) -> None:
    not_yet = (
        "1795334091,,error-exit,Vagrant::Errors::SSHNotReady,The provider reports\\nthat. So\n"
    )
    vagrant.says("ssh-config", not_yet, rc=1)
    fleet = opened("vagrant://node2")
    with pytest.raises(TransportError, match="vagrant://node2 is not ready for SSH"):
        fleet.connect(fleet.hosts[0])


@pytest.mark.parametrize(
    ("said", "err", "sentence", "hint"),
    [
        pytest.param(
            "1,,error-exit,Vagrant::Errors::NoEnvironmentError,A Vagrant one\\nis needed. Or",
            "noise",
            "vagrant status: A Vagrant one is needed.",
            "VAGRANT_CWD=FOLDER",
            id="no-vagrantfile",
        ),
        pytest.param(
            "1,,error-exit,VagrantPlugins::ProviderLibvirt::Errors::FogError,Error while "
            "connecting to Libvirt: no socket",
            "",
            "vagrant status: Error while connecting to Libvirt: no socket",
            "run it by hand: vagrant status",
            id="a-plug-in",
        ),
        pytest.param(
            "", "ruby: cannot load such file\n", "vagrant status: ruby: cannot load such file",
            "by hand", id="broken-ruby",
        ),
        pytest.param("", "", "vagrant status: it does not say why", "by hand", id="silent"),
    ],
)  # fmt: skip
def test_what_vagrant_complains_of_is_one_sentence(
    vagrant: Vagrant, said: str, err: str, sentence: str, hint: str
) -> None:
    vagrant.says("status", said, err=err, rc=1)
    with pytest.raises(InventoryError) as refused:
        opened("vagrant://node2")
    assert str(refused.value) == sentence
    assert hint in refused.value.hint


def test_without_vagrant_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="needs Vagrant, and it is not here"):
        opened("vagrant://node2")
