"""Run the testinfra suite, and end with an exit code that says more than "failed"."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.errors import ExitCode
from toolkit.flow.access import Access
from toolkit.flow.runs import RunFolder
from toolkit.suites.ledger import ACCESS, LEDGER, WANT, Ledger
from toolkit.want import Want

SUITES = Path(__file__).parent


def run_suite(
    access: Access, want: Want, *, junit: str, folder: RunFolder, verbose: bool
) -> ExitCode:
    """One case per host and check, and the same properties in other words.

    :param junit: file for JUnit XML; "" for none but the run's own.
    :returns: the worst of what the hosts showed; a bug where pytest itself failed.
    """
    ledger = Ledger()

    class Prepared:
        """Hands over what argv must not carry: passwords among it."""

        @pytest.hookimpl(tryfirst=True)
        def pytest_configure(self, config: pytest.Config) -> None:
            config.stash[ACCESS] = access
            config.stash[WANT] = want
            config.stash[LEDGER] = ledger

    report = junit or str(folder.path / "verify.xml")
    # One of the two: together -q and -v are neither, and no case would be named.
    arguments = [str(SUITES), *(("-v", "-rfs") if verbose else ("-q", "-rf"))]
    arguments += ["--tb=short", "--no-header", "--junitxml", report]
    arguments += ["-p", "no:cacheprovider", "-p", "toolkit.suites.options", "-o", "addopts="]
    status = pytest.main(arguments, plugins=[Prepared()])
    return _code(int(status), ledger.exit_code)


def _code(status: int, seen: ExitCode) -> ExitCode:
    match status:
        case pytest.ExitCode.OK:
            return ExitCode.OK
        case pytest.ExitCode.TESTS_FAILED:
            # A failure that the ledger does not know is one of the second file: the probe or
            # a parser disagrees with the node, so nothing that it said can be relied on.
            return seen if seen is not ExitCode.OK else ExitCode.FAILED
        case pytest.ExitCode.INTERRUPTED:
            return ExitCode.INTERRUPTED
        case pytest.ExitCode.USAGE_ERROR:
            return ExitCode.USAGE
    return ExitCode.BUG
