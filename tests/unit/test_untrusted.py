"""Texts made to cost their reader more than their bytes: one sentence, within a second."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import toolkit
from toolkit.errors import InventoryError, ToolkitError, UsageError
from toolkit.facts.firmware.redfish_json import read_object
from toolkit.facts.kube import parse_cluster
from toolkit.features.kubernetes.io import _read_answer
from toolkit.hosts.host import select
from toolkit.hosts.inventory import read_host_file, read_inventory
from toolkit.redfish.client import _message
from toolkit.redfish.resource import parsed
from toolkit.untrusted import Unreadable, read_json, read_toml, read_yaml_nodes
from toolkit.want import Want

MANY = 1 << 18
LIMIT_S = 10  # of a busy processor; an idle one takes none of these a second
PACKAGE = Path(toolkit.__file__).parent


def laughs(first: str, line: str, last: str) -> str:
    """Each names the one before nine times."""
    rows = [line.format(n=n, nine=", ".join(9 * [f"*a{n - 1}"])) for n in range(1, 30)]
    return "\n".join([first, *rows, last])


def group_of(*values: str) -> str:
    return "all:\n" + "".join(f"  {each}\n" for each in values)


INVENTORIES = {
    "laughs.yml": laughs(
        "a0: &a0 {hosts: {x: {}}}", "a{n}: &a{n} {{vars: {{v: [{nine}]}}}}", "all: {}"
    ),
    "children.yml": "a0: &a0 {children: {x: {}}}\n"
    + "".join(f"a{n}: &a{n} {{children: {{x: *a{n - 1}, y: *a{n - 1}}}}}\n" for n in range(1, 40)),
    "itself.yml": "all: &a\n  children:\n    x: *a\n",
    "list-of-itself.yml": "all:\n  vars: &a\n    v: [*a]\n",
    "chain.yml": "a0: &a0 {x: {}}\n"
    + "".join(f"a{n}: &a{n} {{x: *a{n - 1}}}\n" for n in range(1, 3000)),
    "flow.yml": "all: " + "[" * MANY,
    "maps.yml": "all: " + "{a: " * MANY,
    "blocks.yml": "".join(" " * n + "a:\n" for n in range(900)),
    "lists.yml": "- " * MANY,
    "groups.ini": "[g0]\nhost\n"
    + "".join(f"[g{n}:children]\ng{n - 1}\n[h{n}:children]\ng{n - 1}\n" for n in range(1, 49))
    + "".join(f"[g{n}:children]\nh{n - 1}\n" for n in range(2, 49))
    + "[g48:children]\nnone\n",
    "ranges.ini": "[0:1]" * 5000 + "\n",
}


def in_time(work: Callable[[], object], kind: type[ToolkitError]) -> ToolkitError:
    begun = time.process_time()
    with pytest.raises(kind) as raised:
        work()
    assert time.process_time() - begun < LIMIT_S
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400
    return raised.value


@pytest.mark.parametrize("name", INVENTORIES)
def test_an_inventory_that_is_a_bomb(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text(INVENTORIES[name])
    error = in_time(lambda: read_inventory(file), InventoryError)
    assert name in str(error)
    assert error.hint


def test_groups_that_many_lead_to_are_looked_into_once(tmp_path: Path) -> None:
    file = tmp_path / "hosts.ini"
    both = "".join(f"[g{n}:children]\ng{n - 1}\nh{n - 1}\n" for n in range(1, 40))
    both += "".join(f"[h{n}:children]\ng{n - 1}\nh{n - 1}\n" for n in range(1, 40))
    file.write_text("[g0]\na\n[h0]\nb\n" + both)
    begun = time.process_time()
    assert read_inventory(file).groups["g39"] == ("a", "b")
    assert time.process_time() - begun < LIMIT_S


def test_aliases_as_sites_write_them_are_read(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yml"
    file.write_text(
        "gpu:\n  vars: &common\n    ansible_user: ops\n  hosts: {gpu1: {}}\n"
        "login:\n  vars: *common\n  hosts: {login1: {}}\n"
    )
    hosts = read_inventory(file).hosts
    assert {name: host.user for name, host in hosts.items()} == {"gpu1": "ops", "login1": "ops"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a = " + "[" * MANY, id="lists"),
        pytest.param("a = " + "{a = " * MANY, id="tables"),
        pytest.param("a." * MANY + "a = 1", id="a-long-key"),
        pytest.param('"a" . ' * MANY + "a = 1", id="a-long-key-in-quotes"),
        pytest.param("[" + "a." * MANY + "a]", id="a-long-header"),
        pytest.param("[" + "a." * 60 + "a]\n" + "b." * 60 + "b = 1", id="a-deep-table"),
        pytest.param("a = " + "9" * MANY, id="a-long-number"),
        pytest.param("a = \udcff", id="no-text"),
    ],
)
def test_a_site_file_that_is_a_bomb(tmp_path: Path, text: str) -> None:
    file = tmp_path / "site.toml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    error = in_time(lambda: Want.load("peermem", site=file), UsageError)
    assert error.hint


def test_a_site_file_without_end_is_not_read_to_it() -> None:
    error = in_time(lambda: Want.load("peermem", site=Path("/dev/zero")), UsageError)
    assert "longer than 32 MiB" in str(error)


DEEP = ["[" * MANY, '{"a":' * MANY, "[" * 500 + "]" * 500, '{"a":' * 900 + "1" + "}" * 900]
READERS: dict[str, Callable[[str], object]] = {
    "bmc": lambda text: read_object("redfish", text),
    "bmc-live": lambda text: parsed("bmc7", "/redfish/v1", text),
    "kubectl": lambda text: _read_answer(text, "get nodes"),
    "kubectl-saved": parse_cluster,
}


@pytest.mark.parametrize("text", DEEP, ids=["lists", "tables", "whole-lists", "whole-tables"])
@pytest.mark.parametrize("reader", READERS)
def test_json_that_is_nested_without_end(reader: str, text: str) -> None:
    in_time(lambda: READERS[reader](text), ToolkitError)


@pytest.mark.parametrize("said", [b"{", b'{"a":' * 9999, b"[1]", b"<html>", b"\xff"])
def test_what_a_bmc_says_beside_its_yes_may_be_anything(said: bytes) -> None:
    assert _message(said) == ""


def test_what_is_well_made_is_read() -> None:
    assert read_json('{"a": [1, "x"]}') == {"a": [1, "x"]}
    assert read_json("[" * 60 + "]" * 60)
    assert read_toml("[a.b]\nc = 'www." + "x." * 30 + "org'") == {
        "a": {"b": {"c": "www." + "x." * 30 + "org"}}
    }
    assert read_yaml_nodes("") is None
    assert read_yaml_nodes("[" * 64 + "]" * 64) is not None
    with pytest.raises(Unreadable, match="nested too deeply"):
        read_yaml_nodes("[" * 65 + "]" * 65)
    with pytest.raises(Unreadable, match="nested too deeply"):
        read_yaml_nodes(f"a: &x {'[' * 40}{']' * 40}\nb: {'[' * 40}*x{']' * 40}\n")
    more = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 8)]
    with pytest.raises(Unreadable, match="its aliases stand for more than 1000000 values"):
        read_yaml_nodes("a0: &a0 [x]\n" + "".join(more))
    with pytest.raises(Unreadable, match="not YAML") as raised:
        read_yaml_nodes("a: b\nc: d: e\n")
    assert raised.value.line == 2


def test_a_long_list_of_hosts_costs_no_more_than_its_names(tmp_path: Path) -> None:
    names = [f"n{n}" for n in range(20_000)]
    begun = time.process_time()
    assert [host.name for host in select(",".join(names))] == names
    assert time.process_time() - begun < 5  # quadratic, it takes a minute


def test_patterns_of_more_hosts_than_any_site_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.hosts.host.MOST", 1000)
    monkeypatch.setattr("toolkit.hosts.inventory.MOST", 1000)
    with pytest.raises(UsageError, match="more than 1000 hosts"):
        select("a[1-600],b[1-600]")
    file = tmp_path / "hosts"
    file.write_text("a[1-600]\nb[1-600]\n")
    with pytest.raises(InventoryError, match="hosts:2: more than 1000 hosts"):
        read_host_file(file)


READING = {
    "json": {"load", "loads", "JSONDecoder"},
    "tomllib": {"load", "loads"},
    "yaml": {"load", "load_all", "safe_load", "safe_load_all", "full_load", "unsafe_load"}
    | {"compose", "compose_all", "parse", "scan", "SafeLoader", "Loader", "CLoader", "CSafeLoader"},
}
_NAMED = re.compile(rf"\bfrom ({'|'.join(READING)}) |\b({'|'.join(READING)})\.(?!dumps?\b)\w")


def readers(tree: ast.Module) -> set[str]:
    """Whatever of these modules reads a text, as it is written there."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in READING.get(node.value.id, ()):
                found.add(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module in READING:
            found |= {f"{node.module}.{each.name}" for each in node.names}
    return found


def test_no_other_module_reads_what_others_wrote() -> None:
    found = {
        str(file.relative_to(PACKAGE)): readers(ast.parse(source))
        for file in PACKAGE.rglob("*.py")
        if "demo" not in file.relative_to(PACKAGE).parts
        and _NAMED.search(source := file.read_text("utf-8"))  # the others need no parsing
    }
    own = found.pop("untrusted.py")
    assert {"json.loads", "tomllib.loads", "yaml.compose"} <= own
    assert {file: each for file, each in found.items() if each} == {}
