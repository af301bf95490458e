"""Files of variables beside an inventory, folders of inventories, and ways that are not ours."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.invoked import gdr
from toolkit.errors import InventoryError
from toolkit.hosts.ansible_files import listed
from toolkit.hosts.host import Host
from toolkit.hosts.inventory import read_inventory

HOSTS = "[gpu]\nn1\nn2\n[rack:children]\ngpu\n"
VAULT = "$ANSIBLE_VAULT;1.1;AES256\n6238\n"


def laid(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def first(folder: Path, files: Mapping[str, str], inventory: str = HOSTS) -> Host:
    return read_inventory(laid(folder, {"hosts": inventory, **files}) / "hosts").hosts["n1"]


@pytest.mark.parametrize(
    ("files", "port"),
    [
        ({"group_vars/gpu": "ansible_port: 1\n"}, 1),
        ({"group_vars/gpu.yml": "ansible_port: 1\n"}, 1),
        ({"group_vars/gpu.json": '{"ansible_port": 1}'}, 1),
        ({"group_vars/gpu.ini": "ansible_port: 1\n"}, 0),
        ({"group_vars/gpu.yml": "ansible_port: 1\n", "group_vars/gpu.json": "{}"}, 1),
        ({"group_vars/gpu/b.yml": "ansible_port: 2\n", "group_vars/gpu/a": "ansible_port: 1\n"}, 2),
        ({"group_vars/gpu/more/a.yml": "ansible_port: 1\n"}, 1),
        ({"group_vars/gpu/a.yml~": "ansible_port: 1\n", "group_vars/gpu/.a.yml.swp": "x"}, 0),
        ({"group_vars/gpu.yml": ""}, 0),
        ({"group_vars/all.yml": "ansible_port: 1\n", "group_vars/gpu.yml": "ansible_port: 2\n"}, 2),
        ({"group_vars/rack": "ansible_port: 1\n", "group_vars/gpu": "ansible_port: 2\n"}, 2),
        ({"group_vars/gpu": "ansible_port: 1\n", "host_vars/n1.yml": "ansible_port: 2\n"}, 2),
        ({"host_vars/n2.yml": "ansible_port: 2\n"}, 0),
        ({"group_vars": "no folder"}, 0),
        ({"group_vars/gpu": "ansible_port: !unsafe 7\n"}, 7),
        ({"group_vars/gpu": "ansible_port: [1]\n"}, 0),
        ({"group_vars/ungrouped": "ansible_port: 1\n"}, 0),
    ],
)
def test_a_file_of_variables_counts_as_ansible_has_it(
    files: dict[str, str], port: int, tmp_path: Path
) -> None:
    assert first(tmp_path, files).port == port


@pytest.mark.parametrize(
    ("inventory", "file", "port"),
    [
        ("[gpu]\nn1\n[gpu:vars]\nansible_port=1\n", "group_vars/gpu", 9),
        ("[gpu]\nn1\n[gpu:vars]\nansible_port=1\n", "group_vars/all", 9),
        ("[gpu]\nn1 ansible_port=1\n", "group_vars/gpu", 1),
        ("[gpu]\nn1 ansible_port=1\n", "host_vars/n1", 9),
        ("n1\n", "group_vars/ungrouped", 9),
        ("[a:children]\nb\n[b]\nn1 ansible_port=1\n[a]\nn1 ansible_port=2\n", "x", 2),
        ("[a]\nn1\n[b]\nn1\n[b:vars]\nansible_port=1\n[a:vars]\nansible_group_priority=2\n"
         "ansible_port=2\n", "group_vars/all.txt", 2),
    ],
)  # fmt: skip
def test_files_and_the_inventory_have_their_order(
    inventory: str, file: str, port: int, tmp_path: Path
) -> None:
    assert first(tmp_path, {file: "ansible_port: 9\n"}, inventory).port == port


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("group_vars/all/vault.yml", VAULT, "vault.yml: a vault, which only Ansible can open"),
        ("group_vars/gpu", "ansible_port: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  62\n",
         "gpu:1: it is in a vault"),
        ("group_vars/gpu", "ansible_host: '{{ x }}'\n", "gpu:1: a template, which only"),
        ("group_vars/gpu", "- a\n", "gpu:1: a mapping is expected here"),
        ("host_vars/n1", "a: [\n", "n1:2: "),
        ("host_vars/n1", "x: &x {ansible_user: a}\n<<: *x\n", "n1:2: '<<' takes another mapping"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_there_is_named(file: str, text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match=why):
        first(tmp_path, {file: text})


def test_a_secret_that_says_nothing_of_the_way_is_left_alone(tmp_path: Path) -> None:
    text = "password: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  62\nansible_user: ops\n"
    assert first(tmp_path, {"group_vars/gpu": text}).user == "ops"


@pytest.mark.parametrize(
    ("variables", "away"),
    [
        *(
            (f"ansible_connection={way}", "")
            for way in ("ssh", "smart", "paramiko", "paramiko_ssh")
        ),
        ("ansible_connection=ansible.builtin.ssh", ""),
        (
            "ansible_connection=local",
            "this very machine by ansible_connection=local, which --transport local judges",
        ),
        (
            "ansible_become_user='{{ x }}'",
            "reached as ansible_become_user says, which only Ansible can evaluate",
        ),
        (
            "ansible_connection=docker",
            "reached by ansible_connection=docker, and we have SSH alone",
        ),
        ("ansible_become_method=su", "root by ansible_become_method=su, and we have sudo alone"),
        ("ansible_become_method=su ansible_user=root", ""),
        ("ansible_become_method=ansible.builtin.sudo ansible_become_user=root", ""),
        ("ansible_become_user=ops", "changed as ansible_become_user=ops, and we need root"),
    ],
)
def test_a_way_that_is_not_ours_is_named(variables: str, away: str, tmp_path: Path) -> None:
    assert first(tmp_path, {}, f"n1 {variables}\n").away == away


def test_a_folder_is_the_sum_of_its_files(tmp_path: Path) -> None:
    files = {
        "site/10-gpu.yml": "gpu:\n  hosts:\n    n1:\n",
        "site/20-more": "[gpu]\nn1 ansible_user=ops\nn2\n",
        "site/README.md": "none of it",
        "site/.git/config": "[core]\n",
        "site/sub/30-rack": "[rack]\nn3\n",
        "site/group_vars/gpu": "ansible_port: 1\n",
        "group_vars/gpu": "ansible_port: 2\n",
    }
    found = read_inventory(laid(tmp_path, files) / "site")
    assert found.groups == {"gpu": ("n1", "n2"), "rack": ("n3",)}
    assert found.hosts["n1"] == Host("n1", user="ops", port=1, groups=("gpu",))


@pytest.mark.parametrize("files", [{}, {"hosts": "[gpu]\n"}, {"hosts.yml": "all:\n"}])
def test_one_that_names_nobody_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="names no host"):
        read_inventory(laid(tmp_path, files))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hosts.py", "#!/usr/bin/env python3\n"),
        ("aws_ec2.yml", "plugin: amazon.aws.aws_ec2\nregions: [eu-central-1]\n"),
    ],
)
def test_what_only_ansible_reads_is_asked_of_it(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = laid(tmp_path, {name: text}) / name
    source.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(InventoryError, match="which only Ansible can read"):
        read_inventory(source)
    said = {"_meta": {"hostvars": {"n1": {"ansible_port": 7}}}, "gpu": {"hosts": ["n1"]}}
    program = laid(tmp_path, {"bin/ansible-inventory": ""}) / "bin/ansible-inventory"
    program.write_text(f"#!/bin/sh\nprintf '%s' '{json.dumps(said)}'\n")
    program.chmod(0o755)
    assert read_inventory(source).hosts == {"n1": Host("n1", port=7, groups=("gpu",))}
    program.write_text("#!/bin/sh\necho '[ERROR]: no such region' >&2; exit 1\n")
    with pytest.raises(InventoryError, match=r"ansible-inventory: \[ERROR\]: no such region"):
        read_inventory(source)
    program.write_text("#!/bin/sh\necho 'Unable to parse x as an inventory source' >&2; echo {}\n")
    with pytest.raises(InventoryError, match="Ansible cannot read it"):
        read_inventory(source)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"_meta": {}}', '{"_meta": {"hostvars": {"n": 1}}}']
)
def test_other_words_are_no_list_of_ansibles(text: str) -> None:
    with pytest.raises(InventoryError, match="not what ansible-inventory --list prints"):
        listed(text, "x")


def test_a_file_that_may_be_run_and_is_no_program_is_read(tmp_path: Path) -> None:
    source = laid(tmp_path, {"hosts": "n1\n"}) / "hosts"
    source.chmod(0o777)
    assert set(read_inventory(source).hosts) == {"n1"}


def test_the_table_shows_each_way_and_whom_nobody_reaches(tmp_path: Path) -> None:
    laid(tmp_path, {
        "hosts": "[gpu]\nn1\nn2 ansible_connection=docker\n",
        "group_vars/gpu": "ansible_ssh_common_args: -J op@gate\n",
    })  # fmt: skip
    told = gdr("hosts", "--inventory", str(tmp_path / "hosts"), "--hosts", "@gpu", state=tmp_path)
    assert told.stdout.splitlines()[0].split() == [
        "name",
        "address",
        "user",
        "port",
        "jump",
        "groups",
    ]
    assert told.stdout.count("op@gate") == 2
    assert "n2 is reached by ansible_connection=docker, and we have SSH alone" in told.stdout


def test_what_ansible_lists_may_be_in_a_vault() -> None:
    variables = {"ansible_port": {"__ansible_vault": VAULT}, "disks": ["a"], "n": {"x": 1}}
    told = listed(json.dumps({"_meta": {"hostvars": {"n1": variables}}}), "x")["all"].hosts["n1"]
    assert {name: each.vault for name, each in told.items()} == {"ansible_port": True}


def test_the_later_line_of_a_yaml_counts_whatever_it_is_below(tmp_path: Path) -> None:
    text = (
        "g:\n  hosts: {n1: {ansible_user: a}}\n  children: {k: {hosts: {n1: {ansible_user: b}}}}\n"
    )
    assert read_inventory(laid(tmp_path, {"h.yml": text}) / "h.yml").hosts["n1"].user == "b"


@pytest.mark.parametrize("option", ["-o ProxyCommand={}", "-o 'ProxyCommand {}'"])
def test_a_proxy_command_has_its_own_blanks_and_equal_signs(option: str, tmp_path: Path) -> None:
    command = "ssh -o A=b -W %h:%p gate"
    line = option.format(f'"{command}"' if "=" in option[:17] else command)
    args = json.dumps({"ansible_ssh_common_args": line})
    found = first(tmp_path, {"group_vars/gpu.json": args})
    assert found.options == (("ProxyCommand", command),)


@pytest.mark.root
@pytest.mark.parametrize("planted", ["group_vars/gpu", "host_vars", "site/hosts"])
def test_what_another_user_planted_is_refused(planted: str, tmp_path: Path) -> None:
    laid(tmp_path, {
        "hosts": HOSTS, "site/hosts": HOSTS, "group_vars/gpu": "{}", "host_vars/n1": "{}"
    })  # fmt: skip
    read_inventory(tmp_path / "hosts")
    (tmp_path / planted).parent.chmod(0o1777)
    os.chown(tmp_path / planted, 65534, 65534)
    with pytest.raises(InventoryError, match="is user 65534's, in a folder that all may write to"):
        read_inventory(tmp_path / ("site" if planted.startswith("site") else "hosts"))


def test_a_pipe_is_not_waited_for_and_a_ring_of_links_is_no_file(tmp_path: Path) -> None:
    laid(tmp_path, {"hosts": HOSTS})
    (tmp_path / "group_vars").mkdir()
    os.mkfifo(tmp_path / "group_vars/gpu")
    with pytest.raises(InventoryError, match="neither a file nor a folder"):
        read_inventory(tmp_path / "hosts")
    (tmp_path / "group_vars/gpu").unlink()
    (tmp_path / "group_vars/gpu").symlink_to("gpu")
    with pytest.raises(InventoryError, match="cannot be read"):
        read_inventory(tmp_path / "hosts")


@pytest.mark.parametrize("hosts", ["abc", [1, 2], [None], ["a b"], ["-oX=y"], ["a:22"], ["u@a"]])
def test_what_is_no_name_is_refused_whoever_told_it(hosts: object) -> None:
    told = json.dumps({"_meta": {"hostvars": {}}, "gpu": {"hosts": hosts}})
    with pytest.raises(InventoryError):
        listed(told, "x")


def test_a_text_that_ansible_marks_as_unsafe_is_a_text() -> None:
    told = {"_meta": {"hostvars": {"n1": {"ansible_user": {"__ansible_unsafe": "ops"}}}}}
    assert listed(json.dumps(told), "x")["all"].hosts["n1"]["ansible_user"].text == "ops"
