"""The tasks of a checkout: the toolkit's verbs, and what its developers run."""

from __future__ import annotations

import os
from pathlib import Path

from dev import clean as leftovers
from dev import generate, run, tiers, tools
from dev.lab.tasks import collection as machines
from toolkit.cli import verbs
from toolkit.cli.options import Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, UsageError
from toolkit.report.table import columns
from toolkit.verbs.cli.session import consent

TEST = (
    Option(
        "tier",
        "",
        "only these, each as a whole: "
        "lint,unit,scripts,modules,builds,vagrant,fleet,bmc,kubernetes,documents,cluster,slurm,pages,machine,suites,wheel",
        "t",
    ),
    Option("all", False, "every tier but those that want to be named, each as a whole: as CI does"),
    Option("install", False, "install the Debian packages that they need (apt-get, by sudo)"),
    Option("keyword", "", "only tests whose names match, as pytest's -k", "k"),
    Option("jobs", 0, "tests at once; as many as there are processors unless given", "j"),
)
CHECK = Option("check", False, "only show what would be taken away, and how large it is")
TEST_CACHE = Option(
    "test_cache", False, "what tests of all your checkouts keep between runs, too; none may run"
)
YES = Option("yes", False, "do not ask", "y")
EVIDENCE = Option(
    "evidence", False, "read the demo nodes again first: the probe reads more, or a node differs"
)
BENCH = (
    Option("hosts", 64, "real SSH servers on loopback"),
    Option("rounds", 3, "times that each contender runs"),
)


@verb(TEST)
def test(said: Said) -> ExitCode:
    """Run the tests: lint, quick unit tests, suites and wheel, in a few minutes; all with --all.

    What lacks its tools is not run, and is named at the end; under CI=true it fails. A test that
    needs root is not run for an ordinary user, and is counted at the end.

    Examples:
      invoke test
      invoke test --tier unit -k plan
      invoke test --all --install
    """
    tiers_, named, keyword = tiers.table(run.scripts()), said.text("tier"), said.text("keyword")
    chosen = tiers.choose(tiers_, named, whole=said.flag("all"), keyword=keyword)
    if said.flag("install"):
        tools.install((tool for tier in chosen for tool in tier.uses), dry=said.dry)
    quick = not (named or said.flag("all"))
    asked = run.Asked(keyword, said.number("jobs") or _processors(), quick=quick, dry=said.dry)
    beside = (
        ()
        if named
        else tiers.left_out(tiers_, chosen, quick=quick, night=bool(os.environ.get("GDR_NIGHT")))
    )
    return run.in_order(chosen, asked, beside=beside)


def _processors() -> int:
    return len(os.sched_getaffinity(0))


@verb()
def lint(said: Said) -> ExitCode:
    """Run the first tier alone: ruff, mypy --strict and shellcheck."""
    asked = run.Asked(jobs=_processors(), dry=said.dry)
    return run.in_order(tiers.choose(tiers.table(run.scripts()), "lint"), asked)


@verb()
def pictures(said: Said) -> ExitCode:
    """Make docs/pictures anew: pages about the demo fleet, as Chromium shows them."""
    said.not_dry("pictures", "what there is now: docs/pictures")
    from dev.pictures import write  # noqa: PLC0415 Playwright is not there until tests are run

    for picture in write():
        print(picture.relative_to(run.ROOT))
    return ExitCode.OK


@verb()
def docs(said: Said) -> ExitCode:
    """Write docs/checks.md anew from the checks."""
    for path in generate.pages(run.ROOT, dry=said.dry):
        print(path)
    return ExitCode.OK


@verb((EVIDENCE,))
def accept(said: Said) -> ExitCode:
    """Renew what tests compare with, pages and golden files: then read the difference.

    Examples:
      invoke accept && git diff
      invoke accept --evidence
    """
    for path in generate.pages(run.ROOT, dry=said.dry):
        print(path, flush=True)
    return run.commands(generate.goldens(evidence=said.flag("evidence")), dry=said.dry)


@verb()
def lock(said: Said) -> ExitCode:
    """Make both lock files anew, with the newest versions that pyproject.toml allows (by uv)."""
    return run.commands(generate.locks(), dry=said.dry)


@verb((CHECK, TEST_CACHE, YES))
def clean(said: Said) -> ExitCode:
    """Take away what a checkout leaves: its environment, caches, simulated nodes, their runs.

    What another checkout or a running process uses is left alone and named, and so are results
    of builds, what tests of all checkouts share (unless --test-cache is said), and the runs on
    real nodes, without which none of them could be undone.
    """
    shared, rows = said.flag("test_cache"), []
    found = list(leftovers.found(run.ROOT.resolve(), shared=shared))
    for each in [*found, *leftovers.stays(shared=shared)]:
        why = f" (used by {each.used_by})" if each.used_by else " (stays)" * (each not in found)
        more = f" and {len(each.paths) - 1} more" * (len(each.paths) > 1)
        rows.append((f"{each.size / 1e6:.1f} MB", f"{each.what}{why}", f"{each.paths[0]}{more}"))
    print("\n".join(columns(rows)) if rows else "nothing is left", flush=True)
    going = [each for each in found if not each.used_by]
    if said.flag("check") or said.dry or not going:
        return ExitCode.OK
    whole = f"{sum(each.size for each in going) / 1e6:.0f} MB"
    consent(f"take away {whole}?", said, what=f"take away {whole}")
    _take_away(going, shared=shared)
    return ExitCode.OK


def _take_away(shown: list[leftovers.Left], *, shared: bool) -> None:
    """Remove what was shown, but for what somebody has begun to use since."""
    taken, troubles = 0, []
    for each in leftovers.still(shown, leftovers.found(run.ROOT.resolve(), shared=shared)):
        if each.used_by:
            print(f"left alone: {each.what}, now used by {each.used_by}")
            continue
        try:
            leftovers.take_away(each)
        except OSError as why:
            troubles.append(f"{why.filename}: {why.strerror}")
        else:
            taken += each.size
    print(f"took away {taken / 1e6:.0f} MB", flush=True)
    if troubles:
        raise UsageError("; ".join(troubles), hint="remove it as the user who made it")


@verb(BENCH)
def bench(said: Said) -> ExitCode:
    """Run the benchmarks: ratios to peers, measured side by side in one run."""
    return run.commands(run.benchmarks(said.number("hosts"), said.number("rounds")), dry=said.dry)


@verb(
    (
        Option("out", "dist", "where they are put"),
        Option("machine", "", "x86_64, aarch64, or both by a comma; this one unless given"),
    )
)
def release(said: Said) -> ExitCode:
    """Make what is published: wheel, sdist, gdr.pyz, deb and rpm, and their SHA256SUMS.

    The packages of requirements.lock are fetched by pip. Exit 6 where dpkg-deb or rpmbuild is
    not here: the others are made.

    Examples:
      invoke release
      invoke release --machine x86_64,aarch64
    """
    said.not_dry("release", "name a folder of its own: --out")
    from dev import release as made  # noqa: PLC0415 what makes packages is imported by few

    machines = [each for each in said.text("machine").split(",") if each]
    if unknown := [each for each in machines if each not in made.MACHINES]:
        raise UsageError(f"nothing is made for {unknown[0]!r}", hint=" or ".join(made.MACHINES))
    return made.release(Path(said.text("out")), machines)


namespace = verbs()
for each in (test, lint, clean, docs, accept, pictures, lock, bench, release):
    namespace.add_task(each)
namespace.add_collection(machines())
