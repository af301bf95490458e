"""The table of verbs: names, help and options as data; a verb's code is imported when it runs.

The data is ``verbs.json``, which ``./invokew docs`` writes from the verbs and checks themselves
and a test holds to them: who asks for help does not wait for all of the toolkit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from invoke.collection import Collection
from invoke.context import Context
from invoke.tasks import Task
from msgspec import NODEFAULT
from msgspec.structs import fields

from toolkit.cli.options import Option, VerbTask, made
from toolkit.untrusted import read_json

if TYPE_CHECKING:
    from toolkit.checks.check import Check

FILE = Path(__file__).with_name("verbs.json")
# In the order of docs and completion: a name, and the function below toolkit; * marks a folder's
# own verb.
VERBS = tuple(
    tuple(line.split())
    for line in """
    doctor verbs.cli.doctor.doctor
    plan verbs.cli.plan.plan
    bundle verbs.cli.plan.bundle
    playbook features.ansible.cli.playbook
    provision verbs.cli.provision.provision
    verify verbs.cli.plan.verify
    rollback verbs.cli.plan.rollback
    kubernetes features.kubernetes.cli.kubernetes
    history features.history.cli.history
    undo verbs.cli.plan.undo
    budget verbs.cli.budget.budget
    reload features.reload.cli.reload
    exercise features.exercise.cli.exercise
    gate features.gate.cli.gate
    bios features.bios.cli.bios
    nic features.nic.cli.nic
    build features.builds.cli.build
    enrol features.enrol.cli.enrol
    capture verbs.cli.capture.capture
    compare features.compare.cli.compare_
    expect features.expect.cli.expect
    report features.page.cli.report
    drift features.drift.cli.drift
    iommu features.iommu_groups.cli.iommu
    topology features.topology.cli.topology
    predict features.predict.cli.predict
    rehearse features.rehearse.cli.rehearse
    checks verbs.cli.catalogue.checks
    explain verbs.cli.catalogue.explain
    why verbs.cli.why.why
    hosts verbs.cli.hosts.hosts
    init verbs.cli.init.init
    demo verbs.cli.demo.demo
    image.image* features.image.cli.image
    image.diff features.image.cli.diff
    runs.list* features.history.cli.list_
    runs.show features.history.cli.show
    """.strip().splitlines()
)


def load(where: str) -> VerbTask:
    """The verb itself, with its code."""
    module, _, name = where.rpartition(".")
    return cast("VerbTask", getattr(import_module(f"toolkit.{module}"), name))


def written() -> str:
    """What the table of data should hold, from verbs and checks: imports all of them."""
    from toolkit.checks.all import ALL  # noqa: PLC0415 it takes most of a second

    options: list[dict[str, object]] = []  # each once, verbs name them by their place
    rows: dict[str, object] = {}
    for _, where in VERBS:
        task = load(where)
        its = [*map(_row, task.options)]
        options += [each for each in its if each not in options]
        rows[where] = {"help": task.__doc__, "options": [*map(options.index, its)]}
    checks = {each.id: each.judge.__module__ for each in ALL}
    return json.dumps({"checks": checks, "options": options, "verbs": rows}, indent=1) + "\n"


def _row(option: Option) -> dict[str, object]:
    told = {each.name: (getattr(option, each.name), each.default) for each in fields(Option)}
    return {
        name: value for name, (value, usual) in told.items() if usual is NODEFAULT or value != usual
    }


@cache
def data() -> Mapping[str, Any]:
    """The table as it is kept; in a checkout where it is damaged or old, as it should be.

    Any: as read_json has it.
    """
    try:
        kept = read_json(FILE.read_bytes())
        if kept["verbs"].keys() == {where for _, where in VERBS}:
            return cast("Mapping[str, Any]", kept)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return cast("Mapping[str, Any]", read_json(written()))


def check(name: str) -> Check:
    """The check of this id, with the code of no other where that can be.

    :raises UsageError: for an unknown id, with the nearest known ones.
    """
    from toolkit.checks.check import Check  # noqa: PLC0415 only they pay for it

    module = import_module(data()["checks"].get(name, "toolkit.checks.check"))
    its = (each for each in vars(module).values() if isinstance(each, Check) and each.id == name)
    if found := next(its, None):
        return found
    from toolkit.checks.all import named  # noqa: PLC0415 it takes most of a second

    return named(name)


def verbs() -> Collection:
    """A fresh collection of all verbs."""
    table = data()
    options = [Option(**each) for each in table["options"]]
    whole, folders = Collection(), dict[str, Collection]()
    for path, where in VERBS:
        row = table["verbs"][where]
        task = _task(where, row["help"], tuple(options[each] for each in row["options"]))
        folder, _, name = path.rpartition(".")
        if not folder:
            whole.add_task(task)
            continue
        inner = folders.setdefault(folder, Collection(folder))
        inner.add_task(task, name=name.rstrip("*"), default=name.endswith("*"))
    for each in folders.values():
        whole.add_collection(each)
    return whole


def _task(where: str, text: str, options: tuple[Option, ...]) -> Task[Any]:
    """A verb that is imported when it is called. Any: what Invoke's tasks return."""

    def run(c: Context, **told: str | int | bool | list[str] | None) -> None:
        load(where)(c, **told)

    return cast("Task[Any]", made(run, where.rpartition(".")[2], text, options))
