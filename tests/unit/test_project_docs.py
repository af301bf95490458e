"""Pages and tables say what the code says, and the package finds its folders."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from dev import bill, generate, reference
from dev.lab import box
from dev.lab.rows import rows as made_here
from dev.run import ROOT
from dev.tiers import table
from tests.unit.bills import told_of_the_schema
from toolkit import package_data
from toolkit.built.plan.gate_rules import Refused
from toolkit.checks.all import ALL, BY_ID
from toolkit.checks.check import Check, Impact, passed
from toolkit.cli.table import VERBS
from toolkit.errors import WORST_FIRST, ExitCode, ToolkitError, Unsupported
from toolkit.facts.distros import FAMILIES
from toolkit.facts.node.node import Node
from toolkit.want import Want, profiles


def _rows(page: str, first: str = r"[^|]+") -> list[tuple[str, ...]]:
    """The cells of each table row whose first cell looks like ``first``."""
    rows = (
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in (ROOT / page).read_text().split("\n")
        if line.startswith("|") and not line.startswith("|--")
    )
    return [row for row in rows if re.fullmatch(first, row[0])]


def test_the_table_of_exit_codes_is_the_enum() -> None:
    rows = _rows("docs/exit-codes.md", r"\d+")
    assert [(int(code), name.upper()) for code, name, _ in rows] == [
        (code.value, code.name) for code in ExitCode
    ]


def test_the_order_of_exit_codes_is_the_one_that_is_used() -> None:
    text = (ROOT / "docs/exit-codes.md").read_text()
    said = re.search(r"that occurred: ([\d,\s]+)\.", text)
    assert said is not None
    assert [int(code) for code in said[1].split(",")] == [code.value for code in WORST_FIRST]


def test_the_table_of_refusals_is_the_enum_and_the_script_says_no_other_word() -> None:
    told = (ROOT / "docs/builds.md").read_text().partition("| cause | the module |")[2]
    causes = re.findall(r"^\| ([a-z, -]+) \|", told.partition("\n\n")[0], re.MULTILINE)
    assert {word for each in causes for word in each.split(", ")} == {*map(str, Refused)}
    script = (ROOT / "templates/dkms/gate.sh").read_text()
    assert {*re.findall(r"\bgate_says ([a-z-]+)", script)} <= {*map(str, Refused)}


def test_generated_pages_are_current() -> None:
    assert generate.pages(ROOT, dry=True) == (), "write them anew: ./invokew docs"


def test_pages_are_written_where_they_are_stale_and_only_there(tmp_path: Path) -> None:
    for folder in ("docs", "toolkit/cli"):
        (tmp_path / folder).mkdir(parents=True)
    assert generate.pages(tmp_path) == tuple(generate.texts())
    assert {"docs/checks.md", "docs/boxes.md", bill.FILE} <= set(generate.texts())
    assert generate.pages(tmp_path) == ()


def test_our_bill_of_materials_is_what_the_lock_holds_by_the_published_schema() -> None:
    text = (ROOT / bill.FILE).read_text()
    told, lock = json.loads(text), (ROOT / "requirements.lock").read_text()
    assert told_of_the_schema(told) == []
    listed = [(each["name"], each["version"]) for each in told["components"]]
    assert listed == re.findall(r"(?m)^([\w.-]+)==(\S+)", lock)
    assert sum(len(each["properties"]) for each in told["components"]) == lock.count("--hash=")
    needs = {each["ref"]: each["dependsOn"] for each in told["dependencies"]}
    brought = {each for below in needs.values() for each in below}
    assert {each["bom-ref"] for each in told["components"]} == brought  # nothing comes of itself
    assert any(each.startswith("pkg:pypi/paramiko@") for each in needs["gdr-toolkit"])


def test_the_check_reference_has_every_check_once() -> None:
    page = reference.page(ALL)
    assert re.findall(r"^### (.*)$", page, re.MULTILINE) == sorted(
        (check.id for check in ALL), key=_place
    )


def _place(name: str) -> tuple[int, int]:
    """By topic, in the order in which topics first come up; then as in reports."""
    names = [check.id for check in ALL]
    topics = [each.partition(".")[0] for each in names]
    return topics.index(name.partition(".")[0]), names.index(name)


def test_the_reference_shows_text_as_it_stands() -> None:
    def judge(_node: Node, _want: Want) -> object:
        """Every <GPU> is | *fine*."""
        return passed("")

    check = Check("a_b.c", judge, Impact.SLOW, "/sys/*/x", "none")  # type: ignore[arg-type] # never called
    page = reference.page([check])
    assert r"Every \<GPU\> is \| \*fine\*." in page
    assert r"- source: /sys/\*/x" in page
    assert "[a_b.c](#a_bc)" in page


def test_the_table_of_tiers_is_the_one_that_runs() -> None:
    names = [tier.name for tier in table(())]
    page = (ROOT / "docs/architecture.md").read_text().partition("## Tests")[2]
    assert re.findall(r"^\| (\w+) \|", page, re.MULTILINE)[1:] == names


def test_the_table_of_rooms_has_every_room() -> None:
    rooms = {f"`{file.parent.relative_to(ROOT)}`" for file in ROOT.glob("toolkit/*/*.py")}
    assert rooms - {row[0] for row in _rows("docs/architecture.md", r"`[\w/]+`")} == set()


def test_every_direct_dependency_is_accounted_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    names = sorted(re.match(r"[\w-]+", each)[0].lower() for each in wanted)  # type: ignore[index] # each has a name
    assert sorted(row[0] for row in _rows("docs/dependencies.md", r"(?!package)[\w-]+")) == names


def test_the_guide_tells_of_every_verb_and_profile() -> None:
    guide = (ROOT / "docs/guide.md").read_text()
    for name in [*(name for name, _ in VERBS if "." not in name), *profiles()]:
        assert re.search(rf"`{name}\b|invokew {name}\b", guide), name


@pytest.mark.parametrize(
    "page", [*sorted(ROOT.glob("docs/*.md")), ROOT / "README.md"], ids=lambda page: page.name
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
        assert (page.parent / link).exists(), link


def test_boxes_are_read_by_ruby_as_toml_reads_them() -> None:
    """The Vagrantfile knows two shapes of lines and passes over the rest."""
    boxes: dict[str, dict[str, str]] = {}
    for line in (ROOT / "vagrant/boxes.toml").read_text().split("\n"):
        if name := re.match(r"\[([\w-]+)\]", line):
            boxes[name[1]] = {}
        elif pair := re.match(r'(\w+) = "([^"]*)"', line):
            boxes[list(boxes)[-1]][pair[1]] = pair[2]
    assert boxes == tomllib.loads((ROOT / "vagrant/boxes.toml").read_text())


def test_every_family_has_a_box() -> None:
    boxes = tomllib.loads((ROOT / "vagrant/boxes.toml").read_text()).values()
    assert {row["family"] for row in boxes} == {family.name for family in FAMILIES}
    judged = {"broken", "profile", "fails"}
    assert {frozenset(set(row) - {"box", "family", "needs", "verified"}) for row in boxes} == {
        frozenset(),
        frozenset(judged),
    }


def test_what_a_box_must_fail_are_checks_of_ours() -> None:
    """What breaks each is found out by booting it: tests/machine/test_boxes.py."""
    judged = {name: row for name, row in made_here().items() if "fails" in row}
    assert {name for name, row in judged.items() if not row["fails"]} == {"healthy"}
    assert {each for row in judged.values() for each in row["fails"].split()} <= BY_ID.keys()
    assert {row["profile"] for row in judged.values()} <= set(profiles())


def test_what_vagrant_up_starts_is_the_box_that_our_own_tests_start() -> None:
    boxes = tomllib.loads((ROOT / "vagrant/boxes.toml").read_text())
    assert next(iter(boxes)) == next(iter(made_here())) == box.NAME
    assert {row["verified"] for row in boxes.values()} == {"here", "no"}


def test_folders_lie_inside_an_installed_package(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "toolkit"
    (package / "templates").mkdir(parents=True)
    (package.parent / "templates").mkdir()  # somebody else's
    assert package_data.templates(package) == package / "templates"


def test_folders_lie_beside_the_package_in_a_checkout() -> None:
    assert package_data.templates() == ROOT / "templates"
    assert package_data.playbooks() == ROOT / "playbooks"


def test_an_installation_without_its_folders_says_so(tmp_path: Path) -> None:
    with pytest.raises(ToolkitError, match="this installation has no folder templates"):
        package_data.templates(tmp_path / "toolkit")


def test_locks_are_made_by_uv_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match="lock files are made by uv"):
        generate.locks()
    (tmp_path / "uv").touch(mode=0o755)
    runtime, development, *apart = generate.locks()
    names = ("bmc/emulator", "fleet/ansible", "kube/schemas", "bench/peers")
    assert [words[-1] for words in apart] == [f"tests/{name}.lock" for name in names]
    assert "--generate-hashes" in runtime
    assert development[-4:] == (
        "--constraints",
        "requirements.lock",
        "--output-file",
        "requirements-dev.lock",
    )


def test_playbooks_call_the_engine_as_it_says_that_it_is_called() -> None:
    usage = (ROOT / "toolkit/node/scripts/apply.sh").read_text()
    plays = ("provision", "rollback", "verify", "tasks/boot")
    said = " ".join((ROOT / f"playbooks/{name}.yml").read_text() for name in plays)
    for verb, words in (
        ("look", "WAIT end"),
        ("apply", "WAIT end"),
        ("retract", "WAIT end"),
        ("rollback", "RUN|last|all WAIT end"),
        ("restart", "BOOT-ID WAIT end"),
    ):
        assert f"apply.sh {verb} {words}" in usage
        assert re.search(rf"\b{verb}\b", said), f"no play calls {verb}"
    calls = re.findall(r"cmd: .*runner.*", said)
    assert len(calls) == 4
    assert all(call.endswith('{{ wait_s | int }} end"') for call in calls)


def test_plays_need_no_python_on_nodes() -> None:
    """Every module but these runs on the controller."""
    on_nodes = {"raw", "script"}
    here = {"debug", "fail", "assert", "include_tasks", "meta", "pause", "set_fact"}
    for file in (ROOT / "playbooks").rglob("*.yml"):
        (found,) = yaml.safe_load_all(file.read_text())
        for task in [each for part in found for each in part.get("tasks", [part])]:
            (module,) = (key for key in task if key.startswith("ansible.builtin."))
            name = module.rpartition(".")[2]
            delegated = task.get("delegate_to") == "localhost"
            assert name in on_nodes | here or delegated, f"{file.name}: {task['name']}"
