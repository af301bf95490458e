"""The tiers of tests: what each shows, what each needs, and what came of it. Pure.

Every test runs in exactly one tier. Folders with a tier of their own are those in
``APART``; everywhere else the marks of a test decide, since they say what it needs.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum

from dev.tools import MARKS, SHELLCHECK, Tool
from toolkit.errors import UsageError

APART = (
    "tests/vagrant",
    "tests/bmc",
    "tests/kube",
    "tests/documents",
    "tests/cluster",
    "tests/slurm",
    "tests/pages",
    "tests/suites",
    "tests/wheel",
)
# The order of files is ours (LONG, BOOTS), not by the number of their tests.
_OURS = "--no-loadscope-reorder"
# A test that hangs is named; the longest boot guests. The last of two words of an option counts.
_LONG, _SHORT = "--timeout=1200", "--timeout=300"
NO_TESTS = 5  # pytest's exit status when nothing was selected
SOME_FAILED = 1  # its status when all ran, and some failed
FEW = 3  # more tests that fail at once are no accident of timing


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a tier, and what it cannot do without."""

    title: str
    argv: tuple[str, ...]
    needs: tuple[Tool, ...] = ()
    tests: bool = False  # it is pytest: takes -k, and ends with a line of its own
    parallel: bool = False  # its tests do not mind company on the machine


@dataclass(frozen=True, slots=True)
class Tier:
    name: str
    shows: str  # what has been shown once it passes
    steps: tuple[Step, ...]
    by_name: bool = False  # too long, or not to be had, where nobody asks for it

    @property
    def needs(self) -> tuple[Tool, ...]:
        return tuple(dict.fromkeys(tool for step in self.steps for tool in step.needs))


class Ending(StrEnum):
    PASSED = "passed"
    UNSTEADY = "passed, but for tests that failed once"
    FAILED = "FAILED"
    NOT_RUN = "not run"
    EMPTY = "no test selected"  # by -k


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of one step."""

    tier: str
    step: Step
    ending: Ending
    why: str = ""  # for NOT_RUN; for UNSTEADY, which tests


def _python(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", *words)


def _pytest(title: str, *words: str, needs: tuple[Tool, ...] = (), parallel: bool = True) -> Step:
    argv = _python("pytest", _LONG, *words)
    return Step(title, argv, needs, tests=True, parallel=parallel)


def _marked(title: str, marks: str, needs: tuple[Tool, ...] = (), *words: str) -> Step:
    """The tests outside ``APART`` that these marks select."""
    ignored = [f"--ignore={folder}" for folder in APART]
    return _pytest(title, "tests", *ignored, "-m", marks, *words, needs=needs)


def table(scripts: tuple[str, ...]) -> tuple[Tier, ...]:
    """The tiers, in the order in which they run: quick and certain first.

    :param scripts: the shell scripts that shellcheck reads, relative to the project.
    """
    style = (
        Step("ruff check", _python("ruff", "check", ".")),
        Step("ruff format", _python("ruff", "format", "--check", ".")),
        Step("mypy --strict", _python("mypy")),
        Step("shellcheck", ("shellcheck", "--external-sources", *scripts), (SHELLCHECK,)),
    )
    names = ("shell", "sshd", "modules", "builds", "machine")
    shell, sshd, modules, builds, machine = (MARKS[name] for name in names)
    return (
        Tier("lint", "style, types and shell", style),
        Tier(
            "unit",
            "parts, and simulated nodes",
            (
                _marked(
                    "unit",
                    "not shell and not sshd and not modules and not builds and not machine",
                    (),
                    _SHORT,
                ),
            ),
        ),
        Tier(
            "scripts",
            "what runs on nodes: dash, busybox, bash",
            (
                _marked(
                    "scripts",
                    "shell and not sshd and not modules and not builds and not machine",
                    shell,
                    _SHORT,
                ),
            ),
        ),
        Tier(
            "modules",
            "why modprobe fails, from real kernel modules",
            (_marked("modules", "modules and not sshd and not builds and not machine", modules),),
        ),
        Tier(
            "builds",
            "DKMS, real sources and real kernels in trees of their own; guests that boot",
            (_marked("builds", "builds and not sshd and not machine", builds, _OURS),),
        ),
        Tier(
            "machine",
            "nodes that boot: real GRUB, kernels, IOMMU groups and ACS registers under emulation",
            (_marked("machine", "machine and not sshd", machine, _OURS),),
        ),
        Tier(
            "vagrant",
            "vagrant up with a box of our own, and the suites against it",
            (
                _pytest(
                    *("vagrant", "tests/vagrant", "--durations=5"),
                    needs=MARKS["vagrant"],
                    parallel=False,
                ),
            ),
            by_name=True,
        ),
        Tier("fleet", "real OpenSSH servers on loopback", (_marked("fleet", "sshd", sshd, _OURS),)),
        Tier(
            "bmc",
            "BMCs over real TLS: simulated, captured, and sushy-emulator",
            (
                _pytest("simulated BMCs", "tests/bmc", "-m", "not bmc"),
                _pytest("sushy-emulator", "tests/bmc", "-m", "bmc", needs=MARKS["bmc"]),
            ),
        ),
        Tier(
            "kubernetes",
            "what pods run, in real namespaces; what is rendered, by published schemas; kubectl",
            (_pytest("kubernetes", "tests/kube", needs=MARKS["kube"]),),
        ),
        Tier(
            "documents",
            "what machines read of us, by the schemas that others publish",
            (_pytest("documents", "tests/documents", needs=MARKS["documents"]),),
        ),
        Tier(
            "cluster",
            "what is rendered, before a real API server that GDR_TEST_KUBECONFIG names",
            (_pytest("cluster", "tests/cluster", needs=MARKS["cluster"], parallel=False),),
            by_name=True,
        ),
        Tier(
            "slurm",
            "nodes of a real Slurm: drained, changed, given back",
            (_pytest("slurm", "tests/slurm", needs=MARKS["slurm"], parallel=False),),
        ),
        Tier(
            "pages",
            "the pages that we write, in a real browser",
            (_pytest("pages", "tests/pages", needs=MARKS["pages"], parallel=False),),
        ),
        Tier("suites", "the suites that we ship", (_pytest("suites", "tests/suites"),)),
        Tier(
            "wheel",
            "what pip installs is whole",
            (_pytest("wheel", "tests/wheel", parallel=False),),
        ),
    )


def choose(tiers: tuple[Tier, ...], names: str, *, keyword: str = "") -> tuple[Tier, ...]:
    """The tiers called ``names``, parted by commas; for "" all but those that want to be named.

    :param keyword: pytest's ``-k``; leaves out the tiers that have no tests unless named.
    :raises UsageError: for an unknown name.
    """
    if not names:
        usual = (tier for tier in tiers if not tier.by_name)
        return tuple(t for t in usual if not keyword or any(step.tests for step in t.steps))
    known = {tier.name: tier for tier in tiers}
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in known:
            raise UsageError(f"no tier {name!r}", hint=f"tiers: {', '.join(known)}")
    return tuple(tier for tier in tiers if tier.name in wanted)


def left_out(tiers: tuple[Tier, ...]) -> str:
    """Says which tiers run only where they are named, and how."""
    names = ",".join(tier.name for tier in tiers if tier.by_name)
    return f"left out unless they are named: ./invokew test --tier {names}"


def command(step: Step, *, keyword: str, jobs: int) -> tuple[str, ...]:
    """The words to run, with what was asked for added to pytest's own."""
    if not step.tests:
        return step.argv
    spread = ("-n", str(jobs), "--dist", "loadfile") if step.parallel and jobs > 1 else ()
    named = ("-k", keyword) if keyword else ()
    return (*step.argv, *spread, *named, "-o", f"cache_dir={memory(step)}")


