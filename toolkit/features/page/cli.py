"""The verb that makes a page about a fleet."""

from __future__ import annotations

import shlex
from pathlib import Path

from toolkit.checks.judged import judge_node
from toolkit.cli.options import BMC, CONSUMERS, HOSTS, REACH, SAVED, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, UsageError
from toolkit.evidence import Evidence
from toolkit.features.exercise.run import measured
from toolkit.features.page.run import look_at, look_at_saved, look_at_scrubbed, scrubbed
from toolkit.features.page.show.parts import html
from toolkit.features.page.show.seen import Seeing, SeenNode
from toolkit.features.page.show.view import make
from toolkit.groups import Renamed
from toolkit.report.document import Told
from toolkit.verbs.access import state_dir
from toolkit.verbs.cli.doctor import judged_code
from toolkit.verbs.cli.session import Session, fleet
from toolkit.verbs.each import Alike
from toolkit.verbs.saved import read_saved
from toolkit.want import DEFAULT_PROFILE, profiles

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
    page = make(outcomes, seeing.passing, _profile(said), session.now, figures)
    if size := session.deliver("html", "".join(html(page, _command(said)))):
        session.say(f"{said.text('html')}: {len(outcomes)} nodes, {size / 1e6:.1f} MB")
    told = [each.map(lambda seen: Told(judged=seen.judged)) for each in outcomes]
    return session.finish(
        told, session.ended([each.map(lambda seen: seen.judged) for each in outcomes], judged_code)
    )


def _profile(said: Said) -> str:
    """The profile's name; where names are hidden, of a site's own file not even that."""
    name = said.text("profile")
    return _OWN if said.flag("scrub") and name not in profiles() else name


def _looked(session: Session, wants: Renamed, seeing: Seeing) -> list[Outcome[SeenNode]]:
    alike = Alike()

    def look(name: str, evidence: Evidence) -> SeenNode:
        judged = alike.judged(judge_node(name, evidence, wants.of(name), session.today))
        return seeing.see(judged, evidence)

    said = session.said
    hide = said.flag("scrub")
    if said.text("from_"):
        saved = Path(said.text("from_"))
        evidence = read_saved(saved)
        if hide:
            names = [name for name, _ in read_saved(saved)]
            wants.number(names)
            evidence = scrubbed(names, evidence)
        return look_at_saved(evidence, wants, look)
    with fleet(said) as opened:
        if hide:
            wants.number(host.name for host in opened.hosts)
            return look_at_scrubbed(opened, wants, look)
        return look_at(opened, wants, session.folder, look)


def _command(said: Said) -> str:
    """What made the page; where names are hidden, not of what."""
    if said.flag("scrub"):
        return "./invokew report --scrub"
    asked = ("from_", "--from") if said.text("from_") else ("hosts", "--hosts")
    words = ["./invokew", "report", asked[1], said.text(asked[0])]
    if said.text("profile") != DEFAULT_PROFILE:
        words += ["--profile", said.text("profile")]
    return shlex.join(words)
