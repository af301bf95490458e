"""An image brought to the wanted state: read, planned and provisioned for its own kernels.

An image is read, judged and planned for once for each kernel that it may boot, as if it were so
many nodes; files that all of them share are placed by the first, and found by the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from toolkit.change.bundle import script
from toolkit.change.plan import Plan
from toolkit.checks.judged import Judged
from toolkit.errors import ExitCode, NoEvidence, Unparsable, UsageError
from toolkit.facts.node import Node
from toolkit.facts.versions import Version
from toolkit.flow.heard import heard
from toolkit.flow.planning import Planned, plan_node
from toolkit.flow.runs import RunFolder
from toolkit.flow.shelf import Shelf
from toolkit.progress import Progress
from toolkit.reach import deliver
from toolkit.reach.chroot import ChrootTransport
from toolkit.reach.collect import collect
from toolkit.reach.media import Staged
from toolkit.want import Want

ALL, DEFAULT = "all", "default"
ROUNDS = 4  # what one plan mends may show the next; one that never empties is a bug, not a loop
APPLY_S = 7200.0  # a whole driver by DKMS, on a builder that has other work


@dataclass(frozen=True, slots=True)
class Image:
    """A tree that is a whole root, to be looked into; aside, it may be changed."""

    path: Path  # as the operator wrote it
    staged: Staged | None = None  # None: as it lies there

    def reader(self, kernel: str = "-") -> ChrootTransport:
        """For scripts that read; "-" for those that ask of no kernel."""
        if self.staged is None:
            return ChrootTransport(str(self.path), str(self.path.resolve()), kernel)
        return ChrootTransport(
            str(self.path), str(self.staged.root), kernel, ground=self.staged.ground
        )

    def kernels(self) -> tuple[str, ...]:
        """Releases that anything is there for, oldest first."""
        return tuple(sorted(self.reader().kernels(), key=Version))

    def of(self, kernel: str) -> str:
        """How reports name it for one of its kernels."""
        return f"{self.path.name.partition('.')[0] or self.path.resolve().name}:{kernel}"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the image is to become, and what is said of the way."""

    want: Want
    today: date
    folder: RunFolder
    progress: Progress
    shelf: Shelf | None = None  # modules that were built elsewhere, and may be delivered


@dataclass(frozen=True, slots=True)
class Made:
    """One kernel's way from what the image was to what it is."""

    kernel: str
    before: Judged
    after: Judged
    plans: tuple[Plan, ...] = ()  # those that were carried out, in order
    steps: tuple[str, ...] = ()
    left: Plan | None = None  # what is still to be done

    @property
    def exit_code(self) -> ExitCode:
        """What the checks say at the end; a pending change where they are content."""
        if self.after.exit_code is not ExitCode.OK:
            return self.after.exit_code
        return ExitCode.PENDING if self.left is not None else ExitCode.OK


def chosen_kernels(image: Image, said: str, asked: Asked) -> tuple[str, ...]:
    """The kernels that the image is prepared for, oldest first.

    :param said: "all" that can be booted or built for; "default", which the boot menu names,
        and where there is none the newest; or releases, apart by commas.
    :raises UsageError: one is not in the image, or none is.
    """
    named = image.kernels()
    if not named:
        raise UsageError(
            f"{image.path}: no kernel is in it",
            hint="install the kernel and its headers in the image first",
        )
    asked.progress.note(str(image.path), "looking for its kernels")
    node = Node(collect(image.reader(named[-1])))
    there = {each.release for each in node.kernels if each.image or each.headers}
    usable = tuple(each for each in named if each in there)
    if said == ALL and usable:
        return usable
    if said == DEFAULT and usable:
        bootable = {each.release for each in node.kernels if each.image}
        newest = ([each for each in usable if each in bootable] or usable)[-1]
        return (_of_menu(node) or newest,)
    wanted = tuple(dict.fromkeys(each.strip() for each in said.split(",") if each.strip()))
    strange = [each for each in wanted if each not in there]
    if strange or not usable:
        lacks = f"kernel {strange[0]} is not in it" if usable else "its kernels cannot be booted"
        raise UsageError(f"{image.path}: {lacks}", hint=f"it has {', '.join(usable or named)}")
    return tuple(sorted(wanted, key=Version))


def _of_menu(node: Node) -> str:
    """The kernel that the boot menu starts by itself; "" where it does not tell."""
    try:
        entry = node.default_entry
    except (NoEvidence, Unparsable):
        return ""
    there = {each.release for each in node.kernels}
    return entry.kernel if entry is not None and entry.kernel in there else ""


def look(image: Image, kernel: str, asked: Asked, moment: str = "") -> Planned:
    """Read the image for one of its kernels, judge and plan.

    :param moment: "after" what was done, for the name that the evidence is kept under.
    """
    asked.progress.note(image.of(kernel), "reading")
    evidence = collect(image.reader(kernel))
    asked.folder.keep_evidence(image.of(kernel), evidence, moment)
    return plan_node(image.of(kernel), evidence, asked.want, asked.today, asked.shelf)


def bring(
    image: Image, staged: Staged, planned: Sequence[tuple[str, Planned]], asked: Asked
) -> list[Made]:
    """Carry out the plans, kernel by kernel, and look again.

    :param image: the one that is worked on, aside.
    :param planned: for each kernel what was found, in the order in which they are prepared.
    :raises ToolkitError: a step failed; what came before it stands in what was worked on.
    """
    made = [_bring(image, staged, kernel, start, asked) for kernel, start in planned]
    # What was done for the last kernel may show in all of them.
    done: list[Made] = []
    for each in made:
        last = look(image, each.kernel, asked, "after")
        done.append(replace(each, after=last.judged, left=last.plan if last.pending else None))
        asked.progress.done(image.of(each.kernel))
    return done


def _bring(image: Image, staged: Staged, kernel: str, start: Planned, asked: Asked) -> Made:
    made = Made(kernel, start.judged, start.judged)
    for _ in range(ROUNDS):
        now = look(image, kernel, asked)  # an earlier kernel's plan has placed what they share
        if now.bundle is None or now.plan in made.plans:
            break

        def say(line: str) -> None:
            if told := heard(line):
                asked.progress.note(image.of(kernel), told)

        asked.progress.note(image.of(kernel), "applying")
        applied = deliver.apply(staged, script(now.bundle), limit_s=APPLY_S, sink=say)
        steps = (*made.steps, *map(str, applied.steps))
        made = replace(made, plans=(*made.plans, now.plan), steps=steps)
    return made
