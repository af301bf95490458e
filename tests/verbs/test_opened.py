"""A fleet is opened: which hosts, by which transport, and what is refused before any is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from msgspec.structs import replace

from toolkit.demo import fleet as demo
from toolkit.errors import TransportError, UsageError
from toolkit.facts.slurm import SlurmConfig, SlurmNode
from toolkit.features.slurm.io import Slurm
from toolkit.features.slurm.run import nodes as slurm_nodes
from toolkit.features.slurm.run.nodes import Site
from toolkit.features.slurm.run.srun import SrunTransport
from toolkit.hosts.host import Host, Machines
from toolkit.progress import Progress
from toolkit.redfish import fleet as redfish
from toolkit.redfish.access import BmcAccess, Login
from toolkit.ssh.become import Become
from toolkit.ssh.credentials import Credentials
from toolkit.ssh.limits import ANSWER
from toolkit.ssh.local import LocalTransport
from toolkit.ssh.openssh import OpensshTransport
from toolkit.ssh.paramiko import SshTransport
from toolkit.verbs import connect
from toolkit.verbs.access import (
    Access,
    Fleet,
    demo_folder,
    names_demo,
    names_ssh_config,
    site_file,
    wanted,
)
from toolkit.verbs.connect import open_fleet, resolve
from toolkit.want import Want

CONFIG = "Host gpu1 gpu2 *.example\n  User root\n  Port 2222\n"


def nobody() -> Machines:
    pytest.fail("Vagrant is asked")


def names(access: Access, slurm: Site | None = None) -> list[str]:
    return [host.name for host in resolve(access, nobody, slurm)]


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    """An inventory of three, a host file of one, and an ssh_config of two."""
    (tmp_path / "inventory.ini").write_text("[gpu]\ngpu1 ansible_user=own\ngpu2\n[all]\nlogin\n")
    (tmp_path / "hosts.txt").write_text("gpu2\n")
    (tmp_path / "ssh_config").write_text(CONFIG)
    (tmp_path / "ssh_config").chmod(0o644)
    return tmp_path


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"inventory": "inventory.ini"}, ["gpu1", "gpu2", "login"]),
        ({"inventory": "inventory.ini", "hosts": "@gpu"}, ["gpu1", "gpu2"]),
        ({"inventory": "inventory.ini", "hosts_file": "hosts.txt"}, ["gpu2"]),
        ({"hosts_file": "hosts.txt", "hosts": "gpu7"}, ["gpu2", "gpu7"]),
        ({"inventory": "inventory.ini", "exclude": "gpu1"}, ["gpu2", "login"]),
        ({"inventory": "inventory.ini", "limit": "gpu1"}, ["gpu1"]),
        ({"inventory": "ssh_config", "hosts": "gpu*"}, ["gpu1", "gpu2"]),
    ],
)
def test_the_hosts_are_those_that_are_named(
    said: dict[str, str], named: list[str], hosts: Path
) -> None:
    files = {"inventory", "hosts_file"}
    told = {key: str(hosts / value) if key in files else value for key, value in said.items()}
    assert sorted(names(Access(**told))) == named  # type: ignore[arg-type] # words alone


@pytest.mark.parametrize(
    ("inventory", "hint"),
    [("", "--hosts gpu[001-004], --hosts-file FILE"), ("ssh_config", "--hosts 'gpu*'")],
)
def test_where_nothing_is_named_it_says_how(inventory: str, hint: str, hosts: Path) -> None:
    """Of an ssh_config all its names are never meant unasked: it has others as well."""
    said = Access(inventory=str(hosts / inventory) if inventory else "")
    with pytest.raises(UsageError, match="no hosts named") as refused:
        names(said)
    assert hint in refused.value.hint


def test_more_hosts_than_a_slip_may_reach_need_consent() -> None:
    many = Access(hosts="gpu[1-2000]")
    with pytest.raises(UsageError, match="2000 hosts are more than"):
        names(many)
    assert len(names(replace(many, yes=True))) == 2000


def test_what_options_say_of_all_hosts_goes_behind_what_a_host_has_of_its_own(hosts: Path) -> None:
    access = Access(inventory=str(hosts / "inventory.ini"), user="bob", key="/key", limit="@gpu")
    own, other = resolve(access, nobody)
    assert (own.user, own.key_file) == ("own", "/key")
    assert (other.user, other.key_file) == ("bob", "/key")
    assert own.sources[-1] == ("key_file", "--key")
    assert other.sources[-2:] == (("user", "--user"), ("key_file", "--key"))
    assert resolve(Access(hosts="gpu1"), nobody)[0].sources == ()


def slurm() -> Site:
    found = {name: SlurmNode(name) for name in ("gpu1", "gpu2")}
    return Site(cast("Slurm", None), SlurmConfig(), found)


def test_of_slurm_s_nodes_all_are_known_and_no_others_are_meant(hosts: Path) -> None:
    site = slurm()
    assert names(Access(hosts="root@gpu[1-2]"), site) == ["root@gpu1", "root@gpu2"]
    assert site.watched == "gpu[1-2]"
    with pytest.raises(UsageError, match="login"):
        names(Access(hosts="login"), site)
    with pytest.raises(UsageError, match="no hosts named"):  # an inventory says how, not who
        names(Access(inventory=str(hosts / "inventory.ini")), site)


@pytest.mark.parametrize(
    ("access", "why", "hint"),
    [
        (Access(transport="rsh"), "no transport 'rsh'", "known: paramiko, openssh, local, srun"),
        (Access(via="pbs"), "--via 'pbs': not known", "--via slurm"),
        (Access(transport="srun"), "srun is for the nodes of Slurm", "add --via slurm"),
    ],
)
def test_a_way_that_there_is_not_is_refused(access: Access, why: str, hint: str) -> None:
    with pytest.raises(UsageError, match=why) as refused, open_fleet(replace(access, hosts="a")):
        pytest.fail("it is opened")
    assert hint in refused.value.hint


# --- the way to each host ---


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """For how many hosts open files were asked for."""
    asked: list[tuple[int, str]] = []
    monkeypatch.setattr(connect, "make_room", lambda *words: asked.append(words))
    return asked


@pytest.mark.parametrize(("fanout", "most"), [(2, 2), (9, 3)])
def test_there_is_room_for_as_many_as_are_reached_at_once(
    room: list[tuple[int, str]], fanout: int, most: int
) -> None:
    access = Access(hosts="gpu[1-3]", fanout=fanout, transport="openssh")
    with open_fleet(access) as fleet:
        assert [host.name for host in fleet.hosts] == ["gpu1", "gpu2", "gpu3"]
        assert fleet.access is access
        assert (fleet.demo, fleet.bmcs, fleet.slurm) == (False, None, None)
    assert room == [(most, "openssh")]


SECRETS = Credentials(become_password="hush")  # noqa: S106 of nobody
WAYS: dict[str, type] = {
    "paramiko": SshTransport,
    "openssh": OpensshTransport,
    "local": LocalTransport,
}


@pytest.mark.parametrize("transport", WAYS)
@pytest.mark.parametrize(("become", "wrapped"), [(True, False), (False, False), (True, True)])
def test_each_transport_has_all_that_was_said(
    transport: str, become: bool, wrapped: bool, hosts: Path
) -> None:
    file = str(hosts / "ssh_config")
    access = Access(
        hosts="gpu1",
        transport=transport,
        ssh_config=file,
        become=become,
        wrapped=wrapped,
        credentials=SECRETS,
        room=777,
    )
    with open_fleet(access) as fleet:
        way = fleet.connect(fleet.hosts[0])
        again = fleet.connect(fleet.hosts[0])
    assert type(way) is WAYS[transport]
    assert way.name == "gpu1"
    own = vars(way)
    assert own["_become"] == Become(become, "hush", wrapped)
    assert own["_hearing"] is vars(again)["_hearing"]  # over all that is asked of it in a run
    assert (own["_hearing"].name, own["_hearing"].room) == ("gpu1", 777)
    if transport == "openssh":
        assert own["_file"] == ["-F", file]
    if transport == "paramiko":
        assert own["_credentials"] is SECRETS
        assert own["_config"].target(fleet.hosts[0]).door.port == 2222


@pytest.mark.parametrize(("said", "file"), [("", "ssh_config"), ("other", "other")])
def test_an_ssh_config_that_names_the_hosts_says_how_they_are_reached(
    said: str, file: str, hosts: Path
) -> None:
    (hosts / "other").write_text("Host gpu1\n  Port 99\n")
    access = Access(
        hosts="gpu1",
        inventory=str(hosts / "ssh_config"),
        ssh_config=str(hosts / said) if said else "",
        transport="openssh",
    )
    with open_fleet(access) as fleet:
        assert vars(fleet.connect(fleet.hosts[0]))["_file"] == ["-F", str(hosts / file)]


def test_an_ssh_config_that_others_may_write_names_nobody(hosts: Path) -> None:
    """It says what ssh runs here."""
    (hosts / "ssh_config").chmod(0o666)
    assert names_ssh_config(str(hosts / "ssh_config"))
    with pytest.raises(UsageError, match="ssh_config: "):
        names(Access(inventory=str(hosts / "ssh_config"), hosts="gpu1"))
    assert not names_ssh_config("")
    assert not names_ssh_config(str(hosts / "none"))
    assert not names_ssh_config(str(hosts))
    assert not names_ssh_config(str(hosts / "inventory.ini"))


@pytest.mark.parametrize(
    ("host", "transport", "why", "hint"),
    [
        (Host("vagrant://a", away="off"), "paramiko", "vagrant://a is off", "vagrant up a"),
        (Host("vagrant://a", away="off"), "local", "vagrant://a is off", "vagrant up a"),
        (Host("a", away="by winrm"), "openssh", "a is by winrm", "leave it out"),
        (Host("a", away="by winrm"), "local", "", ""),
    ],
)
def test_where_nothing_of_ours_leads_nobody_knocks(
    host: Host, transport: str, why: str, hint: str
) -> None:
    with open_fleet(Access(hosts="b", transport=transport)) as fleet:
        if not why:
            assert fleet.connect(host).name == "a"
            return
        with pytest.raises(TransportError, match=why) as refused:
            fleet.connect(host)
    assert hint in refused.value.hint


@pytest.mark.parametrize("transport", ["srun", "paramiko"])
def test_by_srun_a_node_is_reached_in_jobs_of_ours(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried: list[bool] = []

    def open_site(_: Progress, *, carries: bool) -> Site:
        carried.append(carries)
        site = slurm()
        site.carries = carries
        return site

    monkeypatch.setattr(slurm_nodes, "open_site", open_site)
    access = Access(hosts="gpu1", via="slurm", transport=transport, jobs_s=5.0, become=False)
    with open_fleet(access) as fleet:
        way = fleet.connect(fleet.hosts[0])
    assert carried == [transport == "srun"]
    assert fleet.slurm is not None
    assert type(way) is (SrunTransport if carried[0] else SshTransport)
    if isinstance(way, SrunTransport):
        assert (way.host, way.site, way.room_s) == (fleet.hosts[0], fleet.slurm, 5.0)
        assert way.become == Become(False, None, False)


# --- simulated nodes ---


@pytest.mark.parametrize("serve", [True, False])
def test_simulated_nodes_are_served_for_who_asks_them(
    serve: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    begun: list[str] = []

    @contextmanager
    def start(text: str, folder: Path) -> Iterator[SimpleNamespace]:
        begun.append(text)
        yield SimpleNamespace(hosts=demo.named(text, folder))
        begun.append("ended")

    monkeypatch.setattr(demo, "start", start)
    access = Access(hosts="demo", exclude="demo-acs", limit="demo-acs,demo-healthy")
    with open_fleet(access, serve=serve) as fleet:
        assert [host.name for host in fleet.hosts] == ["demo-healthy"]
        assert (fleet.demo, fleet.slurm, fleet.access) == (True, None, access)
    assert begun == ["demo", "ended"] * serve


@pytest.mark.parametrize(
    ("hosts", "listed", "via", "simulated"),
    [
        ("demo", "", "", True),
        ("demo-healthy", "", "", True),
        ("gpu1", "", "", False),
        ("demo", "inventory.ini", "", False),
        ("demo", "", "slurm", False),
        ("vagrant://demo", "", "", False),
        ("vagrant://demo,gpu1", "", "", False),
    ],
)
def test_whose_nodes_are_meant(hosts: str, listed: str, via: str, simulated: bool) -> None:
    assert names_demo(hosts, listed, via) is simulated


@pytest.mark.parametrize("listed", ["hosts_file", "inventory"])
def test_a_site_s_own_host_may_be_called_demo(listed: str, hosts: Path) -> None:
    files = {"hosts_file": hosts / "hosts.txt", "inventory": hosts / "inventory.ini"}
    access = Access(hosts="demo", limit="demo")
    with open_fleet(replace(access, **{listed: str(files[listed])})) as fleet:
        assert ([host.name for host in fleet.hosts], fleet.demo) == (["demo"], False)


@pytest.mark.parametrize("hosts", ["demo-healthy", "gpu1"])
def test_bmcs_are_opened_for_the_hosts_where_they_are_wanted_and_end_with_the_fleet(
    hosts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    heard: list[object] = []

    @contextmanager
    def opened(*words: object) -> Iterator[list[object]]:
        yield [*words]
        heard.append("ended")

    monkeypatch.setattr(redfish, "open_bmcs", opened)
    access = Access(hosts=hosts, bmc=BmcAccess(Login("u", "p")))
    with open_fleet(access, serve=False) as fleet:
        assert cast("list[object]", fleet.bmcs) == [access.bmc, fleet.hosts]
        assert heard == []
    assert heard == ["ended"]


# --- what is wanted of them ---


def test_a_site_s_file_is_named_itself_or_by_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    assert site_file("") is None
    assert site_file(str(tmp_path)) is None  # a folder need not have one
    assert site_file(str(file)) == file  # one that is named and lacks is told of by who reads it
    file.write_text("[ssh]\n")
    assert site_file(str(tmp_path)) == file
    with pytest.raises(UsageError, match=r"none\.toml"):
        wanted("peermem", str(tmp_path / "none.toml"))


def test_what_is_wanted_is_the_profile_s_and_the_site_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site").mkdir()
    (tmp_path / "site/site.toml").write_text("keep_runs = 7\n")
    (tmp_path / "site/site.toml").chmod(0o644)
    assert wanted("peermem", "") == Want.load("peermem")  # and not of the folder that one is in
    assert wanted("peermem", "site").keep_runs == 7
    assert wanted("peermem", "site/site.toml").keep_runs == 7


def test_simulated_nodes_lie_where_runs_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert demo_folder().parent == tmp_path / "gdr-toolkit/demo"
    assert len(demo_folder().name) == 12


def test_of_a_fleet_that_is_left_each_link_is_closed() -> None:
    closed: list[str] = []

    class Link:
        def close(self) -> None:
            closed.append("closed")

    Fleet((), cast("Callable[[Host], Link]", None), Access()).leave(Host("a"), Link())  # type: ignore[arg-type] # of it nothing is asked
    assert closed == ["closed"]
    assert Access().room == ANSWER
