"""A plan becomes the bundle that carries it out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping

from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Trigger
from toolkit.plan.bundle import Bundle, File
from toolkit.plan.change import Action
from toolkit.plan.plan import Plan

FORMAT = 1  # of manifest.json


def render(plan: Plan, node: Node, engine: str, keep_runs: int = 5) -> Bundle:
    """The bundle of a plan, bound to the kernel and the boot that ``node`` was read in.

    That of an image is bound to its files alone: what runs where it is made is not its kernel.

    :param engine: what carries it out on the node, from ``reach.deliver.engine``.
    :param keep_runs: so many of the node's newest runs keep all that they replaced.
    """
    placed = [each for each in plan.changes if each.action is Action.PLACE]
    files = tuple(File(each.path, each.mode, each.content, each.sha256) for each in placed)
    bound = {"kernel": node.kernel, "boot-id": node.boot_id if node.live else ""}
    steps = tuple(_steps(plan, bound if node.live else {}))
    manifest = _manifest(plan, bound, len(steps))
    return Bundle(files, (*steps, f"finish {len(steps)} {keep_runs}"), manifest, engine)


def _steps(plan: Plan, bound: Mapping[str, str]) -> Iterator[str]:
    for what, value in bound.items():
        if value:
            yield shlex.join(("expect", what, value))
    for change in plan.files:
        yield shlex.join(
            ("expect", "file", change.path, change.old.sha256 if change.old else "absent")
        )
    yield from _kept(plan)
    yield from _acts(plan, early=True)
    for change in plan.files:
        if change.action is Action.REMOVE:
            yield shlex.join(("remove", change.path))
    for change in plan.files:
        if change.action is Action.PLACE:
            yield shlex.join(("place", change.path, f"{change.mode:o}", change.sha256))
    yield from _acts(plan, early=False)


def _kept(plan: Plan) -> Iterator[str]:
    """What triggers rewrite, and what they leave beside that where they are cut off."""
    for trigger in plan.triggers:
        acts = [act for act in plan.acts if act.trigger is trigger]
        if keeps := dict.fromkeys(pattern for act in acts for pattern in act.keeps):
            yield shlex.join(("keep", trigger.name, *keeps))
        if temps := dict.fromkeys(pattern for act in acts for pattern in act.temps):
            yield shlex.join(("temps", trigger.name, *temps))


def _acts(plan: Plan, *, early: bool) -> Iterator[str]:
    for act in plan.acts:
        if act.early is early:
            for when, command in act.undo:
                yield shlex.join(("undo", when, shlex.join((act.trigger.name, *command))))
            yield shlex.join(("trigger", act.call))
            for path, text in act.names:
                yield shlex.join(("prove", path, text))


def _manifest(plan: Plan, bound: Mapping[str, str], steps: int) -> str:
    document = {
        "format": FORMAT,
        "kernel": bound["kernel"],
        "boot_id": bound["boot-id"],
        "family": plan.family,
        "reboot": plan.needs_reboot,
        "triggers": [trigger.name for trigger in plan.triggers if trigger is not Trigger.REBOOT],
        "changes": [
            {
                "artefact": each.artefact,
                "action": each.action.value,
                "path": each.path,
                "mode": f"{each.mode:o}",
                "sha256": each.sha256 if each.action is not Action.REMOVE else "",
                "why": list(each.why),
            }
            for each in plan.changes
        ],
        "blocked": [
            {"artefact": each.artefact, "reason": each.reason, "hint": each.hint}
            for each in plan.blocked
        ],
        "steps": steps,
    }
    return json.dumps(document, indent=2) + "\n"
