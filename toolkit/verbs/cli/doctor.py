"""The verbs that look and change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.cli.options import (
    BMC,
    CHECKS,
    CONSUMERS,
    FILES,
    FORECAST,
    HOSTS,
    INSIDE,
    JOB,
    OUTPUT,
    PASSPORT,
    REACH,
    READS,
    TEXTFILE,
    WANT,
    Said,
    parted,
)
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, UsageError, code_of, worst
from toolkit.evidence import Frame
from toolkit.groups import Wants
from toolkit.verbs.cli.prometheus import Metrics, textfile
from toolkit.verbs.cli.session import Session, fleet, refuse_inside
from toolkit.verbs.doctor import Gathered, examine, examine_files

if TYPE_CHECKING:  # nodes are asked while what judges and reports them is imported
    from toolkit.checks.agreement import SetVerdict
    from toolkit.checks.judged import Judged
    from toolkit.facts.text.foreign import Foreign


@verb(
    HOSTS,
    REACH,
    READS,
    BMC,
    WANT,
    CHECKS,
    CONSUMERS,
    OUTPUT,
    (TEXTFILE,),
    FILES,
    JOB,
    FORECAST,
    PASSPORT,
    INSIDE,
)
def doctor(said: Said) -> ExitCode:
    """Judge nodes; change nothing.

    Exits 0 when every node is as wanted, 2 when a check fails, 3 when only unknowns
    remain, 4 when a host is out of reach. With --kernel or --next-boot it tells what that
    kernel would lose, and exits 2 where something is lost. With --only or --skip all of this
    holds for the checks that are left, and no node is called ready.

    Examples:
      invoke doctor --hosts gpu[001-128] -x gpu007
      invoke doctor --hosts @train --inventory hosts.ini --json > report.json
      invoke doctor --hosts gpu[001-128] --only rdma,peermem.loaded --skip rdma.gid
      invoke doctor --from evidence/ --profile dmabuf
      invoke doctor topo.txt dmesg.log.xz ticket-4711.tar.gz
      nvidia-smi topo -m | invoke doctor -
      invoke doctor --hosts gpu[001-002] --nccl-log job.log
      invoke doctor --hosts gpu[001-128] --nccl-version 2.27
      invoke doctor --hosts gpu[001-128] --bmc-user ops --bmc-password-file pw --bmc-map bmcs
      invoke doctor --hosts gpu[001-128] --quiet --textfile /var/lib/gdr/doctor.prom
      invoke doctor --hosts gpu[001-128] --next-boot
      invoke doctor --hosts gpu[001-128] --kernel 6.8.0-64-generic
      invoke doctor --hosts gpu[001-128] --passport --passport-key images.pub
      invoke doctor --hosts gpu007 --inside docker:train
      invoke doctor --hosts gpu[001-128] --inside image:/images/train.sqsh
    """
    _refuse_part(said)
    session = Session.begin("doctor", said)
    wants = session.wants()
    if said.text("kernel") or said.flag("next_boot"):  # another kernel than the one that runs
        from toolkit.verbs.cli.forecast import foretell  # noqa: PLC0415 only they pay for it

        return foretell(session, wants)
    aside: list[Foreign] = []
    gathered = Gathered(wants)
    with textfile(session, _metrics) as teller:
        outcomes = _examined(session, wants, aside, gathered)
        between = gathered.verdicts(wants.common.checks)
        code = worst([session.ended(outcomes, code_of), _between_them(between)])
        teller.of(outcomes, code)
    return _reported(session, outcomes, aside, code, between)


def _between_them(between: Sequence[SetVerdict]) -> ExitCode:
    """A mix of versions is told; amid an update it is what the operator wants."""
    from toolkit.checks.check import Impact, Status  # noqa: PLC0415 see above

    failing = {each.rule.impact for each in between if each.status is Status.FAIL}
    return ExitCode.FAILED if failing - {Impact.FRAGILE} else ExitCode.OK


def _refuse_part(said: Said) -> None:
    """:raises UsageError: for what tells of nodes as a whole, and some checks were left out."""
    option = "only" if said.text("only") else "skip" * bool(said.text("skip"))
    if option and said.text("textfile"):
        raise UsageError(
            f"--textfile tells of whole nodes, and --{option} leaves checks out",
            hint="say one of them; what a site lives with is a waiver in its own file (--site)",
        )
    if option and (said.text("kernel") or said.flag("next_boot")):
        raise UsageError(
            f"--{option} is for checks, and a forecast has none", hint=f"leave --{option} out"
        )
    if said.text("kernel") or said.flag("next_boot"):
        refuse_inside(said, "a kernel that does not run has no containers")


def _reported(
    session: Session,
    outcomes: list[Outcome[Judged]],
    aside: list[Foreign],
    code: ExitCode,
    between: Sequence[SetVerdict],
) -> ExitCode:
    """The report on the terminal, and in each file that was asked for."""
    from toolkit.checks.check import Impact  # noqa: PLC0415 see above
    from toolkit.report.document import Told  # noqa: PLC0415 see above
    from toolkit.report.foreign import foreign_document  # noqa: PLC0415 see above
    from toolkit.report.text import report  # noqa: PLC0415 see above

    said = session.said
    asked = ("nccl.log", "nccl.agrees") if said.text("nccl_log") else ()
    verbose = said.flag("verbose")
    more, lines = foreign_document(aside), list[str]()
    if between:
        from toolkit.report.between import between_document, between_lines  # noqa: PLC0415 one node has none

        lines = between_lines(between, session.paint, verbose=verbose, brief=True)
        more |= between_document(between)
    session.say(
        report(outcomes, session.paint, verbose=verbose, asked=asked, aside=aside, between=lines)
    )
    told = [each.map(lambda judged: Told(judged=judged)) for each in outcomes]
    found = [each.value for each in outcomes if each.value]
    said.sick.update(each.host for each in found if each.state == Impact.SICK)
    said.beyond.update(each.host for each in found if not each.mendable)
    said.texts.update(each.host for each in found if each.text)
    return session.finish(told, code, more=more)


def _metrics() -> Metrics:
    from toolkit.report import prometheus  # noqa: PLC0415 only who wants them pays for it

    return prometheus


def _examined(
    session: Session, wants: Wants, aside: list[Foreign], gathered: Gathered
) -> list[Outcome[Judged]]:
    """:param aside: is given what was not understood of what was saved."""
    said = session.said
    also: tuple[Frame, ...] = ()
    if said.text("nccl_log"):
        from toolkit.verbs.pasted_logs import import_log  # noqa: PLC0415 only they pay for it

        also = import_log(Path(said.text("nccl_log")))
    if saved := _saved(said):
        also += _image(said.text("inside"))
        today = session.today
        return examine_files(saved, aside, wants, today, also=also, gathered=gathered)
    with fleet(said) as opened:
        today, folder = session.today, session.folder
        return examine(
            opened, wants, today, folder, also=also, gathered=gathered, then=_import_report
        )


def _import_report() -> None:
    """While nodes are waited for: 9 ms that would come after their answers."""
    import toolkit.report.foreign  # noqa: PLC0415 as it says
    import toolkit.report.text  # noqa: F401, PLC0415 likewise


def _image(where: str) -> tuple[Frame, ...]:
    """What an image's file has, for nodes whose evidence was saved.

    :raises UsageError: it is a container, which no saved evidence can be asked for.
    """
    if not where:
        return ()
    from toolkit.verbs.inside import opened_inside  # noqa: PLC0415 only they pay for it

    frames = opened_inside(where).frames
    if not frames:
        raise UsageError(
            f"--inside {where} and --from do not go together: no host is asked",
            hint="with --from it takes image:FILE; else name --hosts",
        )
    return frames


def _saved(said: Said) -> list[Path]:
    """What is judged without asking a node: files that were named, else the log of a job alone."""
    if said.text("from_"):
        return [Path(each) for each in parted(said.text("from_"))]
    nobody = not any(said.text(each) for each in ("hosts", "hosts_file", "inventory"))
    return [Path(said.text("nccl_log"))] if nobody and said.text("nccl_log") else []
