"""The tiers of tests: what each shows, what each needs, and what came of it. Pure.

Every test runs in exactly one tier. Folders with a tier of their own are those in
``APART``; everywhere else the marks of a test decide, since they say what it needs.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum

from dev.tools import MARKS, SHELLCHECK, Tool, for_few
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
_TOLD = 10  # tests of a step that failed, named at the end
# Of tests/machine; by GDR_NIGHT alone, for each takes minutes: eight nodes that move bytes in one
# guest, an appliance, the vendor's whole driver, compiled, and an image that is made twice.
NIGHTLY = ("test_fabric.py", "test_appliance.py", "test_real_stack.py", "test_built_twice.py")
# A test that hangs is named; the longest boot guests. The last of two words of an option counts.
_LONG, _SHORT = "--timeout=1200", "--timeout=300"
_NOT_EXHAUSTIVE = "not exhaustive"
NO_TESTS = 5  # pytest's exit status when nothing was selected
CAPTURES = "shared captures"  # how the reason of a test begins that lacks ../shared


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a tier, and what it cannot do without."""

    title: str
    argv: tuple[str, ...]
    needs: tuple[Tool, ...] = ()
    few: tuple[Tool, ...] = ()  # what some of its tests need beside
    tests: bool = False  # it is pytest: takes -k, and its tests are counted
    parallel: bool = False  # its tests do not mind company on the machine
    marks: str = ""  # which tests of its folders it takes, as pytest's -m


@dataclass(frozen=True, slots=True)
class Tier:
    name: str
    shows: str  # what has been shown once it passes
    steps: tuple[Step, ...]
    by_name: bool = False  # too long, or not to be had, where nobody asks for it
    first: bool = False  # what a newcomer's run has
    together: bool = False  # its steps run side by side, and print when they end
    disk: bool = False  # its tests write gigabytes: built trees, disks of guests
    waits: bool = False  # more than it computes: for servers, timeouts, boots of simulated nodes

    @property
    def alone(self) -> bool:
        """Whether some of its tests mind company on the machine."""
        return any(step.tests and not step.parallel for step in self.steps)

    @property
    def needs(self) -> tuple[Tool, ...]:
        """What it is not run without."""
        return tuple(dict.fromkeys(tool for step in self.steps for tool in step.needs))

    @property
    def uses(self) -> tuple[Tool, ...]:
        """What all of its tests run with."""
        few = (tool for step in self.steps for tool in step.few)
        return tuple(dict.fromkeys((*self.needs, *few)))


class Ending(StrEnum):
    PASSED = "passed"
    FAILED = "FAILED"
    NOT_RUN = "not run"
    EMPTY = "no test selected"  # by -k


