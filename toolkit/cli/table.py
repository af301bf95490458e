"""The table of verbs: names, help and options as data; a verb's code is imported when it runs.

The data is ``verbs.json``, which ``./invokew docs`` writes from the verbs themselves and a test
holds to them: who asks for help or for a list of verbs does not wait for all of the toolkit.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from invoke.collection import Collection
from invoke.context import Context
from invoke.tasks import Task

from toolkit.cli.options import Option, VerbTask, made
from toolkit.untrusted import read_json

FILE = Path(__file__).with_name("verbs.json")
# In the order of docs and completion; "folder.name module.function", * for a folder's own verb.
VERBS = tuple(
    tuple(line.split())
    for line in """
    doctor looking.doctor
    plan changing.plan
    bundle changing.bundle
    playbook playing.playbook
    provision provisioning.provision
    verify changing.verify
    rollback changing.rollback
    kubernetes kubernetes.kubernetes
    history past.history
    undo past.undo
    budget budgeting.budget
    reload reloading.reload
    exercise exercising.exercise
    bios bios.bios
    build building.build
    enrol enrolling.enrol
    capture capturing.capture
    compare comparing.compare_
    expect expecting.expect
    report reporting.report
    drift drifting.drift
    iommu domains.iommu
    topology topology.topology
    predict predicting.predict
    checks catalogue.checks
    explain catalogue.explain
    hosts looking.hosts
    demo demo.demo
    image.image* imaging.image
    image.diff passporting.diff
    runs.list* past.list_
    runs.show past.show
    """.strip().splitlines()
)


def load(where: str) -> VerbTask:
    """The verb itself, with its code."""
    module, _, name = where.partition(".")
    return cast("VerbTask", getattr(import_module(f"toolkit.cli.{module}"), name))


def written() -> str:
    """What the table of data should hold, from the verbs: imports all of them."""
    rows = {
        where: {"help": (task := load(where)).__doc__, "options": [*map(_row, task.options)]}
        for _, where in VERBS
    }
    return json.dumps(rows, indent=1) + "\n"


def _row(option: Option) -> dict[str, object]:
    told = {each.name: (getattr(option, each.name), each.default) for each in fields(Option)}
    return {
        name: value for name, (value, usual) in told.items() if usual is MISSING or value != usual
    }


def verbs() -> Collection:
    """A fresh collection of all verbs."""
    rows = read_json(FILE.read_bytes())
    whole, folders = Collection(), dict[str, Collection]()
    for path, where in VERBS:
        row = rows[where]
        task = _task(where, row["help"], tuple(Option(**each) for each in row["options"]))
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

    return cast("Task[Any]", made(run, where.partition(".")[2], text, options))
