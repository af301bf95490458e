"""``doctor --kernel`` and ``doctor --next-boot``: what another kernel would find."""

from __future__ import annotations

from pathlib import Path

from toolkit.checks.kernel.forecast import Foreseen
from toolkit.cli.options import Said, parted
from toolkit.errors import ExitCode, Outcome, Unparsable, UsageError
from toolkit.facts.versions import parse_kernel_release
from toolkit.groups import Wants
from toolkit.report.document import Told
from toolkit.report.forecast import forecast_report
from toolkit.verbs.cli.session import Session, fleet
from toolkit.verbs.doctor import foresee, foresee_saved
from toolkit.verbs.saved import read_all


def asked_for(said: Said) -> bool:
    """Whether the operator asks about another kernel than the one that runs."""
    return bool(said.text("kernel")) or said.flag("next_boot")


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
    told = [Outcome(each.host, _told(each.value), each.error) for each in outcomes]
    return session.finish(told, session.ended(outcomes, foreseen_code))


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


def foreseen_code(outcome: Outcome[Foreseen]) -> ExitCode:
    """What one host's forecast makes of the exit code."""
    if outcome.error is not None:
        return outcome.error.exit_code
    return outcome.get().exit_code


def _told(foreseen: Foreseen | None) -> Told | None:
    return Told(judged=foreseen.judged, forecast=foreseen.forecast) if foreseen else None
