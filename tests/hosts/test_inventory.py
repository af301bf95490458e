"""Host files and Ansible inventories, as sites keep them and as they break."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolkit.errors import InventoryError
from toolkit.hosts.host import Host, Inventory, select
from toolkit.hosts.inventory import read_host_file, read_inventory

INI = """\
# a site
login1                              # not in a group
badwolf.example.com:5309

[gpu]
node[001:003]  ansible_user=ops bmc="bmc-{{ inventory_hostname }}"
node007 ansible_host=10.0.0.7 ansible_port=2222  # behind the switch

[storage]
ceph-[a:c].example.com

[cluster:children]
gpu
storage

[cluster:vars]
ansible_user = root
ansible_ssh_common_args = '-o ProxyJump=ops@gate:2200 -o "ServerAliveInterval 5" -C'
ntp_server = {{ lookup('env', 'NTP') }}

[gpu:vars]
ansible_ssh_private_key_file=~/.ssh/gpu

[all:vars]
ansible_user=nobody
"""

YAML = """\
---
all:
  vars:
    ansible_user: nobody
  hosts:
    login1:
    badwolf.example.com:5309:
  children:
    cluster:
      vars:
        ansible_user: root
        ansible_ssh_common_args: '-o ProxyJump=ops@gate:2200 -o "ServerAliveInterval 5" -C'
        ntp_server: "{{ lookup('env', 'NTP') }}"
        secret: !vault |
          $ANSIBLE_VAULT;1.1;AES256
          6238
      children:
        gpu:
          hosts:
            node[001:003]:
              ansible_user: ops
              bmc: "bmc-{{ inventory_hostname }}"
            node007:
              ansible_host: 10.0.0.7
              ansible_port: 2222
              disks: [a, b]
          vars:
            ansible_ssh_private_key_file: ~/.ssh/gpu
        storage:
          hosts:
            ceph-[a:c].example.com:
