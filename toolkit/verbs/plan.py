"""What would change on each node, and why; nothing is changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.built.delivery_cache import Shelf, at_hand
from toolkit.checks.all import ALL
from toolkit.checks.check import Status, Verdict
from toolkit.checks.consumers.chosen import taken
from toolkit.checks.judged import Judged, judge_node
from toolkit.checks.modules.modules import other
from toolkit.errors import Outcome, Unwritten, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.groups import Wants
from toolkit.node import text_signature
from toolkit.node.deliver import engine, image_runner
from toolkit.plan.bundle import Bundle, render, runner, tar_bytes
from toolkit.plan.plan import Plan, diff, make_plan
from toolkit.plan.trial import CommandLines, lines_of
from toolkit.rollout.runs import RunFolder, safe_name
from toolkit.safe_file import write_file
from toolkit.ssh.transport import Transport
from toolkit.upgrade import Upgrade
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import Alike
from toolkit.verbs.reading import read_ahead, read_meanwhile
from toolkit.want import PeerPath, Want

NO_CHANGE = Plan()


class Planned(Struct, frozen=True):
    """One node, judged, with the plan for it and the bundle that carries it out."""

    judged: Judged
    plan: Plan
    bundle: Bundle | None = None  # None where there is nothing to send
    boot_id: str = ""  # in which the node was read; "" for an image
    trial: Bundle | None = None  # the one that has the changed command line tried
    lines: CommandLines = field(default_factory=CommandLines)

    @property
    def pending(self) -> bool:
        return not self.plan.empty


def plan_node(
    host: str,
    evidence: Evidence,
    want: Want,
    today: date,
    shelf: Shelf | None = None,
    *,
    untried: bool = False,
) -> Planned:
    """Judge and plan from one node's evidence.

    :param shelf: modules that were built elsewhere, and may be delivered.
    :param untried: a changed command line becomes the default without a trial.
    :raises Unsupported: there is no rule for its distribution.
    """
    judged = _with_others(judge_node(host, evidence, want, today), evidence, want)
    if not judged.gpus:
        return Planned(judged, NO_CHANGE)
    node = Node(evidence)
    verdicts, want = aimed(node, judged, want)
    builts = at_hand(shelf, node, want)
    plan = make_plan(node, verdicts, want, today=today, builts=builts, untried=untried)
    if want.upgrade != Upgrade():
        from toolkit.plan.upgrade_packages import upgraded  # noqa: PLC0415 only they pay for it

        plan = upgraded(plan, evidence, want, untried=untried)
    if not node.live:
        return Planned(judged, plan, _bundle(plan, node, want))
    trial = _bundle(plan.trying, node, want) if plan.trying else None
    bundle = _bundle(plan.sent, node, want)
    return Planned(judged, plan, bundle, node.boot_id, trial, lines_of(node))


def _with_others(judged: Judged, evidence: Evidence, want: Want) -> Judged:
    """With the verdicts beside those of --only, which tell what a change rests on and may harm."""
    if not want.checks.only:
        return judged
    rest = replace(want, checks=replace(want.checks, only=frozenset()))
    whole = judge_node(judged.host, evidence, rest, judged.today)
    beside = (each for each in whole.verdicts if not want.checks.has(each.check.id))
    return replace(judged, beside=tuple(beside))


def aimed(node: Node, judged: Judged, want: Want) -> tuple[dict[str, Verdict], Want]:
    """The verdicts and the want that a plan is made for, with the path that the node takes.

    What is half set up of nvidia-peermem is mended, where dma-buf is taken, and what we
    placed for it earlier is kept up; what the node does without is not brought to it.
    """
    verdicts = {each.check.id: each for each in judged.whole.verdicts}
    here = taken(node.fresh(), want)
    if not here.taken or here.path is PeerPath.PEERMEM:
        return verdicts, here
    peermem = replace(here, path=PeerPath.PEERMEM)
    if other.id in verdicts and verdicts[other.id].status is Status.FAIL:
        every = (each for each in (*ALL, *want.own) if each.id in verdicts)
        return {each.id: each(node, peermem) for each in every}, peermem
    return verdicts, peermem if node.fresh().owned else here


def _bundle(plan: Plan, node: Node, want: Want) -> Bundle | None:
    if plan.empty or plan.only_reboot:
        return None
    made = render(plan, node, engine(), want.keep_runs)
    return replace(made, sign_key=want.bundles.sign_key)


def sealed(bundle: Bundle) -> Bundle:
    """The bundle as it leaves: signed, where the site has a key for that.

    :raises UsageError: the key cannot be used.
    """
    if not bundle.sign_key:
        return bundle
    key = Path(bundle.sign_key).expanduser()
    return replace(
        bundle, signature=text_signature.sign(key, bundle.sums(), text_signature.BUNDLES)
    )


def planning(
    wants: Wants, today: date, shelf: Shelf | None = None, *, untried: bool = False
) -> Callable[[str, Evidence], Planned]:
    """Plans for a node by its name and its evidence."""
    alike = Alike()

    def work(name: str, evidence: Evidence) -> Planned:
        found = plan_node(name, evidence, wants.of(name), today, shelf, untried=untried)
        return replace(
            found,
            judged=alike.judged(found.judged),
            bundle=alike.bundle(found.bundle),
            trial=alike.bundle(found.trial),
        )

    return work


def plan_all(
    fleet: Fleet,
    wants: Wants,
    today: date,
    folder: RunFolder,
    shelf: Shelf | None = None,
    *,
    untried: bool = False,
    more: Callable[[Transport, Evidence], Evidence] | None = None,
) -> list[Outcome[Planned]]:
    """Ask every node once, judge it and plan; ``more`` as of read_each."""

    def make() -> Callable[[str, Evidence], Planned]:
        read_ahead(wants)
        return planning(wants, today, shelf, untried=untried)

    return read_meanwhile(fleet, folder, make, title="planning", more=more)


def bundle_files(planned: Planned) -> dict[str, bytes]:
    """A bundle as a folder, with what only readers and carriers of it need; empty for none.

    run.sh is all of it in one file, changes.diff the lines that change; image.sh, of an image
    alone, is run.sh with what runs it in the image's tree; bundle.tar, of a signed one, is for
    the wrapper of accounts that are not root.
    """
    if planned.bundle is None:
        return {}
    bundle = sealed(planned.bundle)
    more = {"run.sh": runner(bundle), "changes.diff": diff(planned.plan)}
    if not planned.boot_id:
        more["image.sh"] = image_runner(more["run.sh"])
    texts = {name: text.encode("utf-8", "surrogateescape") for name, text in more.items()}
    if bundle.signature:
        texts["bundle.tar"] = tar_bytes(bundle)
    return bundle.files() | texts


def write_bundles(
    outcomes: Sequence[Outcome[Planned]], out: Path
) -> tuple[list[Outcome[Planned]], dict[str, Path]]:
    """Write each bundle as a folder below ``out``, named by its host.

    :returns: the outcomes, where a bundle that could not be written is its host's error; and
        the folders by host.
    :raises UsageError: one is there already; then none was written.
    """
    folders = {
        each.host: out / safe_name(each.host)
        for each in outcomes
        if each.value is not None and each.value.bundle is not None
    }
    for folder in folders.values():
        if os.path.lexists(folder):
            raise UsageError(f"{folder}: is there already", hint="name a fresh folder with --out")
    told: list[Outcome[Planned]] = []
    for each in outcomes:
        try:
            if each.host in folders:
                _write_bundle(folders[each.host], bundle_files(each.get()))
            told.append(each)
        except OSError as why:
            told.append(Outcome(each.host, error=Unwritten(folders.pop(each.host), why)))
    return told, folders


def _write_bundle(folder: Path, files: Mapping[str, bytes]) -> None:
    """:raises OSError: it cannot be written; nothing of it stays, for half a one would run."""
    try:
        folder.mkdir(parents=True)
        for name, content in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            write_file(file, content)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
