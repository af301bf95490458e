"""The verb that rehearses an upgrade."""

from __future__ import annotations

import re
import shlex
import sys
from functools import partial
from pathlib import Path

from toolkit.cli.options import HOSTS, REACH, READS, SAVED, WANT, Option, Said, parted
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, Unparsable, UsageError, code_of
from toolkit.evidence import Evidence
from toolkit.facts.versions import parse_kernel_release
from toolkit.features.rehearse.plan import PACKAGES, Rehearsal, packages_asked, rehearse_node
from toolkit.features.rehearse.plan_evidence import Upgrade, whole_ofed
from toolkit.features.rehearse.show import rehearse_document, rehearse_report
from toolkit.node.scripts import assembled
from toolkit.report.document import dumps
from toolkit.ssh.transport import Transport
from toolkit.verbs.cli.session import Session, fleet
from toolkit.verbs.each import on_saved
from toolkit.verbs.reading import read_each
from toolkit.verbs.saved import read_all, read_saved

REHEARSE = (
    Option("driver", "", "the NVIDIA driver that they would have: 595.58"),
    Option("ofed", "", "the OFED: 26.04, or all of it: 26.04-1.1.0"),
    Option("kernel", "", "the kernel release: 6.8.0-90-generic"),
    Option("firmware", "", "the firmware of HCAs of its line: 28.43.2566"),
    Option("json", False, "one JSON document on standard output (docs/rehearse.schema.json)"),
)
_PACKAGES_S = 90
_FORMS = {
    "driver": (r"\d{3}(\.\d+)+", "595.58"),
    "ofed": (r"\d{1,2}\.\d{1,2}(-\d+(\.\d+)*)?", "26.04 or 26.04-1.1.0"),
    "firmware": (r"\d{2}\.\d{2}\.\d{4}", "28.43.2566"),
}


@verb(HOSTS, REACH, READS, WANT, SAVED, REHEARSE)
def rehearse(said: Said) -> ExitCode:
    """Tell what an upgrade would do to nodes, before anything is upgraded; change nothing.

    For each node: what has to be compiled again, in which order, and whether it does (by the
    table, which says who knows it); what restarts, and how often it boots; what to take along;
    the path that consumers take then; and each check that would answer otherwise.

    Exits 0 where all nodes keep what they have, 2 where one loses something, 3 where something
    is not known, 4 where a host is out of reach.

    Examples:
      invoke rehearse --hosts gpu[001-128] --driver 595.58 --ofed 26.04
      invoke rehearse --hosts gpu007 --kernel 6.8.0-90-generic
      invoke rehearse --from evidence/ --driver 595.58 --firmware 28.43.2566 --json
    """
    upgrade = _upgrade(said)
    session = Session.begin("rehearse", said)
    wants, today = session.wants(), session.today

    def work(name: str, evidence: Evidence) -> Rehearsal:
        return rehearse_node(name, evidence, wants.of(name), upgrade, today)

    outcomes: list[Outcome[Rehearsal]]
    if said.text("from_"):
        outcomes = on_saved(read_all(map(Path, parted(said.text("from_"))), [], read_saved), work)
    else:
        with fleet(said) as opened:
            ask = partial(_with_packages, upgrade)
            outcomes = read_each(opened, session.folder, work, more=ask)
    session.say(rehearse_report(outcomes, session.paint))
    code = session.ended(outcomes, code_of)
    if said.flag("json"):
        sys.stdout.write(dumps(rehearse_document(outcomes, upgrade, code, session.now)))
    return code


def _with_packages(upgrade: Upgrade, transport: Transport, evidence: Evidence) -> Evidence:
    """The same, with what the node's repositories have of what it would need."""
    names = packages_asked(evidence, upgrade)
    if not names:
        return evidence
    call = " ".join(("offered", *map(shlex.quote, names)))
    said = transport.run(assembled(("frames.sh", "offered.sh"), call), limit_s=_PACKAGES_S)
    told = Evidence.parse(said.stdout).frames
    return evidence.plus(told[key] for key in (PACKAGES,) if key in told)


def _upgrade(said: Said) -> Upgrade:
    """:raises UsageError: for no version at all, or one that is none."""
    for name, (form, example) in _FORMS.items():
        if said.text(name) and not re.fullmatch(form, said.text(name)):
            raise UsageError(f"--{name} {said.text(name)!r} is no version of it", hint=example)
    kernel, ofed = said.text("kernel"), said.text("ofed")
    try:
        kernel = str(parse_kernel_release(kernel)) if kernel else ""
    except Unparsable:
        raise UsageError(
            f"--kernel {kernel!r} is no kernel release",
            hint="as uname -r prints it: 6.8.0-90-generic",
        ) from None
    found = Upgrade(
        said.text("driver"), whole_ofed(ofed) if ofed else "", kernel, said.text("firmware")
    )
    if found == Upgrade():
        raise UsageError(
            "nothing is named that would be another version",
            hint="--driver, --ofed, --kernel or --firmware",
        )
    return found
