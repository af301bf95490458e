"""Plans and explanations, as an operator reads them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import jsonschema

from tests.evidence.build import node
from tests.unit.judged import SICK, TODAY
from tests.unit.planning import LITTLE_MEMLOCK, NOT_LOADED, TRANSLATED, frames, plan_for
from toolkit.checks.all import ALL, named
from toolkit.checks.judged import causes, judge_node
from toolkit.errors import ExitCode, Outcome
from toolkit.hosts.host import Host
from toolkit.plan.plan import Plan
from toolkit.report.document import Told, document, dumps
from toolkit.report.listings import Row, checks_document, explain, home, hosts_document, listing
from toolkit.report.plan_text import plan_lines
from toolkit.report.table import Painter
from toolkit.want import Want

PLAIN = Painter(False)
ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs/report.schema.json"
HEALTHY_PLAN, IOMMU_PLAN = plan_for({}), plan_for(TRANSLATED)
PEERMEM_PLAN = plan_for(NOT_LOADED)


def told(*plans: tuple[str, Plan], diffs: bool = False) -> str:
    return "\n".join(plan_lines(plans, PLAIN, diffs=diffs))


def test_nodes_with_one_plan_are_told_of_once() -> None:
    text = told(*((f"gpu{at}", IOMMU_PLAN) for at in (1, 2, 3)))
    assert text.count("zz-gdr-toolkit.cfg") == 1
    assert "change    gpu[1-3]" in text


def test_a_plan_says_what_why_and_what_follows() -> None:
    text = told(("gpu1", IOMMU_PLAN))
    assert "place     /etc/default/grub.d/zz-gdr-toolkit.cfg" in text
    assert "why       iommu.passthrough: translated: DMA-FQ" in text
    assert "then      update bootloader, reboot" in text


def test_a_plan_says_what_is_tried_by_one_boot() -> None:
    text = told(("gpu1", IOMMU_PLAN))
    assert IOMMU_PLAN.trial is not None
    said = " ".join(text.split())
    assert f"tried {IOMMU_PLAN.trial.told}: by one boot, and kept if no check is worse" in said
    assert "tried" not in told(("gpu1", PEERMEM_PLAN))


def test_files_stand_in_the_order_of_the_causes_and_are_placed_in_the_plan_s_own() -> None:
    ill = {**TRANSLATED, **LITTLE_MEMLOCK}
    plan, judged = plan_for(ill), judge_node("gpu1", node(ill), Want(), TODAY)
    text = "\n".join(plan_lines([("gpu1", plan)], PLAIN, diffs=False, judged={"gpu1": judged}))
    memlock, argument = "limits.d/gdr-toolkit.conf", "zz-gdr-toolkit.cfg"
    assert [each.root.check.id for each in causes(judged)] == ["rdma.memlock", "iommu.passthrough"]
    assert text.index(memlock) < text.index(argument)
    placed = [each.path.rpartition("/")[2] for each in plan.changes]
    assert placed.index(argument) < placed.index("gdr-toolkit.conf")


def test_a_node_without_changes_is_as_wanted() -> None:
    assert "as wanted gpu1" in told(("gpu1", HEALTHY_PLAN))


def test_a_diff_shows_the_lines() -> None:
    assert "GRUB_CMDLINE_LINUX" not in told(("gpu1", IOMMU_PLAN))
    assert "+GRUB_CMDLINE_LINUX=" in told(("gpu1", IOMMU_PLAN), diffs=True)


def test_the_document_of_a_plan_keeps_its_schema() -> None:
    plan = plan_for(frames(TRANSLATED, NOT_LOADED))
    outcomes = [Outcome("gpu1", Told(judged=SICK, before=SICK, plan=plan, steps=("a: done",)))]
    made = document("provision", "peermem", outcomes, ExitCode.PENDING, datetime.now(UTC))
    loaded = json.loads(dumps(made))
    jsonschema.validate(loaded, json.loads(SCHEMA.read_text()))
    assert loaded["hosts"][0]["plan"]["needs_reboot"] is True


def test_the_document_says_what_is_tried_by_one_boot_and_what_waits_for_it() -> None:
    plan = plan_for(frames(TRANSLATED, NOT_LOADED))
    outcomes = [
        Outcome(f"gpu{at}", Told(plan=each)) for at, each in enumerate((plan, PEERMEM_PLAN))
    ]
    made = document("plan", "peermem", outcomes, ExitCode.PENDING, datetime.now(UTC))
    loaded = json.loads(dumps(made))
    jsonschema.validate(loaded, json.loads(SCHEMA.read_text()))
    trial = loaded["hosts"][0]["plan"]["trial"]
    assert (trial["adds"], trial["removes"]) == (["iommu=pt"], [])
    assert trial["changes"] == ["boot.arguments"]
    assert plan.trial is not None
    assert trial["entry"] == plan.trial.file.path
    assert loaded["hosts"][1]["plan"]["trial"] is None  # nothing of it needs another boot


def test_every_check_explains_itself() -> None:
    for check in ALL:
        text = explain(check, PLAIN)
        assert check.title in text
        assert check.source.split()[0] in text
        assert max(map(len, text.split("\n"))) <= 100, check.id


def test_an_explanation_says_why_it_matters() -> None:
    text = explain(named("peermem.stub"), PLAIN)
    assert 'modprobe then says "Invalid argument"' in text
    assert "impact    broken when it fails" in text


def test_an_explanation_names_what_it_tells() -> None:
    check = named("peermem.stub")
    told = dict(line.split(None, 1) for line in explain(check, PLAIN).split("\n\n")[-1].split("\n"))
    assert told == {
        "impact": "broken when it fails",
        "holds": "now",
        "path": "peermem",
        "fix": check.fix,
        "source": check.source,
        "code": "toolkit/checks/modules/peermem.py",
    }


def test_a_check_tells_machines_the_same() -> None:
    check = named("peermem.stub")
    [told] = cast("list[object]", checks_document([check])["checks"])
    assert told == {
        "id": "peermem.stub",
        "title": check.title,
        "why": check.why,
        "impact": "broken",
        "tense": "now",
        "paths": ["peermem"],
        "roles": sorted(role.value for role in check.roles),
        "needs_gpu": check.needs_gpu,
        "source": check.source,
        "fix": check.fix,
        "code": "toolkit/checks/modules/peermem.py",
    }


def test_a_host_tells_machines_what_ssh_is_left_to_decide() -> None:
    whole = Host("a", "10.0.0.1", "root", 2222, "jump", "bmc1", ("g",), "/key", "not created")
    rows = (Row("port", "2222", "hosts.ini:7"),)
    made = hosts_document([(Host("b"), ()), (whole, rows)], {"a": "ssh-ed25519"})
    bare, said = cast("list[object]", made["hosts"])
    assert bare == {
        **dict.fromkeys(("user", "port", "jump", "key_file", "bmc", "away")),
        "name": "b",
        "address": "b",
        "groups": [],
    }
    assert said == {
        "name": "a",
        "address": "10.0.0.1",
        "user": "root",
        "port": 2222,
        "groups": ["g"],
        "jump": "jump",
        "key_file": "/key",
        "bmc": "bmc1",
        "away": "not created",
        "key": "ssh-ed25519",
        "explained": [{"what": "port", "value": "2222", "source": "hosts.ini:7"}],
    }


def test_the_list_has_every_check() -> None:
    assert [line.split()[0] for line in listing(ALL).split("\n")] == [check.id for check in ALL]


def test_on_a_terminal_the_list_is_no_wider_than_a_report_and_says_the_same() -> None:
    wrapped = listing(ALL, wrapped=True)
    assert max(map(len, wrapped.split("\n"))) <= 100
    assert wrapped.split() == listing(ALL).split()


def test_every_check_tells_the_file_that_holds_it() -> None:
    for check in ALL:
        topic, _, name = check.id.partition(".")
        # Those of firmware are named after their setting.
        told = f"BiosRole.{name.upper()}" if topic == "bios" else f'"{check.id}"'
        assert told in (ROOT / home(check)).read_text(), check.id
