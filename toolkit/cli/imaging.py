"""The verb for images: the same evidence, checks, plan and bundle, in a tree that does not run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from toolkit.cli.changing import CHECK, DELIVERED, DIFF, shelf_of, tell_plan
from toolkit.cli.options import OUTPUT, WANT, Option, Said
from toolkit.cli.session import Session, consent
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, UsageError, worst
from toolkit.flow.image import ALL, Asked, Image, Made, bring, chosen_kernels, look
from toolkit.flow.planning import Planned
from toolkit.report.document import Told
from toolkit.report.live import listener
from toolkit.report.plan_text import plan_lines
from toolkit.report.text import findings, report, summary

WHAT = (
    Option("root", "", "a mounted or unpacked root: the folder that has bin, etc and lib in it"),
)
HOW = (
    Option(
        "kernels", ALL, "all kernels in it, default (of its boot menu), or releases with commas"
    ),
    Option("yes", False, "do not ask before it is changed", "y"),
    Option("quiet", False, "no progress", "q"),
)


@verb(WHAT, WANT, HOW, OUTPUT, (CHECK, DIFF), DELIVERED)
def image(said: Said) -> ExitCode:
    """Bring an image to the wanted state: modules for its own kernels, files for its first boot.

    The image is judged for each of its kernels, as if it had booted them; the kernel of this
    machine plays no part. Nothing is started or loaded: nvidia-peermem is queued for the first
    boot. What was done is in the image's own journal. That it is for nodes with GPUs is taken
    from your asking.

    Exits 0 when it is as wanted, 2 when a check fails at the end, 3 when one stays open, 5 when a
    step failed, 7 with --check when something would change. See docs/images.md.

    Examples:
      invoke image --root /srv/bookworm --check --diff
      invoke image --root /srv/bookworm --yes
      invoke image --root /srv/bookworm --kernels default --site site.toml --yes
    """
    session = Session.begin("image", said)
    progress = listener(sys.stderr, quiet=said.flag("quiet"))
    asked = Asked(session.want(), session.today, session.folder, progress, shelf_of(session))
    with _opened(said) as opened:
        progress.begin("reading", 1)
        try:
            kernels = chosen_kernels(opened, said.text("kernels"), asked)
            planned = [(kernel, look(opened, kernel, asked)) for kernel in kernels]
        finally:
            progress.finish()
        outcomes = [Outcome(opened.of(kernel), found) for kernel, found in planned]
        if said.flag("check") or said.dry:
            return tell_plan(session, outcomes)
        return _prepare(session, opened, planned, asked)


@contextmanager
def _opened(said: Said) -> Iterator[Image]:
    """The image that was named, for the length of the block."""
    root = said.text("root")
    if not root:
        raise UsageError("no image named", hint="--root DIR")
    if Path(root).resolve() == Path("/"):
        raise UsageError(
            "--root /: that is this machine, which runs",
            hint="provision --hosts localhost --transport local",
        )
    yield Image(root, str(Path(root).resolve()))


def _prepare(
    session: Session, image: Image, planned: Sequence[tuple[str, Planned]], asked: Asked
) -> ExitCode:
    _tell_before(session, image, planned)
    if any(found.pending for _, found in planned):
        consent(f"change {image.name}?", session.said)
    asked.progress.begin("preparing", len(planned))
    try:
        made = bring(image, planned, asked)
    finally:
        asked.progress.finish()
    return _tell_after(session, image, made)


def _tell_before(session: Session, image: Image, planned: Sequence[tuple[str, Planned]]) -> None:
    paint = session.paint
    before = [found.judged for _, found in planned]
    counted = summary([Outcome(each.host, each) for each in before], paint)
    session.say("\n".join(["before", "", *findings(before, paint), *counted, ""]))
    plans = [(image.of(kernel), found.plan) for kernel, found in planned]
    session.say("\n".join(plan_lines(plans, paint, diffs=session.said.flag("diff"))))


def _tell_after(session: Session, image: Image, made: Sequence[Made]) -> ExitCode:
    after = [Outcome(image.of(each.kernel), each.after) for each in made]
    session.say("\n".join(["after", "", report(after, session.paint)]))
    told = [
        Outcome(
            image.of(each.kernel),
            Told(each.after, each.before, each.left or next(iter(each.plans), None), each.steps),
        )
        for each in made
    ]
    return session.finish(told, worst([each.exit_code for each in made]))
