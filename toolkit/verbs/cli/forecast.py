"""``doctor --kernel`` and ``doctor --next-boot``: what another kernel would find."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

from toolkit.checks.consumers.chosen import taken
from toolkit.checks.judged import judge_node
from toolkit.checks.kernel.forecast import Foreseen, forecast
from toolkit.cli.options import Said, parted
from toolkit.errors import ExitCode, Unparsable, UsageError, code_of
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.versions import parse_kernel_release
from toolkit.groups import Wants
from toolkit.report.document import Told
from toolkit.report.forecast import forecast_report
from toolkit.verbs.cli.session import Session, fleet
from toolkit.verbs.each import on_saved
from toolkit.verbs.reading import read_each
from toolkit.verbs.saved import read_all, read_saved


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
    work = foreseeing(wants, session.today, _release(said))
    if said.text("from_"):
        outcomes = on_saved(read_all(map(Path, parted(said.text("from_"))), [], read_saved), work)
    else:
        with fleet(said) as opened:
            outcomes = read_each(opened, session.folder, work)
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


def foreseeing(wants: Wants, today: date, release: str) -> Callable[[str, Evidence], Foreseen]:
    """Judges a node, by its name and evidence, as it would be after booting another kernel.

    :param release: kernel release; "" for that of each node's next boot.
    """

    def work(name: str, evidence: Evidence) -> Foreseen:
        want, node = wants.of(name), Node(evidence)
        judged = judge_node(name, evidence, want, today)
        return Foreseen(judged, forecast(node, taken(node.fresh(), want), release))

    return work
