"""Passports on the command line: what verbs are told of them, and two of them side by side."""

from __future__ import annotations

import sys
from pathlib import Path

from toolkit.cli.options import Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode
from toolkit.features.image import show as report
from toolkit.features.image.plan.passport_diff import unlike
from toolkit.features.image.run.passport import read_passport
from toolkit.report.document import dumps
from toolkit.report.progress import listener
from toolkit.verbs.cli.session import Session

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
    session.say(report.text(a, b, found, session.paint))
    if said.flag("json"):
        sys.stdout.write(dumps(report.document(a, b, found, code, session.now)))
    return code