def memory(step: Step) -> str:
    """Where pytest notes which tests of this step failed, relative to the project."""
    return f".pytest_cache/{step.title.replace(' ', '-')}"


def once_more(step: Step, status: int, failed: tuple[str, ...]) -> bool:
    """Whether what failed gets a second attempt: a few tests of many that ran.

    Guests, daemons and builds share a machine here that may be busy with others' work. A test
    that fails twice, alone the second time, fails; one that passes then is named as unsteady.

    :param failed: the tests that did, by pytest's names.
    """
    return step.tests and status == SOME_FAILED and 0 < len(failed) <= FEW


def second(step: Step, failed: tuple[str, ...]) -> tuple[str, ...]:
    """The words for the second attempt: those tests and no others, one after the other."""
    python = step.argv[: step.argv.index("pytest") + 1]
    return (*python, *failed)


def ending(step: Step, status: int, *, keyword: str) -> Ending:
    """What an exit status means; a tier without any test has not passed."""
    if status == NO_TESTS and step.tests and keyword:
        return Ending.EMPTY
    return Ending.FAILED if status else Ending.PASSED


def closing(ended: tuple[Ended, ...]) -> str:
    """The last lines of a run: each step with its ending, what was not run last of all."""
    ran = [each for each in ended if each.ending is not Ending.NOT_RUN]
    left = [each for each in ended if each.ending is Ending.NOT_RUN]
    width = max((len(each.tier) for each in ended), default=0)
    lines = [f"{each.tier:<{width}}  {_told(each)}" for each in ran]
    lines += [f"{each.tier:<{width}}  {each.step.title}: not run: {each.why}" for each in left]
    if left:
        lines.append("install what is missing: ./invokew test --install")
    return "\n".join(lines)


def _told(each: Ended) -> str:
    return f"{each.step.title}: {each.ending}" + f": {each.why}" * bool(each.why)


def succeeded(ended: tuple[Ended, ...], *, strict: bool) -> bool:
    """Whether all that ran passed, and something ran.

    :param strict: as in CI: what was not run counts as failed.
    """
    endings = {each.ending for each in ended}
    bad = {Ending.FAILED} | ({Ending.NOT_RUN} if strict else set())
    return bool(endings & {Ending.PASSED, Ending.UNSTEADY}) and not endings & bad
