"""Images: the same evidence, checks, plan and bundle, in a tree that does not run; passports."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from toolkit.cli.options import OUTPUT, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, UsageError, worst
from toolkit.facts.passport import PLACE, SIGNATURE, Passport
from toolkit.features.image import show
from toolkit.features.image.cli_boot import BOOT, boot_image, early
from toolkit.features.image.io.index import TreeDifference
from toolkit.features.image.io.media import ImageSource, Medium, stage
from toolkit.features.image.plan import unlike
from toolkit.features.image.run import (
    ALL,
    Image,
    ImageRequest,
    Look,
    MadeImage,
    bring,
    chosen_kernels,
    give_passport,
    has_passport,
    look,
    passport_for,
)
from toolkit.features.image.run_passport import read_passport, signature_of, try_signing, unsigned
from toolkit.node.audit import of_run
from toolkit.node.deliver import rollback
from toolkit.plural import counted
from toolkit.progress import Progress
from toolkit.report.document import Told, dumps
from toolkit.report.plan_text import plan_lines
from toolkit.report.progress import listener
from toolkit.report.text import findings, report, summary
from toolkit.verbs.cli.plan import CHECK, DELIVERED, DIFF, shelf_of, tell_plan
from toolkit.verbs.cli.session import Session, consent

WHAT = (
    Option("root", "", "a mounted or unpacked root: the folder with bin, etc and lib in it"),
    Option("disk", "", "a disk: a raw or qcow2 file"),
    Option("tar", "", "a root as a tar, with --out for the result"),
    Option("out", "", "where the tar that comes of --tar goes"),
)
DO = (
    CHECK,
    DIFF,
    Option("passport_sign", "", "sign the image's passport with this key, of OpenSSH or minisign"),
    Option(
        "undo",
        "",
        "take back a run of ours in it: last, all, or its name in the journal",
        was="rollback",
    ),
)
HOW = (
    Option("kernels", ALL, "all in it, default (of its boot menu), or releases with commas"),
    Option("yes", False, "do not ask before it is changed", "y"),
    Option("quiet", False, "no progress", "q"),
)


@verb(WHAT, DO, WANT, HOW, OUTPUT, DELIVERED, BOOT)
def image(said: Said) -> ExitCode:
    """Bring an image to the wanted state: modules for its own kernels, files for its first boot.

    It is judged for each of its kernels, as if it had booted them; that of this machine plays no
    part. Nothing is started or loaded: nvidia-peermem is queued for the first boot. It is worked
    on aside, and takes the place of the old one in one step, or not at all. What was done stands
    in its own journal, and what it is in its passport. That it is for nodes with GPUs is taken
    from your asking. With --boot the result is started once in QEMU, judged there by the suite,
    and left as it was, bit for bit.

    Exits 0 when it is as wanted, 2 when a check fails at the end, 3 when one stays open, 5 when a
    step failed and nothing was changed, 7 with --check when something would change; 4 when it
    does not come up.

    Examples:
      invoke image --root /srv/bookworm --check --diff
      invoke image --root /srv/bookworm --yes
      invoke image --disk golden.qcow2 --kernels default --site site.toml --yes
      invoke image --tar base.tar --out golden.tar
      invoke image --disk golden.qcow2 --yes --boot --junit image.xml
      invoke image --root /srv/bookworm --undo last --yes
    """
    session = Session.begin("image", said)
    source = _source(said)
    looked = said.looks
    if looked and said.flag("boot"):
        raise UsageError(
            "--boot proves what was made, and --check makes nothing", hint="one of the two"
        )
    if looked and said.text("undo"):
        raise UsageError(
            "--undo takes back what was done, and --check and --dry change nothing",
            hint="leave one of them out; its runs: /var/lib/gdr-toolkit/journal in the image",
        )
    if said.flag("boot"):
        early(said)
    code = _brought(session, source)
    if said.flag("boot"):
        code = worst([code, boot_image(session, source.out or source.path)])
    return code


def _brought(session: Session, source: ImageSource) -> ExitCode:
    """Look, and unless only that was asked for, bring it to the wanted state."""
    said = session.said
    progress = listener(sys.stderr, quiet=said.flag("quiet"))
    if said.text("undo"):
        return _take_back(session, source, progress)
    if key := said.text("passport_sign"):
        try_signing(Path(key))
    asked = ImageRequest(session.want(), session.today, session.folder, progress, shelf_of(session))
    with ExitStack() as stack:
        progress.begin("reading", 1)
        try:
            seen = stack.enter_context(_seen(source, progress))
            kernels = chosen_kernels(seen, said.text("kernels"), asked)
            looks = [look(seen, kernel, asked) for kernel in kernels]
        finally:
            progress.finish()
        if said.looks:
            found = [Outcome(seen.of(each.kernel), each.planned) for each in looks]
            return tell_plan(session, found)
        _tell_before(session, seen, looks)
        _ask(source, looks, said)
        return _prepare(session, source, seen, looks, asked)


def _ask(source: ImageSource, looks: Sequence[Look], said: Said) -> None:
    """:raises UsageError: what is there would be replaced, and that was not agreed to."""
    if source.out is None:
        if any(each.left for each in looks):
            consent(f"change {source.path}?", said)
    elif source.out.exists():
        consent(f"replace {source.out}?", said)


def _source(said: Said) -> ImageSource:
    """The one image that was named."""
    named = {each: said.text(each) for each in Medium if said.text(each)}
    if len(named) != 1:
        given = " and ".join(f"--{each}" for each in named) or "none"
        raise UsageError(
            f"one image is meant, and {given} was named",
            hint="--root DIR, --disk FILE, or --tar IN --out OUT; two side by side: image.diff A B",
        )
    [(medium, path)] = named.items()
    out = said.text("out")
    if bool(out) is not (medium is Medium.TAR):
        raise UsageError(
            "--out goes with --tar, and --tar with --out",
            hint="a root and a disk are replaced in their places",
        )
    if medium is Medium.ROOT and Path(path).resolve() == Path("/"):
        raise UsageError(
            "--root /: that is this machine, which runs",
            hint="provision --hosts localhost --transport local",
        )
    return ImageSource(Medium(medium), Path(path), Path(out) if out else None)


@contextmanager
def _seen(source: ImageSource, progress: Progress) -> Iterator[Image]:
    """The image, to be looked into; a root as it lies there, which needs no copy."""
    if source.medium is Medium.ROOT:
        yield Image(source.path)
        return
    with stage(source, progress=progress) as staged:
        yield Image(source.path, staged)


def _prepare(
    session: Session, source: ImageSource, seen: Image, looks: Sequence[Look], asked: ImageRequest
) -> ExitCode:
    """Work on it aside, look again, and put it in place where anything has changed."""
    asked.progress.begin("preparing", len(looks))
    try:
        if source.out is None and not any(each.left for each in looks):
            passport = passport_for(seen, looks)
            if has_passport(seen, passport, _signature(session, passport)):
                return _tell_after(session, seen, [MadeImage(each, each) for each in looks])
        with ExitStack() as stack:
            staged = seen.staged or stack.enter_context(stage(source, progress=asked.progress))
            work = Image(source.path, staged)
            made = bring(work, staged, looks, asked)
            passport = passport_for(work, [each.last for each in made])
            signature = _signature(session, passport)
            if not has_passport(work, passport, signature):
                give_passport(staged, passport, signature)
            changed = staged.commit()
    finally:
        asked.progress.finish()
    ended = _tell_after(session, seen, made)
    _tell_changed(session, source, changed)
    if said := unsigned(passport):
        session.remark(said)
    return ended


def _signature(session: Session, passport: Passport) -> str:
    key = session.said.text("passport_sign")
    return signature_of(passport, Path(key)) if key else ""


def _take_back(session: Session, source: ImageSource, progress: Progress) -> ExitCode:
    """Take back what runs of ours did to the image; its passport goes, for it tells of them."""
    run = session.said.text("undo")
    consent(f"take back run {run!r} of {source.path}?", session.said)
    progress.begin("taking back", 1)
    try:
        with stage(source, progress=progress) as staged:
            applied = rollback(staged, run, audit=of_run(session.folder.path.name))
            staged.run(f"rm -f {PLACE} {SIGNATURE}", limit_s=60)
            changed = staged.commit()
    finally:
        progress.finish()
    steps = tuple(map(str, applied.steps))
    session.say("\n".join(steps) or "nothing to take back")
    _tell_changed(session, source, changed)
    told = Outcome(Image(source.path).of(""), Told(steps=steps))
    return session.finish([told], ExitCode.OK)


def _tell_changed(session: Session, source: ImageSource, changed: Sequence[TreeDifference]) -> None:
    session.folder.keep("changed.txt", "".join(f"{e.change} {e.path}\n" for e in changed))
    session.remark(f"{counted(len(changed), 'path')} of {source.out or source.path} changed")


def _tell_before(session: Session, image: Image, looks: Sequence[Look]) -> None:
    paint = session.paint
    before = [each.planned.judged for each in looks]
    counted_ = summary([Outcome(each.host, each) for each in before], paint)
    session.say("\n".join(["before", "", *findings(before, paint), *counted_, ""]))
    plans = [(image.of(each.kernel), each.planned.plan) for each in looks]
    session.say("\n".join(plan_lines(plans, paint, diffs=session.said.flag("diff"))))


def _tell_after(session: Session, image: Image, made: Sequence[MadeImage]) -> ExitCode:
    after = [Outcome(image.of(e.first.kernel), e.last.planned.judged) for e in made]
    session.say("\n".join(["after", "", report(after, session.paint)]))
    told = []
    for each in made:
        first, last = each.first.planned, each.last.planned
        plan = each.last.left or next(iter(each.plans), None)
        one = Told(last.judged, first.judged, plan, each.steps)
        told.append(Outcome(image.of(each.first.kernel), one))
    return session.finish(told, worst([each.exit_code for each in made]))


TWO = (
    Option("a", "", "a passport, or a root, tar or disk that has one", positional=True),
    Option("b", "", "the other", positional=True),
    Option("quiet", False, "no progress", "q"),
    Option("json", False, "one JSON document on standard output (docs/passport-diff.schema.json)"),
)


@verb(TWO)
def diff(said: Said) -> ExitCode:
    """Lay the passports of two images side by side: kernels, modules, arguments, files.

    Each is a passport.json, a root, a tar (plain, gzip, xz, zstd) or a disk (raw, qcow2). A disk
    is looked into by root alone, from a copy beside it that goes again. Any medium with any other.

    Exits 0 when they are the same, 2 when they differ, 3 when one cannot be read as a passport.

    Examples:
      invoke image.diff old/ new/
      invoke image.diff passport-2026-10.json root.tar.zst --json
      sudo gdr image.diff golden-2026-10.qcow2 golden-2026-11.qcow2
    """
    session = Session.begin("image-diff", said)
    a, b = said.text("a"), said.text("b")
    progress = listener(sys.stderr, quiet=said.flag("quiet"))
    progress.begin("reading", 2)
    try:
        found = unlike(*(read_passport(Path(each), progress) for each in (a, b)))
    finally:
        progress.finish()
    code = ExitCode.FAILED if found else ExitCode.OK
    session.say(show.text(a, b, found, session.paint))
    if said.flag("json"):
        sys.stdout.write(dumps(show.document(a, b, found, code, session.now)))
    return code
