"""The tasks of a checkout: the toolkit's verbs, and what its developers run."""

from __future__ import annotations

import os

from dev import generate, run, tiers, tools
from dev.lab.tasks import collection as machines
from toolkit.cli import verbs
from toolkit.cli.options import Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode

TEST = (
    Option(
        "tier",
        "",
        "only these: "
        "lint,unit,scripts,modules,builds,machine,vagrant,fleet,bmc,kubernetes,documents,cluster,slurm,pages,suites,wheel",
        "t",
    ),
    Option("install", False, "install the Debian packages that they need (apt-get, by sudo)"),
    Option("keyword", "", "only tests whose names match, as pytest's -k", "k"),
    Option("jobs", 0, "tests at once; as many as there are processors unless given", "j"),
)
BENCH = (
    Option("hosts", 64, "real SSH servers on loopback"),
    Option("rounds", 3, "times that each contender runs"),
)


@verb(TEST)
def test(said: Said) -> ExitCode:
    """Run the tests, tier by tier; what lacks its tools is named (under CI=true: fails)."""
    keyword, jobs = said.text("keyword"), said.number("jobs") or len(os.sched_getaffinity(0))
    chosen = tiers.choose(tiers.table(run.scripts()), said.text("tier"), keyword=keyword)
    if not said.text("tier"):
        run.say(tiers.left_out(tiers.table(run.scripts())))
    if said.flag("install"):
        tools.install(tool for tier in chosen for tool in tier.needs)
    return run.in_order(chosen, keyword=keyword, jobs=jobs, dry=said.dry)


@verb()
def lint(said: Said) -> ExitCode:
    """Run the first tier alone: ruff, mypy --strict and shellcheck."""
    return run.in_order(tiers.choose(tiers.table(run.scripts()), "lint"), dry=said.dry)


@verb()
def pictures(said: Said) -> ExitCode:  # noqa: ARG001 every verb has one signature
    """Make docs/pictures anew: pages about the demo fleet, as Chromium shows them."""
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


@verb()
def lock(said: Said) -> ExitCode:
    """Make both lock files anew, with the newest versions that pyproject.toml allows (by uv)."""
    return run.commands(generate.locks(), dry=said.dry)


@verb(BENCH)
def bench(said: Said) -> ExitCode:
    """Run the benchmarks: ratios to peers, measured side by side in one run."""
    return run.commands(run.benchmarks(said.number("hosts"), said.number("rounds")), dry=said.dry)


namespace = verbs()
for each in (test, lint, docs, pictures, lock, bench):
    namespace.add_task(each)
namespace.add_collection(machines())
