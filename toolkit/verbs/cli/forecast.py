"""``doctor --kernel`` and ``doctor --next-boot``: what another kernel would find."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path

from toolkit.checks.consumers.taken import taken
from toolkit.checks.judged import judge_node
from toolkit.checks.kernel.forecast import Foreseen, forecast
from toolkit.cli.options import Said, parted
from toolkit.errors import ExitCode, Outcome, Unparsable, UsageError, code_of
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.versions import parse_kernel_release
from toolkit.groups import Wants
from toolkit.report.document import Told
from toolkit.report.forecast import forecast_report
from toolkit.rollout.runs import RunFolder
from toolkit.verbs.access import Fleet
from toolkit.verbs.cli.session import Session, fleet
from toolkit.verbs.each import on_saved
from toolkit.verbs.reading import read_each
from toolkit.verbs.saved import read_all
from toolkit.want import Want


def foretell(session: Session, wants: Wants) -> ExitCode:
    """Print the forecast; nothing is touched.

    :raises UsageError: for both options at once, or a release that is none.
    """
    said = session.said
    if said.text("textfile"):
        raise UsageError(
            "--textfile tells of the kernel that runs, a forecast is of another",
            hint="leave out --textfile, or ask without --kernel and --next-boot",
        )
    release = _release(said)
    if said.text("from_"):
        saved = read_all(map(Path, parted(said.text("from_"))), [])
        outcomes = foresee_saved(saved, wants, session.today, release)
    else:
        with fleet(said) as opened:
            outcomes = foresee(opened, wants, session.today, session.folder, release)
    session.say(forecast_report(outcomes, session.paint, verbose=said.flag("verbose")))
    told = [e.map(lambda found: Told(found.judged, forecast=found.forecast)) for e in outcomes]
    return session.finish(told, session.ended(outcomes, code_of))


def _release(said: Said) -> str:
    kernel = said.text("kernel")
    if kernel and said.flag("next_boot"):
        raise UsageError("--kernel and --next-boot ask for two kernels", hint="say one of them")
    if not kernel:
        return ""
    try:
        return str(parse_kernel_release(kernel))
    except Unparsable:
        raise UsageError(
            f"--kernel {kernel!r} is no kernel release",
            hint="as uname -r prints it: 6.8.0-64-generic",
        ) from None


def foresee(
    fleet: Fleet, wants: Wants, today: date, folder: RunFolder, release: str
) -> list[Outcome[Foreseen]]:
    """Ask every node once, and judge it as it would be after booting another kernel.

    :param release: kernel release; "" for that of each node's next boot.
    """

    def work(name: str, evidence: Evidence) -> Foreseen:
        return _foreseen(name, evidence, wants.of(name), today, release)

    return read_each(fleet, folder, work)


def foresee_saved(
    saved: Iterable[tuple[str, Evidence]], wants: Wants, today: date, release: str
) -> list[Outcome[Foreseen]]:
    """The same from evidence that was saved earlier, with no host."""

    def work(name: str, evidence: Evidence) -> Foreseen:
        return _foreseen(name, evidence, wants.of(name), today, release)

    return on_saved(saved, work)


def _foreseen(name: str, evidence: Evidence, want: Want, today: date, release: str) -> Foreseen:
    judged = judge_node(name, evidence, want, today)
    node = Node(evidence)
    return Foreseen(judged, forecast(node, taken(node.fresh(), want), release))
