"""Inventories with files of variables, held against what ansible-inventory says of them."""

from __future__ import annotations

import json
import random
from itertools import starmap
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.ansible import Ansible
from toolkit.errors import InventoryError
from toolkit.hosts.host import Host
from toolkit.hosts.inventory import read_inventory

pytestmark = pytest.mark.sshd
GROUPS = ["all", "ungrouped", *(f"g{n}" for n in range(6))]
ENDINGS = ["", ".yml", ".yaml", ".json", ".ini", "/a.yml", "/b", "/.c"]
HOSTS = [f"n{n:02d}" for n in range(12)]


def draw(folder: Path, dice: random.Random) -> Path:
    """An inventory of nested groups; every port and user is another, so that each source shows."""
    count = iter(range(1000, 60000))

    def some(kind: str) -> dict[str, int | str]:
        number = next(count)
        ways: list[dict[str, int | str]] = [{"ansible_port": number}, {}]
        return dice.choice([*ways, {"ansible_user": f"{kind}{number}"}])

    groups = {
        group: {
            "vars": some("v") | {"ansible_group_priority": dice.randint(0, 3)},
            "hosts": {host: some("u") for host in dice.sample(HOSTS[2:], 3)},
            "children": dice.sample(GROUPS[3 + number :], len(GROUPS[3 + number :]) // 2),
        }
        for number, group in enumerate(GROUPS[2:])
    }
    loose = {host: some("u") for host in HOSTS[:3]}
    text = dice.choice([in_ini, in_yaml])(groups, loose, dice)
    (folder / "hosts").write_text(text)
    for kind, names in (("group_vars", GROUPS), ("host_vars", HOSTS)):
        for name in dice.sample(names, len(names) // 2):
            for end in dice.sample(ENDINGS, 2):
                file = folder / kind / f"{name}{end}"
                if not (file.parent.is_file() or file.is_dir()):
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(json.dumps(some("f")))
    return folder / "hosts"


def in_ini(groups: dict[str, Any], loose: dict[str, Any], dice: random.Random) -> str:
    def words(host: str, values: dict[str, int | str]) -> str:
        return " ".join([host, *(f"{key}={value}" for key, value in values.items())])

    parts = [
        part
        for name, each in groups.items()
        for part in (
            [f"[{name}]", *(words(*pair) for pair in each["hosts"].items())],
            [f"[{name}:vars]", *(f"{key}={value}" for key, value in each["vars"].items())],
            [f"[{name}:children]", *each["children"]],
        )
    ]
    dice.shuffle(parts)
    lines = [*starmap(words, loose.items()), *(line for part in parts for line in part)]
    return "\n".join(lines)


def in_yaml(groups: dict[str, Any], loose: dict[str, Any], dice: random.Random) -> str:
    def shuffled(each: dict[str, Any]) -> dict[str, Any]:
        return dict(dice.sample(list(each.items()), len(each)))

    named = {
        name: shuffled(each | {"children": dict.fromkeys(each["children"])})
        for name, each in shuffled(groups).items()
    }
    return json.dumps({"all": {"hosts": loose}, **named})


@pytest.mark.parametrize("seed", range(12))
def test_each_host_is_reached_as_ansible_would(seed: int, tmp_path: Path) -> None:
    file = draw(tmp_path, random.Random(seed))  # noqa: S311 the same each time
    asked = Ansible(tmp_path, tmp_path).run("ansible-inventory", "-i", str(file), "--list")
    told = json.loads(asked.text[asked.text.index("{") :])
    said = told["_meta"]["hostvars"]
    ours = {name: (each.port, each.user) for name, each in read_inventory(file).hosts.items()}
    theirs = {name: said.get(name, {}) for name in ours}
    assert ours == {
        name: (each.get("ansible_port", 0), each.get("ansible_user", ""))
        for name, each in theirs.items()
    }
    assert sum(map(bool, theirs.values())) > len(HOSTS) // 2


def test_a_program_is_run_by_ansible_and_its_answer_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"gpu": {"hosts": ["n1"], "vars": {"ansible_user": "ops"}}, "_meta": {"hostvars": {}}}
    program = tmp_path / "hosts.sh"
    program.write_text(f"#!/bin/sh\nprintf '%s' '{json.dumps(said)}'\n")
    program.chmod(0o755)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/gpu").write_text("ansible_port: 7\n")
    for name, value in Ansible(tmp_path, tmp_path).env().items():
        monkeypatch.setenv(name, value)
    assert read_inventory(program).hosts == {"n1": Host("n1", user="ops", port=7, groups=("gpu",))}
    program.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(InventoryError, match="Ansible cannot read it"):
        read_inventory(program)
