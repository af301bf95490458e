"""An image brought to the wanted state: read, planned and provisioned for its own kernels.

An image is read, judged and planned for once for each kernel that it may boot, as if it were so
many nodes; files that all of them share are placed by the first, and found by the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from toolkit.built.delivery_cache import Shelf
from toolkit.errors import ExitCode, NoEvidence, Unparsable, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.passport import PLACE, SIGNATURE, Passport
from toolkit.facts.versions import Version
from toolkit.features.image.io.chroot import ChrootTransport
from toolkit.features.image.io.media import Staged
from toolkit.features.image.run_passport import make_passport, place_passport
from toolkit.node import deliver
from toolkit.node.audit import of_run
from toolkit.node.collect import collect
from toolkit.node.deliver import heard
from toolkit.plan.bundle import script
from toolkit.plan.plan import Plan
from toolkit.progress import Progress
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.verbs.plan import Planned, plan_node, sealed
from toolkit.want import Want

ALL, DEFAULT = "all", "default"
ROUNDS = 4  # what one plan mends may show the next; one that never empties is a bug, not a loop
APPLY_S = 7200.0  # a whole driver by DKMS, on a builder that has other work


class Image(Struct, frozen=True):
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


class ImageRequest(Struct, frozen=True):
    """What the image is to become, and what is said of the way."""

    want: Want
    today: date
    folder: RunFolder
    progress: Progress
    shelf: Shelf | None = None  # modules that were built elsewhere, and may be delivered


class Look(Struct, frozen=True):
    """The image as it was found for one of its kernels."""

    kernel: str
    evidence: Evidence
    planned: Planned

    @property
    def left(self) -> Plan | None:
        """What is still to be done; None for nothing."""
        return self.planned.plan if self.planned.pending else None


class MadeImage(Struct, frozen=True):
    """One kernel's way from what the image was to what it is."""

    first: Look
    last: Look
    plans: tuple[Plan, ...] = ()  # those that were carried out, in order
    steps: tuple[str, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """What the checks say at the end; a pending change where they are content."""
        after = self.last.planned.judged.exit_code
        if after is not ExitCode.OK:
            return after
        return ExitCode.PENDING if self.last.left is not None else ExitCode.OK


def chosen_kernels(image: Image, said: str, asked: ImageRequest) -> tuple[str, ...]:
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
    if not wanted and usable:
        raise UsageError(
            "--kernels names none", hint=f"all, default, or releases: it has {', '.join(usable)}"
        )
    strange = [each for each in wanted if each not in there]
    if strange or not usable:
        lacks = f"kernel {strange[0]} is not in it" if usable else "its kernels cannot be booted"
        raise UsageError(f"{image.path}: {lacks}", hint=f"it has {', '.join(usable or named)}")
    return tuple(sorted(wanted, key=Version))


def look(image: Image, kernel: str, asked: ImageRequest, moment: str = "") -> Look:
    """Read the image for one of its kernels, judge and plan.

    :param moment: "after" what was done, for the name that the evidence is kept under.
    """
    name = image.of(kernel)
    asked.progress.note(name, "reading")
    evidence = collect(image.reader(kernel))
    asked.folder.keep_evidence(name, evidence, moment)
    planned = plan_node(name, evidence, asked.want, asked.today, asked.shelf)
    return Look(kernel, evidence, planned)


def bring(
    image: Image, staged: Staged, looks: Sequence[Look], asked: ImageRequest
) -> tuple[MadeImage, ...]:
    """Carry out the plans, kernel by kernel, and look again.

    :param image: the one that is worked on, aside.
    :param looks: what was found for each kernel, in the order in which they are prepared.
    :raises ToolkitError: a step failed; what came before it stands in what was worked on.
    """
    made = [_bring(image, staged, first, asked) for first in looks]
    # What was done for the last kernel may show in all of them.
    done = [replace(each, last=look(image, each.first.kernel, asked, "after")) for each in made]
    for each in done:
        asked.progress.done(image.of(each.first.kernel))
    return tuple(done)


def _bring(image: Image, staged: Staged, first: Look, asked: ImageRequest) -> MadeImage:
    made, name = MadeImage(first, first), image.of(first.kernel)
    audit = of_run(asked.folder.path.name)

    def say(line: str) -> None:
        if told := heard(line):
            asked.progress.note(name, told)

    for _ in range(ROUNDS):
        # An earlier kernel's plan may have placed what they share.
        now = look(image, first.kernel, asked).planned
        if now.bundle is None or now.plan in made.plans:
            break
        asked.progress.note(name, "applying")
        text = script(sealed(now.bundle))
        applied = deliver.apply(staged, text, limit_s=APPLY_S, sink=say, audit=audit)
        steps = (*made.steps, *map(str, applied.steps))
        made = replace(made, plans=(*made.plans, now.plan), steps=steps)
    return made


def passport_for(image: Image, looks: Sequence[Look]) -> Passport:
    """What the image is to tell of itself, as it is now.

    :param looks: the last ones; that of the kernel which the boot menu starts counts.
    :raises NoEvidence: something that a passport tells could not be read.
    """
    nodes = {each.kernel: Node(each.evidence) for each in looks}
    last = nodes[looks[-1].kernel]
    node = nodes.get(_of_menu(last), last)
    return make_passport(image.reader(node.kernel), node)


def has_passport(image: Image, passport: Passport, signature: str = "") -> bool:
    """Whether that very passport lies in the image already.

    :param signature: and this one beside it; "" where none was asked for.
    """
    files = [PLACE, *([SIGNATURE] if signature else [])]
    script = "".join(f'cat "$GDR_ROOT{each}" 2>/dev/null\n' for each in files)
    return image.reader().run(script, limit_s=60).stdout == passport.json() + signature


def give_passport(staged: Transport, passport: Passport, signature: str = "") -> None:
    """Put it into the image, with its signature; one over an older passport goes.

    :raises ApplyError: it could not be written.
    """
    staged.run(f'rm -f "${{GDR_ROOT:-}}"{SIGNATURE}', limit_s=60)
    place_passport(staged, passport, signature)


def _of_menu(node: Node) -> str:
    """The kernel that the boot menu starts by itself; "" where it does not tell."""
    try:
        entry = node.default_entry
    except (NoEvidence, Unparsable):
        return ""
    there = {each.release for each in node.kernels}
    return entry.kernel if entry is not None and entry.kernel in there else ""
