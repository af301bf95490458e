"""Files of ours, the arguments in them, and work that is left undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.boot.cmdline import Cmdline
from toolkit.facts.modules.placed_files import Placed
from toolkit.features.drift.plan.drift import Cell, Line, Standing, Topic
from toolkit.features.drift.plan.here import Here
from toolkit.plan.change import Action, Change, Wanted

_SHORT = 12  # digits of a hash that a person compares
_NOTHING = Cell()


def file_lines(here: Here) -> Iterator[Line]:
    """One line a file that is wanted or to go, one an argument, one for what cannot be done."""
    for wanted in here.plan.wanted:
        yield from _wanted_file(wanted, here)
    for change in here.plan.changes:
        if change.action is Action.REMOVE:
            disk = Cell(_shown(change.old), Standing.DRIFT)
            yield Line(Topic.FILE, change.path, "no such file", disk, _NOTHING)
    yield from _work(here)


def _wanted_file(wanted: Wanted, here: Here) -> Iterator[Line]:
    """The file's line, and one for each argument that it holds.

    A file that is not there and not planned is none of this node's: others have seen to it.
    """
    try:
        old = here.node.placed.get(wanted.path)
    except (NoEvidence, Unparsable) as why:
        yield _file(wanted, Cell(str(why), Standing.UNKNOWN), _NOTHING, why.own_hint)
        return
    change, blocked = here.change_of(wanted.path), here.blocked(wanted.artefact)
    if change is not None:
        yield _changing(wanted, change, old, here)
    elif blocked is not None:
        # What cannot be planned is not known to be wrong; its checks say whether it is.
        effect = Cell(f"blocked: {blocked.reason}", Standing.UNKNOWN)
        yield _file(wanted, Cell(_shown(old), Standing.UNKNOWN), effect, blocked.hint)
    elif old is not None and old.sha256 == wanted.sha256:
        yield _file(wanted, Cell(_shown(old), Standing.SAME), Cell("yes", Standing.SAME))
    if change is not None or old is not None:
        yield from (_argument(word, wanted, here) for word in wanted.arguments)


def _changing(wanted: Wanted, change: Change, old: Placed | None, here: Here) -> Line:
    """A file that the plan would place, or one that is there and not in effect."""
    if change.action is Action.TRIGGER:
        owed = ", ".join(each.name.lower().replace("_", " ") for each in change.triggers)
        effect = Cell(f"not yet: {owed}", Standing.DRIFT)
        return _file(wanted, Cell(_shown(old), Standing.SAME), effect)
    if old is None:
        return _file(wanted, Cell("none", Standing.DRIFT), _NOTHING)
    said = "; ".join(filter(None, (change.why[0], _whose(old, wanted.path, here))))
    return _file(wanted, Cell(f"{_shown(old)}: {said}", Standing.DRIFT), _NOTHING)


def _whose(old: Placed, path: str, here: Here) -> str:
    """Who made a file what it is; "" where nobody knows."""
    try:
        left = here.node.left.get(path, "")
    except (NoEvidence, Unparsable):
        return ""
    if not left:
        return ""
    return "as we left it" if left == old.sha256 else "changed by others since we placed it"


def _file(wanted: Wanted, disk: Cell, effect: Cell, hint: str = "") -> Line:
    return Line(Topic.FILE, wanted.path, wanted.sha256[:_SHORT], disk, effect, hint)


def _shown(old: Placed | None) -> str:
    return old.sha256[:_SHORT] if old else "none"


def _argument(word: str, wanted: Wanted, here: Here) -> Line:
    """One word of ours in the boot loader's configuration and on the running kernel's line.

    Where the checks of its file pass without it, that it is missing is no drift.
    """
    proofs = here.judged(wanted.proofs)
    needed = any(here.standing(each) in {Standing.DRIFT, Standing.UNKNOWN} for each in proofs)
    disk = _word(word, lambda: here.node.next_cmdline, needed=needed)
    effect = _word(word, lambda: here.node.cmdline, needed=needed) if here.node.live else _NOTHING
    return Line(Topic.ARGUMENT, word.strip('"'), "on the command line", disk, effect)


def _word(word: str, read: Callable[[], Cmdline], *, needed: bool) -> Cell:
    try:
        # Quoted for the boot loader, which takes the quotes off, or leaves them to the kernel.
        there = word.strip('"') in {each.strip('"') for each in read().words}
    except (NoEvidence, Unparsable) as why:
        return Cell(str(why), Standing.UNKNOWN)
    if there:
        return Cell("there", Standing.SAME)
    return (
        Cell("not there", Standing.DRIFT)
        if needed
        else Cell("not there, not needed", Standing.SAME)
    )


def _work(here: Here) -> Iterator[Line]:
    """What an earlier run still owes, and what should change and cannot be planned."""
    try:
        for owed in here.node.pending:
            disk = Cell("an earlier run did not come to it", Standing.DRIFT)
            yield Line(Topic.WORK, owed, "done", disk, _NOTHING)
    except (NoEvidence, Unparsable) as why:
        yield Line(Topic.WORK, "pending", "nothing", Cell(str(why), Standing.UNKNOWN), _NOTHING)
    shown = {each.artefact for each in here.plan.wanted}
    for blocked in here.plan.blocked:
        if blocked.artefact not in shown:
            disk = Cell(f"blocked: {blocked.reason}", Standing.UNKNOWN)
            name = blocked.artefact or "what no file of ours accounts for"
            yield Line(Topic.WORK, name, "done", disk, _NOTHING, blocked.hint)
