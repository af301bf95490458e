"""Slurm's nodes as hosts: its partitions, features, node sets and states are groups."""

from __future__ import annotations

import pytest

from toolkit.errors import UsageError
from toolkit.facts.slurm import SlurmConfig, SlurmNode
from toolkit.features.slurm.io import Slurm
from toolkit.features.slurm.run.nodes import (
    Site,
    SlurmHeld,
    inventory_of,
    open_site,
    refuse_strangers,
)
from toolkit.hosts.host import Host, Inventory, select
from toolkit.progress import Silent


def node(name: str, *features: str, partitions: tuple[str, ...] = ("gpu",)) -> SlurmNode:
    states = frozenset({"IDLE"})
    return SlurmNode(name, f"10.0.0.{name[-1]}", name, states, partitions, frozenset(features))


NODES = (
    node("gpu1", "h100", "ib", partitions=("gpu", "debug")),
    node("gpu2", "h100"),
    node("gpu3", "a100"),
    SlurmNode("login", "login", "login", frozenset({"DOWN"}), ("debug",)),
)
SITE = Site(Slurm(), SlurmConfig(), {n.name: n for n in NODES}, {"rack1": ("gpu1", "gpu3")})


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("@gpu", "gpu1 gpu2 gpu3"),
        ("@partition:debug", "gpu1 login"),
        ("@gpu&@h100", "gpu1 gpu2"),
        ("@feature:h100&@feature:ib", "gpu1"),
        ("@nodeset:rack1!gpu3", "gpu1"),
        ("@rack1", "gpu1 gpu3"),
        ("@state:idle&@debug", "gpu1"),
        ("gpu[1-2],login", "gpu1 gpu2 login"),
        ("gpu*", "gpu1 gpu2 gpu3"),
        ("@all", "gpu1 gpu2 gpu3 login"),
    ],
)
def test_hosts_are_chosen_by_what_slurm_knows_of_them(said: str, names: str) -> None:
    assert [each.name for each in select(said, inventory_of(SITE))] == names.split()


def test_a_name_that_two_kinds_have_must_be_said_in_full() -> None:
    nodes = {"a": node("a1", "gpu"), "b": node("b2")}
    found = inventory_of(Site(Slurm(), SlurmConfig(), {n.name: n for n in nodes.values()}))
    with pytest.raises(UsageError, match="no group 'gpu'") as why:
        select("@gpu", found)
    assert "feature:gpu" in why.value.hint
    assert [each.name for each in select("@feature:gpu", found)] == ["a1"]


def test_a_node_is_reached_at_its_address_unless_the_site_knows_better() -> None:
    own = Inventory(
        {"gpu2": Host("gpu2", "192.0.2.2", "ops", 2222), "x": Host("x")}, {"g": ("gpu2", "x")}
    )
    found = inventory_of(SITE, own)
    assert found.hosts["gpu1"].address == "10.0.0.1"
    assert found.hosts["login"].address == ""
    assert found.hosts["gpu2"] == Host("gpu2", "192.0.2.2", "ops", 2222)
    assert [each.name for each in select("@g", found)] == ["gpu2"]  # x is no node of Slurm's
    bare = inventory_of(SITE, Inventory({"gpu1": Host("gpu1", user="ops")}, {}))
    assert (bare.hosts["gpu1"].address, bare.hosts["gpu1"].user) == ("10.0.0.1", "ops")


def test_a_host_that_slurm_does_not_know_is_refused() -> None:
    refuse_strangers((Host("root@gpu1:22"),), SITE)
    with pytest.raises(UsageError, match="Slurm has no node gpu9"):
        refuse_strangers((Host("gpu1"), Host("gpu9")), SITE)


def test_node_sets_of_the_configuration_are_lists_features_or_all_nodes() -> None:
    class Said(Slurm):
        def nodes(self, names: str = "") -> str:
            told = "NodeName={} State=IDLE ActiveFeatures={}\n"
            return told.format("a1", "x") + told.format("a2", "y") + told.format("b1", "x")

        def config(self) -> str:
            return "SLURM_CONF = /nowhere/slurm.conf\n"

        def config_file(self, path: str) -> str:
            return "NodeSet=l Nodes=a[1-2],b1\nNodeSet=f Feature=x\nNodeSet=e Nodes=ALL\n"

    assert open_site(Silent(), Said()).nodesets == {
        "l": ("a1", "a2", "b1"),
        "f": ("a1", "b1"),
        "e": ("a1", "a2", "b1"),
    }


def test_of_several_nodes_the_one_of_that_name_is_looked_at() -> None:
    class Two(Slurm):
        def nodes(self, names: str = "") -> str:
            return "".join(f"NodeName={name} State=IDLE\n" for name in ("a1", "a2"))

        def config(self) -> str:
            return "ClusterName = site\n"

        def config_file(self, path: str) -> str:
            raise AssertionError(path)

    site = open_site(Silent(), Two())
    assert site.nodesets == {}, "there is no file that would name any"
    assert (site.look("a2").name, site.glance("a2").name) == ("a2", "a2")
    with pytest.raises(SlurmHeld, match="a3: Slurm has no such node any more"):
        site.look("a3")


def test_without_slurm_s_commands_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UsageError, match="needs Slurm's commands, and scontrol is not here"):
        open_site(Silent())