"""


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


@pytest.fixture(params=[("hosts", INI), ("hosts.ini", INI), ("hosts.yml", YAML), ("h", YAML)])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Inventory:
    """One site in both notations, by suffix and by its looks."""
    return read_inventory(write(tmp_path, *request.param))


def test_every_host_is_read_once(site: Inventory) -> None:
    nodes = ["node001", "node002", "node003", "node007"]
    ceph = ["ceph-a.example.com", "ceph-b.example.com", "ceph-c.example.com"]
    assert sorted(site.hosts) == sorted(["login1", "badwolf.example.com", *nodes, *ceph])


def test_groups_hold_their_children_s_hosts(site: Inventory) -> None:
    assert site.groups["gpu"] == ("node001", "node002", "node003", "node007")
    assert site.groups["cluster"] == site.groups["gpu"] + site.groups["storage"]
    assert set(site.hosts["node001"].groups) == {"gpu", "cluster"}


def test_a_host_knows_how_it_is_reached(site: Inventory) -> None:
    assert site.hosts["node001"] == Host(
        "node001",
        user="ops",
        jump="ops@gate:2200",
        bmc="bmc-node001",
        groups=site.hosts["node001"].groups,
        key_file="~/.ssh/gpu",
        options=(("ServerAliveInterval", "5"),),
    )
    assert (site.hosts["node007"].address, site.hosts["node007"].port) == ("10.0.0.7", 2222)
    assert site.hosts["badwolf.example.com"].port == 5309


def test_the_nearer_value_counts(site: Inventory) -> None:
    users = {name: site.hosts[name].user for name in ("node001", "node007", "login1")}
    assert users == {"node001": "ops", "node007": "root", "login1": "nobody"}


def test_a_quote_that_is_not_closed_is_named(tmp_path: Path) -> None:
    text = "gpu:\n  hosts:\n    n1:\n      ansible_ssh_common_args: '-o \"x'\n"
    with pytest.raises(InventoryError, match=r"hosts\.yml:4: No closing quotation"):
        read_inventory(write(tmp_path, "hosts.yml", text))


def test_blanks_around_a_line_say_nothing(tmp_path: Path) -> None:
    indented = "".join(f"\t {line} \n" for line in INI.split("\n"))
    found = read_inventory(write(tmp_path, "indented.ini", indented))
    assert found == read_inventory(write(tmp_path, "plain.ini", INI))


def test_a_yaml_without_all_has_the_groups_that_it_names(tmp_path: Path) -> None:
    found = read_inventory(write(tmp_path, "hosts.yml", "gpu:\n  hosts:\n    n1:\n"))
    assert found.groups == {"gpu": ("n1",)}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        pytest.param("n[1:3]", "n1 n2 n3", id="digits"),
        pytest.param("n[08:11]", "n08 n09 n10 n11", id="padded"),
        pytest.param("n[1:7:3]", "n1 n4 n7", id="step"),
        pytest.param("n[a:c]", "na nb nc", id="letters"),
        pytest.param("r[1:2]n[1:2]", "r1n1 r1n2 r2n1 r2n2", id="two"),
    ],
)
def test_ansible_s_ranges_unfold(tmp_path: Path, pattern: str, names: str) -> None:
    found = read_inventory(write(tmp_path, "hosts", f"[g]\n{pattern}\n"))
    assert " ".join(found.groups["g"]) == names


BROKEN_INI = [
    pytest.param("a\n[g\n", 2, id="section-not-closed"),
    pytest.param("[g:hosts2]\n", 1, id="unknown-kind-of-section"),
    pytest.param("[g]\na user\n", 2, id="word-that-is-no-variable"),
    pytest.param("[g]\na x='1\n", 2, id="quote-not-closed"),
    pytest.param("[g]\n\n# c\n-oProxyCommand=x\n", 4, id="option-for-a-name"),
    pytest.param("[g]\na;b\n", 2, id="shell-text"),
    pytest.param("[g]\nops@a\n", 2, id="user-in-a-name"),
    pytest.param("[g]\nn[3:1]\n", 2, id="range-backwards"),
    pytest.param("[g]\nn[1:99999999]\n", 2, id="range-without-end"),
    pytest.param("[g]\nn[a:3]\n", 2, id="range-of-two-kinds"),
    pytest.param("[g]\na\n[g:vars]\nx\n", 4, id="variable-without-value"),
    pytest.param("[g:children]\na b\n", 2, id="two-children-in-a-line"),
    pytest.param("a ansible_port=x\n", 1, id="port"),
    pytest.param("a ansible_port=70000\n", 1, id="port-too-high"),
    pytest.param("a ansible_host=-oX\n", 1, id="address-is-an-option"),
    pytest.param("a ansible_user='x y'\n", 1, id="user-with-a-blank"),
    pytest.param("a ansible_host={{ x }}\n".replace("{{ x }}", "'{{ x }}'"), 1, id="template"),
    pytest.param("a ansible_ssh_common_args='-J $(x)'\n", 1, id="jump-with-shell-text"),
]


@pytest.mark.parametrize(("text", "line"), BROKEN_INI)
def test_a_broken_ini_line_is_named(tmp_path: Path, text: str, line: int) -> None:
    file = write(tmp_path, "hosts", text)
    with pytest.raises(InventoryError, match=f"^{file}:{line}: "):
        read_inventory(file)


BROKEN_YAML = [
    pytest.param("all:\n  hosts:\n    - a\n", 3, id="list-of-hosts"),
    pytest.param("all:\n  host:\n    a:\n", 2, id="unknown-key"),
    pytest.param("all:\n  hosts: [\n", 3, id="not-yaml"),
    pytest.param("all:\n hosts:\n  a b:\n", 3, id="blank-in-a-name"),
    pytest.param("all:\n hosts:\n  a:\n   ansible_port: x\n", 4, id="port"),
    pytest.param("all:\n hosts:\n  ? [a]\n  : 1\n", 3, id="name-is-a-list"),
    pytest.param('{"_meta": {"hostvars": {}}}', 1, id="json-of-ansible-inventory"),
    pytest.param("all: 3\n", 1, id="group-is-a-number"),
]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"_meta": {"hostvars": {}}}', "this is the JSON of ansible-inventory --list"),
        ("kind: Config\n", "a mapping is expected here"),  # and no kubeconfig
    ],
)
def test_what_another_program_wrote_is_told_as_that(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InventoryError, match=says):
        read_inventory(write(tmp_path, "hosts.yml", text))


@pytest.mark.parametrize(("text", "line"), BROKEN_YAML)
def test_a_broken_yaml_line_is_named(tmp_path: Path, text: str, line: int) -> None:
    file = write(tmp_path, "hosts.yml", text)
    with pytest.raises(InventoryError, match=f"^{file}:{line}: "):
        read_inventory(file)


@pytest.mark.parametrize(
    "text",
    ["[a:children]\nb\n[b:children]\na\n", "[a:children]\na\n", "[a:children]\nnowhere\n"],
    ids=["two-in-a-ring", "its-own-child", "child-without-section"],
)
def test_groups_that_make_no_tree_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InventoryError):
        read_inventory(write(tmp_path, "hosts", text))


def test_a_yaml_text_is_never_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = f"all: {{hosts: {{a: {{x: !!python/object/apply:os.mkdir [{mark}]}}}}}}\n"
    assert set(read_inventory(write(tmp_path, "hosts.yml", text)).hosts) == {"a"}
    assert not mark.exists()


def test_what_is_no_inventory_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="No such file"):
        read_inventory(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(InventoryError, match="not UTF-8"):
        read_inventory(tmp_path / "binary")


def test_a_host_file_has_a_set_a_line(tmp_path: Path) -> None:
    text = "# ours\nn[1-2]  # two\n\nroot@n3:22\n@gpu!n9\nn1\n"
    known = Inventory({"n8": Host("n8"), "n9": Host("n9")}, {"gpu": ("n8", "n9")})
    found = read_host_file(write(tmp_path, "list", text), known)
    assert [host.name for host in found] == ["n1", "n2", "root@n3:22", "n8"]


@pytest.mark.parametrize("line", ["-x", "a b", "@nowhere", "n[1-"])
def test_a_broken_line_of_a_host_file_is_named(tmp_path: Path, line: str) -> None:
    file = write(tmp_path, "list", f"n1\n{line}\n")
    with pytest.raises(InventoryError, match=f"^{file}:2: "):
        read_host_file(file)


def test_a_host_file_has_no_more_hosts_than_any_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.hosts.inventory.MOST", 2)
    assert len(read_host_file(write(tmp_path, "list", "n1\nn2\n"))) == 2
    with pytest.raises(InventoryError, match=":3: more than 2 hosts"):
        read_host_file(write(tmp_path, "list", "n1\nn2\nn3\n"))


def test_a_host_file_without_hosts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="names no host"):
        read_host_file(write(tmp_path, "list", "# nobody\n"))


def kubernetes(folder: Path, *nodes: object, kind: str = "List") -> Path:
    file = folder / "nodes.json"
    file.write_text(json.dumps({"apiVersion": "v1", "items": nodes, "kind": kind}, indent=4))
    return file


def kube_node(name: str, address: str, **labels: str) -> dict[str, object]:
    """As kubectl prints a node, with what counts of it."""
    addresses = [
        {"address": address, "type": "InternalIP"},
        {"address": "2001:db8::ffff", "type": "InternalIP"},
        {"address": name, "type": "Hostname"},
    ]
    told = {f"nvidia.com/{key.replace('_', '.')}": value for key, value in labels.items()}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": told | {"node-role.kubernetes.io/worker": ""}},
        "status": {"addresses": addresses},
    }


@pytest.mark.parametrize("kind", ["List", "NodeList"])
def test_nodes_of_kubernetes_are_named_by_their_labels(tmp_path: Path, kind: str) -> None:
    file = kubernetes(
        tmp_path,
        kube_node("gpu1", "192.0.2.1", gpu_present="true", gpu_product="NVIDIA-H100"),
        kube_node("gpu2", "2001:db8::2", gpu_present="true", gpu_product="NVIDIA-A100"),
        kube_node("cpu1", "192.0.2.3"),
        kind=kind,
    )
    known = read_inventory(file)
    sets = {
        "@nvidia.com/gpu.present=true": ["gpu1", "gpu2"],
        "@nvidia.com/gpu.present&@nvidia.com/gpu.product=NVIDIA-A100": ["gpu2"],
        "@node-role.kubernetes.io/worker!@nvidia.com/gpu.present": ["cpu1"],
        "gpu*": ["gpu1", "gpu2"],
    }
    assert {each: [host.name for host in select(each, known)] for each in sets} == sets
    assert known.hosts["gpu2"].address == "2001:db8::2"
    assert known.hosts["gpu1"].sources == (("address", f"{file}, InternalIP"),)


def test_a_node_without_labels_is_a_host_in_no_group(tmp_path: Path) -> None:
    bare = kube_node("gpu1", "192.0.2.1") | {"metadata": {"name": "gpu1", "labels": None}}
    known = read_inventory(kubernetes(tmp_path, bare))
    assert [*known.hosts] == ["gpu1"]
    assert known.groups == {}


def kubeconfig(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One beside a kubectl that is this script of sh."""
    (folder / "kubectl").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    file = folder / "config"
    file.write_text("apiVersion: v1\nkind: Config\nclusters: []\ncurrent-context: here\n")
    return file


