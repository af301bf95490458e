"""What inventories may say at their edges: INI, lists of Kubernetes, Ansible's own answers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import InventoryError
from toolkit.hosts.ansible import (
    Group,
    VariableValue,
    _evaluate,
    _priority,
    _ssh_arguments,
    gather,
    plain_name,
    unfold_ansible,
)
from toolkit.hosts.ansible_files import _within, ask_ansible, listed
from toolkit.hosts.host import Inventory
from toolkit.hosts.inventory import (
    _looks_like_yaml,
    _nodes_of,
    read_ini,
    read_inventory,
    read_kubernetes,
)


def said(text: str, *, vault: bool = False) -> VariableValue:
    return VariableValue(text, "file:1", vault=vault)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a ansible_port", "'ansible_port' is not a variable"),
        ("a 1x=2", "'1x=2' is not a variable"),
        ("a =2", "'=2' is not a variable"),
        ("a x='2", "No closing quotation"),
        ("[g:other]", "'[g:other]' is no section"),
        ("[g:vars]\nno value", "'no value' is not a variable"),
        ("node[3:1]", "is no range"),
        ("node[1:3:0]", "is no range"),
        ("node[a:C]", "is no range"),
        ("node[A:b]", "is no range"),
        ("node[1:c]", "is no range"),
    ],
)
def test_a_line_of_ini_that_cannot_be_read_is_named(text: str, says: str) -> None:
    with pytest.raises(InventoryError) as refused:
        read_ini(text, "hosts")
    assert f"hosts:{len(text.splitlines())}: " in str(refused.value)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("line", "text"),
    [("x = 1", "1"), ("x='a b'", "a b"), ('x="', '"'), ("x='a\"", "'a\""), ("x=aba", "aba")],
)
def test_a_variable_of_a_group_loses_the_quotes_around_it(line: str, text: str) -> None:
    assert read_ini(f"[g:vars]\n{line}\n", "hosts")["g"].values["x"].text == text


@pytest.mark.parametrize(
    ("text", "yaml"),
    [("---\na", True), ("# x\nall:\n", True), ("{}", True), ("[a:children]\n", False),
     ("[a:", False), ("web1\nall:\n", False), ("", False), ("  \n # x\n all: \n", True)],
)  # fmt: skip
def test_yaml_is_known_by_its_first_line(text: str, *, yaml: bool) -> None:
    assert _looks_like_yaml(text) is yaml


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("n[1:3]", ["n1", "n2", "n3"]),
        ("n[01:05:2]", ["n01", "n03", "n05"]),
        ("n[a:c:2]", ["na", "nc"]),
        ("n[1:1].x", ["n1.x"]),
    ],
)
def test_ranges_have_both_ends(pattern: str, names: list[str]) -> None:
    assert unfold_ansible(pattern, "x") == names


def test_a_pattern_stands_for_no_more_than_a_hundred_thousand() -> None:
    assert len(unfold_ansible("n[1:100000]", "x")) == 100_000
    for pattern in ("n[1:100001]", "n[1:50001]r[1:2]"):
        with pytest.raises(InventoryError, match="stands for more than 100000 hosts"):
            unfold_ansible(pattern, "x")
    assert unfold_ansible("n" * 1024, "x") == ["n" * 1024]
    with pytest.raises(InventoryError, match="a pattern of 1025 characters"):
        unfold_ansible("n" * 1025, "x")


def test_blanks_in_the_brackets_of_a_section_are_no_part_of_its_name() -> None:
    assert set(read_ini("[ g ]\na\n", "x")["g"].hosts) == {"a"}


def test_groups_may_lie_fifty_deep_and_any_number_costs_no_stack() -> None:
    def chain(count: int) -> Inventory:
        within = "".join(f"[g{n}:children]\ng{n + 1}\n" for n in range(1, count))
        return gather(read_ini(f"{within}[g{count}]\na\n", "x"), "x")

    assert chain(50).groups["g1"] == ("a",)
    for count in (51, 2000):
        with pytest.raises(InventoryError, match="contain"):
            chain(count)


def test_a_deeper_group_goes_over_its_parents_in_any_order_of_the_file() -> None:
    text = (
        "[x]\na\n[y:children]\nx\n[z:children]\ny\n"
        "[x:vars]\nansible_user=inner\n[y:vars]\nansible_user=outer\n"
    )
    found = gather(read_ini(text, "x"), "x")
    assert (found.hosts["a"].user, found.groups["z"]) == ("inner", ("a",))


def test_a_host_tells_where_each_part_of_its_way_was_said() -> None:
    values = "ansible_host=a ansible_ssh_host=b ansible_ssh_args='-i /k'"
    host = gather(read_ini(f"a {values} ansible_ssh_common_args='-J j'\n", "x"), "x").hosts["a"]
    assert (host.address, host.key_file, host.jump) == ("", "/k", "j")
    last = "x:1, ansible_ssh_common_args"
    assert sorted(host.sources) == [
        ("address", "x:1, ansible_host"), ("jump", last), ("key_file", last), ("options", last),
    ]  # fmt: skip


@pytest.mark.parametrize("part", ["ssh", "ssh_common", "ssh_extra"])
def test_a_way_may_stand_in_each_of_ansibles_arguments(part: str) -> None:
    host = gather(read_ini(f"a ansible_{part}_args='-J j'\n", "x"), "x").hosts["a"]
    assert (host.jump, dict(host.sources)["jump"]) == ("j", f"x:1, ansible_{part}_args")


@pytest.mark.parametrize("name", [7, None, "root@a", "a:22", "a b"])
def test_what_is_no_name_of_a_host_is_refused(name: object) -> None:
    with pytest.raises(InventoryError, match=r"^x: "):
        plain_name(name, "x")


@pytest.mark.parametrize(
    ("text", "priority"), [("", 1), ("5", 5), ("-5", -5), ("high", 1), ("1234567890", 1)]
)
def test_the_priority_of_a_group_is_a_number(text: str, priority: int) -> None:
    group = Group()
    assert _priority(group) == 1
    group.values["ansible_group_priority"] = said(text)
    assert _priority(group) == priority


def test_of_templates_only_the_hosts_own_name_is_understood() -> None:
    assert _evaluate("gpu1", None) == ""
    assert _evaluate("gpu1", said("{{inventory_hostname}}.lan {{ inventory_hostname }}")) == (
        "gpu1.lan gpu1"
    )
    for value in (said("{{ other }}"), said("{% if a %}"), said("x", vault=True)):
        with pytest.raises(InventoryError, match=r"file:1: .* only Ansible can"):
            _evaluate("gpu1", value)


@pytest.mark.parametrize(
    ("text", "jump", "key_file", "options"),
    [
        ("-J a -i /key", "a", "/key", ()),
        ("-Ja -i/key -C -v", "a", "/key", ()),
        ("-i", "", "", ()),
        ("-o ProxyJump=b -J a", "b", "", ()),
        ("-oUser=x -o 'Port 22'", "", "", (("User", "x"), ("Port", "22"))),
        ("-o A=1 -o A=2", "", "", (("A", "2"),)),
    ],
)
def test_what_ansible_tells_ssh_says_how_to_reach_a_host(
    text: str, jump: str, key_file: str, options: tuple[tuple[str, str], ...]
) -> None:
    found = _ssh_arguments("gpu1", {"ansible_ssh_common_args": said(text)})
    assert found == (jump, key_file, options)


@pytest.mark.parametrize(
    ("variables", "part", "value"),
    [
        ("ansible_host=a ansible_ssh_host=b", "address", "a"),
        ("ansible_ssh_host=b", "address", "b"),
        ("ansible_user=a ansible_ssh_user=b", "user", "a"),
        ("ansible_ssh_user=b", "user", "b"),
        ("ansible_port=1 ansible_ssh_port=2", "port", 1),
        ("ansible_ssh_port=2", "port", 2),
        ("ansible_ssh_private_key_file=/a ansible_private_key_file=/b", "key_file", "/a"),
        ("ansible_private_key_file=/b", "key_file", "/b"),
        ("bmc=bmc1", "bmc", "bmc1"),
    ],
)
def test_of_ansibles_names_for_one_thing_the_first_counts(
    variables: str, part: str, value: object, tmp_path: Path
) -> None:
    (tmp_path / "hosts.ini").write_text(f"gpu1 {variables}\n")
    (host,) = read_inventory(tmp_path / "hosts.ini").hosts.values()
    assert getattr(host, part) == value


def item(name: str, *addresses: tuple[str, str], labels: object = None) -> dict[str, Any]:
    told = [{"type": kind, "address": address} for kind, address in addresses]
    return {"metadata": {"name": name, "labels": labels}, "status": {"addresses": told}}


def test_a_node_of_kubernetes_is_reached_at_its_first_internal_address() -> None:
    both = (("ExternalIP", "1.2.3.4"), ("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1"))
    found = read_kubernetes(
        [
            item("a", *both, labels={"gpu": "h100"}),
            item("b", ("Hostname", "b")),
            item("10.0.0.3", ("InternalIP", "10.0.0.3")),
        ],
        "x",
    )
    assert [(e.name, e.address) for e in found.hosts.values()] == [
        ("a", "10.0.0.1"),
        ("b", ""),
        ("10.0.0.3", ""),
    ]
    assert found.groups["gpu"] == found.groups["gpu=h100"] == ("a",)
    with pytest.raises(InventoryError, match="x: names a twice"):
        read_kubernetes([item("a"), item("a")], "x")


@pytest.mark.parametrize(
    ("told", "are"),
    [
        ({"kind": "NodeList", "items": []}, True),
        ({"kind": "List", "items": [{}]}, True),
        ({"kind": "PodList", "items": []}, False),
        ({"kind": "List", "items": {}}, False),
        ({"items": []}, False),
    ],
)
def test_a_list_of_the_api_is_known_by_its_kind(told: dict[str, object], *, are: bool) -> None:
    assert _nodes_of(f" {json.dumps(told)}") == (told["items"] if are else None)
    assert _nodes_of(json.dumps(told)[:-1]) is None


def test_a_folder_of_variables_has_files_of_ansibles_endings_alone(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "old.d").mkdir()
    for name in ("b.yml", "a", "c.json", ".d.yml", "e.yml~", "f.txt", "inner/g.yaml", "old.d/h"):
        (tmp_path / name).write_text("")
    found = [str(each.relative_to(tmp_path)) for each in _within(tmp_path)]
    assert found == ["a", "b.yml", "c.json", "inner/g.yaml"]


@pytest.mark.parametrize(
    ("code", "stderr", "says"),
    [
        (1, "x\nERROR! no such\nlast\n", "ansible-inventory: ERROR! no such"),
        (1, "first\nlast\n\n", "ansible-inventory: last"),
        (1, "", "x: ansible-inventory: $"),
        (1, "ERROR" + 400 * "y", "ERROR" + 295 * "y" + "$"),
        (0, "[WARNING]: Unable to parse x\n", "x: Ansible cannot read it"),
    ],
)
def test_what_ansible_refuses_is_told_in_its_words(
    code: int, stderr: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.CompletedProcess([], code, b"{}", stderr.encode())
    monkeypatch.setattr("shutil.which", lambda _: "/bin/ansible-inventory")
    monkeypatch.setattr("subprocess.run", lambda *_, **__: ended)
    with pytest.raises(InventoryError, match=says):
        ask_ansible(Path("x"), "a program")


def test_what_ansible_lists_has_each_host_once_with_what_is_said_of_it() -> None:
    told = {
        "_meta": {"hostvars": {"a": {"ansible_user": "root"}}},
        "all": {"children": ["ungrouped", "g"]},
        "g": {"hosts": ["a", "b"], "children": ["inner"]},
        "ungrouped": {"hosts": ["c"]},
    }
    found = listed(json.dumps(told), "x")
    assert set(found) == {"all", "g", "inner"}
    assert found["all"].children == []
    assert {name: set(values) for name, values in found["all"].hosts.items()} == {
        "a": {"ansible_user"},
        "b": set(),
    }
