"""Run the testinfra suite: what it is handed, what it saw, and an exit code beyond "failed"."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from msgspec import Struct, field

from toolkit import __version__
from toolkit.checks.check import Check, Status, Verdict
from toolkit.errors import ExitCode, worst
from toolkit.groups import Wants
from toolkit.report.document import Json, picked
from toolkit.verbs.access import Access
from toolkit.want import Selection

Judge = Callable[[Check], tuple[str, Verdict]]  # the host's name, and its verdict


class Ledger(Struct):
    """Exit codes by host; pytest's own status only knows that something failed."""

    codes: dict[str, list[ExitCode]] = field(default_factory=dict)
    statuses: dict[tuple[str, str], str] = field(default_factory=dict)  # by host and check

    def note(self, host: str, code: ExitCode) -> None:
        self.codes.setdefault(host, []).append(code)

    def saw(self, host: str, verdict: Verdict, today: date) -> None:
        """What a check came to: pytest knows no more than passed, failed and skipped."""
        waived = verdict.status is Status.FAIL and verdict.waived(today)
        word = "waived" if waived else verdict.status.value
        self.statuses[host, verdict.check.id] = word

    @property
    def exit_code(self) -> ExitCode:
        return worst([code for codes in self.codes.values() for code in codes])


ACCESS = pytest.StashKey[Access]()
WANT = pytest.StashKey[Wants]()
CHECKS = pytest.StashKey[Selection]()  # those that are asked
LEDGER = pytest.StashKey[Ledger]()

SUITES = Path(__file__).parent
ALL_CHECKS = Selection()
SCHEMA = "gdr-toolkit/verify/1"


class Case(Struct, frozen=True):
    """One case of the suite on one host."""

    host: str
    name: str  # of the function: "test_node" asks the checks, others ask in other words
    check: str  # "" where it is no check's
    status: str  # pass, fail, unknown, n/a, waived; error: it could not be asked
    message: str = ""  # of whatever is no pass


def verified_document(
    profile: str, cases: Sequence[Case], code: ExitCode, when: datetime
) -> dict[str, Json]:
    """The whole document; ``when`` in any zone, written in UTC."""
    return {
        "schema": SCHEMA,
        "toolkit": __version__,
        "verb": "verify",
        "profile": profile,
        "time": when.astimezone(UTC).isoformat(timespec="seconds"),
        "exit_code": int(code),
        "summary": dict(sorted(Counter(each.status for each in cases).items())),
        "cases": [
            {**picked(each, "host name check status message"), "check": each.check or None}
            for each in cases
        ],
    }


class Cases(Struct):
    """A plugin of pytest that keeps what came of each case."""

    ledger: Ledger
    seen: dict[str, Case] = field(default_factory=dict)  # by pytest's own name of the case

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Function
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "call" or not report.passed:
            params = item.callspec.params
            asked, host = params.get("check"), str(params["host_name"])
            check = asked.id if isinstance(asked, Check) else ""
            told = {"passed": "pass", "failed": "fail", "skipped": "n/a"}[report.outcome]
            status = "error" if report.when != "call" and report.failed else told
            if check and report.when == "call":
                status = self.ledger.statuses.get((host, check), "error")
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
            message = why.removeprefix("Skipped: ").strip()
            self.seen[item.nodeid] = Case(host, item.function.__name__, check, status, message)
        return report


class SuiteResult(Struct, frozen=True):
    """What came of the suite."""

    code: ExitCode
    cases: tuple[Case, ...]  # in the order in which they were run
    codes: tuple[tuple[str, ExitCode], ...]  # by host, each of which may have several
    junit: str = ""  # JUnit XML; "" where pytest made none


def run_suite(
    access: Access, wants: Wants, *, verbose: bool, checks: Selection = ALL_CHECKS
) -> SuiteResult:
    """One case per host and check, and the same properties in other words.

    :returns: with the worst of what the hosts showed; a bug where pytest itself failed.
    """
    ledger = Ledger()

    class Prepared:
        """Hands over what argv must not carry: passwords among it."""

        @pytest.hookimpl(tryfirst=True)
        def pytest_configure(self, config: pytest.Config) -> None:
            config.stash[ACCESS] = access
            config.stash[WANT] = wants
            config.stash[LEDGER] = ledger
            config.stash[CHECKS] = checks

    # One of the two: together -q and -v are neither, and no case would be named.
    suites = SUITES / "test_node.py" if checks.only else SUITES  # the others ask of no check
    arguments = [str(suites), *(("-v", "-rfs") if verbose else ("-q", "-rf"))]
    arguments += ["--tb=short", "--no-header", "-o", "addopts="]
    arguments += ["-p", "no:cacheprovider", "-p", "gdr_toolkit.pytest_plugin"]
    cases = Cases(ledger)
    with tempfile.TemporaryDirectory(prefix="gdr-verify-") as place:
        xml = Path(place, "verify.xml")
        arguments += ["--junitxml", str(xml)]
        status = pytest.main(arguments, plugins=[Prepared(), cases])
        junit = xml.read_text("utf-8", "replace") if xml.exists() else ""
    seen = tuple(cases.seen.values())
    codes = {case.host: [ExitCode.OK] for case in seen} | ledger.codes
    told = tuple((host, code) for host, each in codes.items() for code in each)
    return SuiteResult(_code(int(status), ledger.exit_code), seen, told, junit)


def _code(status: int, seen: ExitCode) -> ExitCode:
    codes: dict[int, ExitCode] = {
        pytest.ExitCode.OK: ExitCode.OK,
        # A failure that the ledger does not know is one of the second file: the probe or
        # a parser disagrees with the node, so nothing that it said can be relied on.
        pytest.ExitCode.TESTS_FAILED: seen if seen is not ExitCode.OK else ExitCode.FAILED,
        pytest.ExitCode.INTERRUPTED: ExitCode.INTERRUPTED,
        pytest.ExitCode.USAGE_ERROR: ExitCode.USAGE,
    }
    return codes.get(status, ExitCode.BUG)