@dataclass(frozen=True, slots=True)
class Tally:
    """The tests of one step, counted. A test that failed in two phases counts once for each."""

    passed: int = 0
    failed: int = 0
    skipped: tuple[tuple[str, int], ...] = ()  # reason, and how many tests gave it
    fell: tuple[str, ...] = ()  # of those that failed the name and the first line of why


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of one step."""

    tier: str
    step: Step
    ending: Ending
    why: str = ""  # for NOT_RUN
    seconds: float = 0.0
    tally: Tally = Tally()
    spent: float = 0.0  # of processor, in seconds, by its process and all that it waited for


def _python(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", *words)


def _pytest(
    title: str,
    *words: str,
    needs: tuple[Tool, ...] = (),
    parallel: bool = True,
    marks: str = "",
    few: tuple[Tool, ...] = (),
) -> Step:
    argv = _python("pytest", _LONG, *words)
    return Step(title, argv, needs, few, tests=True, parallel=parallel, marks=marks)


def _marked(title: str, marks: str, mark: str, *words: str) -> Step:
    """The tests outside ``APART`` that these marks select; ``mark`` says what they need."""
    ignored = [f"--ignore={folder}" for folder in APART]
    needs, few = MARKS.get(mark, ()), for_few(mark)
    return _pytest(title, "tests", *ignored, *words, needs=needs, marks=marks, few=few)


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
    return (
        # Beside the tests: of its steps mypy takes longest by far, and one processor.
        Tier("lint", "style, types and shell", style, first=True, together=True, waits=True),
        Tier(
            "unit",
            "parts, and simulated nodes",
            (
                _marked(
                    "unit",
                    "not shell and not sshd and not modules and not builds and not machine",
                    "",
                    _SHORT,
                    _OURS,
                ),
            ),
            first=True,
        ),
        Tier(
            "scripts",
            "what runs on nodes: dash, and a tenth in busybox and bash",
            (
                _marked(
                    "scripts",
                    "shell and not sshd and not modules and not builds and not machine",
                    "shell",
                    _SHORT,
                    _OURS,
                ),
            ),
        ),
        Tier(
            "modules",
            "why modprobe fails, from real kernel modules",
            (_marked("modules", "modules and not sshd and not builds and not machine", "modules"),),
        ),
        Tier(
            "builds",
            "DKMS, real sources and real kernels in trees of their own; guests that boot",
            (_marked("builds", "builds and not sshd and not machine", "builds", _OURS),),
            disk=True,
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
            disk=True,
        ),
        Tier(
            "fleet",
            "real OpenSSH servers on loopback",
            (_marked("fleet", "sshd", "sshd", _OURS),),
            waits=True,
        ),
        Tier(
            "bmc",
            "BMCs over real TLS: simulated, captured, and sushy-emulator",
            (
                _pytest("simulated BMCs", "tests/bmc", _OURS, marks="not bmc"),
                _pytest("sushy-emulator", "tests/bmc", needs=MARKS["bmc"], marks="bmc"),
            ),
            waits=True,
        ),
        Tier(
            "kubernetes",
            "what pods run, in real namespaces; what is rendered, by published schemas; kubectl",
            (_pytest("kubernetes", "tests/kube", needs=MARKS["kube"], few=for_few("kube")),),
            waits=True,
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
            (_pytest("slurm", "tests/slurm", needs=MARKS["slurm"]),),
            waits=True,
        ),
        Tier(
            "pages",
            "the pages that we write, in a real browser",
            (_pytest("pages", "tests/pages", needs=MARKS["pages"]),),
            waits=True,
        ),
        Tier(
            "machine",
            "nodes that boot: real GRUB, kernels, IOMMU groups and ACS registers under emulation",
            (_marked("machine", "machine and not sshd", "machine", _OURS),),
            disk=True,
            waits=True,  # for boots; its guests and what builds compile fill each other's gaps
        ),
        Tier(
            "suites",
            "the suites that we ship",
            (_pytest("suites", "tests/suites"),),
            first=True,
        ),
        Tier(
            "wheel",
            "what is published is whole: wheel and gdr.pyz",
            (_pytest("wheel", "tests/wheel", parallel=False),),
            first=True,
            waits=True,  # for pip; and it has no work for a second processor
        ),
    )


def choose(
    tiers: tuple[Tier, ...], names: str, *, whole: bool = False, keyword: str = ""
) -> tuple[Tier, ...]:
    """The tiers called ``names``, parted by commas; for "" those of a newcomer's run.

    :param whole: for "" all tiers but those that want to be named.
    :param keyword: pytest's ``-k``; leaves out the tiers that have no tests unless named.
    :raises UsageError: for an unknown name, and for ``whole`` beside names.
    """
    if not names:
        usual = (tier for tier in tiers if tier.first or (whole and not tier.by_name))
        return tuple(t for t in usual if not keyword or any(step.tests for step in t.steps))
    if whole:
        raise UsageError("--all and --tier exclude each other", hint="leave one of them out")
    known = {tier.name: tier for tier in tiers}
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in known:
            raise UsageError(f"no tier {name!r}", hint=f"tiers: {', '.join(known)}")
    return tuple(tier for tier in tiers if tier.name in wanted)


def left_out(
    tiers: tuple[Tier, ...], chosen: tuple[Tier, ...], *, quick: bool, night: bool = False
) -> tuple[str, ...]:
    """What a run leaves out, and by what command each would run."""
    rest = [tier for tier in tiers if tier not in chosen]
    usual = ", ".join(tier.name for tier in rest if not tier.by_name)
    named = ",".join(tier.name for tier in rest if tier.by_name)
    lines = [f"left out: {usual}; run them by: ./invokew test --all"] * bool(usual)
    if quick:
        lines.append("left out: the exhaustive part of each tier; it is part of --all")
    if not night and any(tier.name == "machine" for tier in chosen):
        files = ", ".join(f"tests/machine/{each}" for each in NIGHTLY)
        lines.append(f"left out: {files}; GDR_NIGHT=1 ./invokew test --tier machine runs them")
    return (*lines, *[f"left out unless named: ./invokew test --tier {named}"] * bool(named))


def command(step: Step, *, keyword: str, jobs: int, quick: bool = False) -> tuple[str, ...]:
    """The words to run, with what was asked for added to pytest's own.

    :param quick: leave out what is marked as exhaustive.
    """
    if not step.tests:
        return step.argv
    marks = " and ".join(each for each in (step.marks, _NOT_EXHAUSTIVE * quick) if each)
    spread = ("-n", str(jobs), "--dist", "loadfile") if step.parallel and jobs > 1 else ()
    named = ("-k", keyword) if keyword else ()
    selected = ("-m", marks) if marks else ()
    return (*step.argv, *selected, *spread, *named, "-p", "dev.tally")


def ending(step: Step, status: int, *, keyword: str) -> Ending:
    """What an exit status means; a tier without any test has not passed."""
    if status == NO_TESTS and step.tests and keyword:
        return Ending.EMPTY
    return Ending.FAILED if status else Ending.PASSED


def closing(ended: tuple[Ended, ...], seconds: float) -> str:
    """The last lines of a run: each step with its ending, and after them what was not run.

    :param seconds: that the whole took; steps may run side by side.
    """
    names = [f"{each.tier}: {each.step.title}".removesuffix(f": {each.tier}") for each in ended]
    width = max(map(len, names), default=0)
    lines = [f"{name:<{width}}  {_told(each)}" for name, each in zip(names, ended, strict=True)]
    spent = _minutes(sum(each.spent for each in ended))
    lines.append(f"{'in all':<{width}}  {_minutes(seconds):>5}  {spent} of processor")
    for each in ended:  # where a log is cut, its end is what is left
        fell = [f"FAILED {one}" for one in each.tally.fell]
        lines += fell[:_TOLD] + [f"FAILED {len(fell) - _TOLD} more"] * (len(fell) > _TOLD)
    for name, each in zip(names, ended, strict=True):
        why = [(each.why, 0)] if each.ending is Ending.NOT_RUN else each.tally.skipped
        lines += [f"not run: {name}: {_tests(count)}{reason}" for reason, count in why]
    if any(each.ending is Ending.NOT_RUN for each in ended):
        lines.append("install what is missing: ./invokew test --install")
    if any(why.startswith(CAPTURES) for each in ended for why, _ in each.tally.skipped):
        lines.append(
            "WARNING: NO VERDICT WAS HELD AGAINST A REAL MACHINE: their captures are to lie in "
            "../shared, beside this checkout"
        )
    return "\n".join(lines)


def _told(each: Ended) -> str:
    if each.ending is Ending.NOT_RUN:
        return str(each.ending)
    line = f"{_minutes(each.seconds):>5}  {each.ending}"
    if each.step.tests:
        skipped = sum(count for _, count in each.tally.skipped)
        line += f": {each.tally.passed} passed, {each.tally.failed} failed"
        line += f", {skipped} not run" * bool(skipped)
    return f"{line}; {_minutes(each.spent)} of processor"


def _tests(count: int) -> str:
    return f"{count} test{'s' * (count != 1)}: " if count else ""


def _minutes(seconds: float) -> str:
    """``12:08``."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02}"


def succeeded(ended: tuple[Ended, ...], *, strict: bool) -> bool:
    """Whether all that ran passed, and something ran.

    :param strict: as in CI: what was not run counts as failed.
    """
    endings = {each.ending for each in ended}
    bad = {Ending.FAILED} | ({Ending.NOT_RUN} if strict else set())
    return Ending.PASSED in endings and not endings & bad
