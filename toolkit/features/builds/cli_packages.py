"""What the verb build does besides building: look ahead, and make packages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from toolkit.built.signing import Signing
from toolkit.cli.options import Option
from toolkit.compat.reader import shipped
from toolkit.errors import ExitCode, UsageError, worst
from toolkit.facts.modules.build_env import Ground
from toolkit.features.builds.plan.outcome import BuildRun
from toolkit.features.builds.run.packages import (
    MadePackage,
    make_packages,
    parse_format,
    parse_making,
)
from toolkit.features.builds.run.preflight import LaidHeaders, preflight
from toolkit.features.builds.run.run import Surveyed
from toolkit.features.builds.show import Unread, preflight_document, preflight_report
from toolkit.report.document import dumps
from toolkit.verbs.cli.session import Session

AHEAD = (
    Option(
        "headers",
        "",
        "a kernel's headers that are not installed: .deb, .rpm or a folder; again for several",
        many=True,
    ),
    Option(
        "sources",
        "",
        "the source of a driver that is installed without it: .deb, .rpm, .tar.* or a folder",
        many=True,
    ),
    Option(
        "check",
        False,
        "tell by rule whether it will compile, and why; build nothing",
        was="dry_run",
    ),
    Option("try_", False, "the same, and compile nvidia-peermem aside to see"),
)
PACK = (
    Option("package", "", "make packages of what was built: deb, rpm or tar"),
    Option("out", "", "folder that packages go to; the current one unless given"),
    Option("revision", "", "raise it for a package that replaces one of the same driver"),
    Option("maintainer", "", "who is named in packages: Name <name@example.org>"),
)


def packages_of(session: Session, option: str) -> tuple[str, ...]:
    """The packages or folders that --headers or --sources names."""
    return tuple(each for each in session.said.text(option).split(",") if each)


def looks_ahead(session: Session) -> bool:
    return session.said.flag("check") or session.said.flag("try_")


def refuse_mixed(session: Session) -> None:
    """Before anything is done: options that make no sense together.

    :raises UsageError: one sentence.
    """
    said = session.said
    if said.text("package"):
        parse_format(said.text("package"))
        parse_making(revision=said.text("revision"), maintainer=said.text("maintainer"))
        if looks_ahead(session) or said.flag("plan"):
            raise UsageError(
                "--package needs modules, and --plan, --check and --try make none",
                hint="leave one of them out",
            )
    for name in ("out", "revision", "maintainer", "sign_key", "sign_cert"):
        if said.text(name) and not said.text("package"):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} is about packages", hint="say which: --package deb")


def foretell(
    session: Session, laid: LaidHeaders, surveyed: Surveyed, limit_s: float, unread: Unread
) -> ExitCode:
    """Whether it will compile; nothing is built but, with --try, nvidia-peermem aside.

    :param unread: nodes of which nothing could be learnt: what they need is not known.
    """
    said = session.said
    found = preflight(laid, surveyed, shipped(), compile_it=said.flag("try_"), limit_s=limit_s)
    code = worst([found.exit_code, *(each.error.exit_code for each in unread if each.error)])
    session.say(preflight_report(found, session.paint, unread))
    text = dumps(preflight_document(found, code, session.now, unread))
    session.folder.keep("preflight.json", text)
    if said.flag("json"):
        sys.stdout.write(text)
    session.kept()
    return code


def pack_built(
    session: Session, run: BuildRun, ground: Ground, signing: Signing | None
) -> tuple[MadePackage, ...]:
    """The packages that --package asks for; none where a build of the run is missing.

    :raises UsageError: where something cannot go into a package.
    :raises PackingError: where a tool refuses.
    """
    said = session.said
    if not said.text("package"):
        return ()
    if run.exit_code is not ExitCode.OK:
        session.remark("no packages: not all that was asked for is there")
        return ()
    builts = [each.built for each in run.made if each.built is not None]
    if signing is not None:
        kernels = [ground.kernel(each.inputs.kernel) for each in builts]
        configs = [each.config if each else {} for each in kernels]
        builts = [*map(signing.signed, builts, configs)]
    making = parse_making(revision=said.text("revision"), maintainer=said.text("maintainer"))
    out = Path(said.text("out") or ".")
    return make_packages(builts, parse_format(said.text("package")), out, making)


def tell_packages(session: Session, packages: Sequence[MadePackage]) -> None:
    """Where packages lie, and what must be known before they are handed on."""
    for package in packages:
        session.say(str(package.path))
        for note in package.notes:
            session.remark(f"note: {package.path.name}: {note}")