def test_a_cluster_is_asked_for_its_nodes_by_its_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = kubernetes(tmp_path, kube_node("gpu1", "192.0.2.1", gpu_present="true"))
    script = f'test "$1 $2" = "--kubeconfig {tmp_path}/config" && cat {listed}'
    known = read_inventory(kubeconfig(tmp_path, script, monkeypatch))
    assert [each.name for each in select("@nvidia.com/gpu.present=true", known)] == ["gpu1"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'The connection was refused' >&2; exit 1", "kubectl: The connection was refused"),
        ('echo \'{"kind": "List", "items": []}\'', "names no host"),
    ],
)
def test_a_cluster_that_does_not_tell_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    file = kubeconfig(tmp_path, script, monkeypatch)
    with pytest.raises(InventoryError, match=f"{file}: {said}"):
        read_inventory(file)


def test_a_kubeconfig_that_others_may_write_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = kubeconfig(tmp_path, f"touch {tmp_path}/run", monkeypatch)
    file.chmod(0o666)
    with pytest.raises(InventoryError, match="may be written by others"):
        read_inventory(file)
    file.chmod(0o600)
    (tmp_path / "kubectl").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InventoryError, match="a kubeconfig, and there is no kubectl"):
        read_inventory(file)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        pytest.param([], "names no host", id="none"),
        pytest.param([{"kind": "Pod", "metadata": {"name": "a"}}], "no nodes of", id="pods"),
        pytest.param([kube_node("-oProxyCommand=x", "::1")], "is not the name", id="hostile"),
        pytest.param([kube_node("gpu1", "a@b")], "is no name of a host", id="address"),
        pytest.param([kube_node("a", "::1"), kube_node("a", "::2")], "names a twice", id="twice"),
    ],
)
def test_what_is_no_list_of_nodes_is_refused(tmp_path: Path, nodes: list[object], why: str) -> None:
    with pytest.raises(InventoryError, match=why):
        read_inventory(kubernetes(tmp_path, *nodes))
