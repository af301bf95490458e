"""Page: the verb that shows every node of a fleet on one page, and keeps no more of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from datetime import date
from functools import partial
from itertools import islice
from pathlib import Path

from toolkit.checks.judged import judge_node
from toolkit.cli.options import BMC, CONSUMERS, HOSTS, REACH, SAVED, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, UsageError, code_of
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.text.scrub import Scrubber
from toolkit.features.exercise.run import measured
from toolkit.features.page.show.parts import html
from toolkit.features.page.show.seen import Excerpt, PassingKey, Seeing, SeenNode
from toolkit.features.page.show.view import make
from toolkit.groups import Renamed, numbered
from toolkit.package_data import program
from toolkit.report.document import Told
from toolkit.verbs.access import Fleet, state_dir
from toolkit.verbs.cli.session import Session, fleet
from toolkit.verbs.doctor import gather
from toolkit.verbs.each import Alike, on_saved, spread_saved
from toolkit.verbs.passport import sealed
from toolkit.verbs.reading import read_each
from toolkit.verbs.saved import read_saved
from toolkit.want import DEFAULT_PROFILE, Want, profiles

Look = Callable[[str, Evidence], SeenNode]
Apart = tuple[SeenNode, tuple[tuple[PassingKey, tuple[Excerpt, ...]], ...]]


def looking(seeing: Seeing, today: date) -> Look:
    """Judges a node, by its name and its evidence, and keeps what a page needs of it."""
    look = _looking(seeing, today)
    return lambda name, evidence: look(name, evidence, seeing.wants.of(name))


def looking_apart(today: date) -> Callable[[str, Evidence, Want], Apart]:
    """The same in a process beside this one, with what is told of its first nodes alone."""
    seeing = Seeing(Want())
    look = _looking(seeing, today)

    def apart(name: str, evidence: Evidence, want: Want) -> Apart:
        known = len(seeing.passing)
        seen = look(name, evidence, want)
        return seen, tuple(islice(seeing.passing.items(), known, None))

    return apart


def _looking(seeing: Seeing, today: date) -> Callable[[str, Evidence, Want], SeenNode]:
    alike = Alike()

    def look(name: str, evidence: Evidence, want: Want) -> SeenNode:
        given = sealed(evidence, want)
        node = Node(given)
        judged = alike.judged(judge_node(name, given, want, today, node))
        return seeing.see(judged, given, node)

    return look


def look_at_scrubbed(fleet: Fleet, look: Look) -> list[Outcome[SeenNode]]:
    """Ask every node once; what identifies the site is hidden, and nothing else is kept.

    One node after the other, so that a name has the same stand-in on all, run for run.
    """
    gathered = gather(fleet)
    scrubber = Scrubber(gathered)
    outcomes: list[Outcome[SeenNode]] = []
    for number, each in enumerate(gathered.values(), start=1):
        name = numbered(number)
        if isinstance(each, Evidence):
            outcomes += on_saved([(name, scrubber.scrub(each))], look)
        else:
            # What stood in the way names hosts, too.
            told = copy(each)
            told.args, told.hint = (scrubber.text(str(each)),), scrubber.text(each.hint)
            outcomes.append(Outcome(name, error=told))
    return outcomes


def scrubbed(
    names: Iterable[str], saved: Iterable[tuple[str, Evidence]]
) -> Iterator[tuple[str, Evidence]]:
    """Saved evidence without what identifies the site, numbered.

    :param names: of all nodes: what one says of another is hidden from the first on.
    """
    scrubber = Scrubber(names)
    for number, (_, evidence) in enumerate(saved, start=1):
        yield numbered(number), scrubber.scrub(evidence)


_HIDDEN = "the reason is hidden"
_OWN = "of the site"


@verb(
    HOSTS,
    REACH,
    BMC,
    WANT,
    CONSUMERS,
    SAVED,
    (
        Option("html", "", "write one self-contained page to this file", file=True),
        Option("scrub", False, "hide names, serials, GUIDs and addresses; number the nodes"),
        Option("json", False, "one JSON document on standard output (docs/report.schema.json)"),
    ),
)
def report(said: Said) -> ExitCode:
    """Make a page about nodes that can be sent to others; change nothing.

    One file that needs no network: what is wrong and on which nodes, the evidence behind it,
    commands that mend it, GPUs and HCAs, nodes by checks, who is unlike the others, and each
    node. Passwords and tokens are never in it. Exits as doctor does.

    Examples:
      invoke report --hosts gpu[001-128] --html fleet.html
      invoke report --from evidence/ --html fleet.html
      invoke report --from evidence/ --scrub --html for-the-vendor.html
    """
    session = Session.begin("report", said)
    if not said.text("html"):
        raise UsageError("where to write the page was not said", hint="say --html FILE")
    site = session.wants()
    if said.flag("scrub"):  # its own words on why it lives with a failure may name anything
        site = site.telling_nobody(_HIDDEN)
    wants = Renamed(site, {})
    seeing = Seeing(wants)
    outcomes = _looked(session, wants, seeing)
    # Where names are hidden, nobody knows what was measured of whom.
    names = () if said.flag("scrub") else [each.host for each in outcomes]
    figures = measured(state_dir() / "runs", names)
    # The profile's name; where names are hidden, of a site's own file not even that.
    name = said.text("profile")
    profile = _OWN if said.flag("scrub") and name not in profiles() else name
    page = make(outcomes, seeing.passing, profile, session.now, figures)
    if size := session.deliver("html", "".join(html(page, _command(said)))):
        session.say(f"{said.text('html')}: {len(outcomes)} nodes, {size / 1e6:.1f} MB")
    told = [each.map(lambda seen: Told(judged=seen.judged)) for each in outcomes]
    return session.finish(
        told, session.ended([each.map(lambda seen: seen.judged) for each in outcomes], code_of)
    )


def _looked(session: Session, wants: Renamed, seeing: Seeing) -> list[Outcome[SeenNode]]:
    said, look = session.said, looking(seeing, session.today)
    hide = said.flag("scrub")
    if said.text("from_"):
        saved = Path(said.text("from_"))
        evidence = read_saved(saved)
        if hide:
            names = [name for name, _ in read_saved(saved)]
            wants.number(names)
            evidence = scrubbed(names, evidence)
        elif apart := spread_saved([saved], [], wants, partial(looking_apart, session.today)):
            return [each.map(lambda told: seeing.take(*told)) for each in apart]
        return on_saved(evidence, look)
    with fleet(said) as opened:
        if hide:
            wants.number(host.name for host in opened.hosts)
            return look_at_scrubbed(opened, look)
        return read_each(opened, session.folder, look)


def _command(said: Said) -> str:
    """What made the page; where names are hidden, not of what."""
    if said.flag("scrub"):
        return f"{program()} report --scrub"
    asked = ("from_", "--from") if said.text("from_") else ("hosts", "--hosts")
    words = ["report", asked[1], said.text(asked[0])]
    if said.text("profile") != DEFAULT_PROFILE:
        words += ["--profile", said.text("profile")]
    return f"{program()} {shlex.join(words)}"
