"""The suites' own command-line options, and the fixture ``gdr``, as a pytest plugin.

pytest reads options before it finds the suites' conftest, where they are named by
``--pyargs``; so they live apart, and an installed toolkit registers them (entry point
pytest11). Nothing else is loaded before a test asks for ``gdr``: other people's runs pass by, those
too whose own package is called ``toolkit``. PYTEST_DONT_REWRITE: as gdr_toolkit says.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from gdr_toolkit import foreign, trouble

if TYPE_CHECKING:
    from toolkit.suites.opened import GdrHost

_FOREIGN = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gdr-toolkit", "gdr-toolkit, for --pyargs toolkit.suites")
    group.addoption("--gdr-profile", default="auto", help="wanted state: a name or TOML file")
    group.addoption("--gdr-site", default="", help="the site's own TOML file, or folder")
    group.addoption("--gdr-inventory", default="", help="Ansible inventory, INI or YAML")
    group.addoption("--gdr-transport", default="paramiko", help="paramiko, openssh or local")
    group.addoption("--gdr-no-become", action="store_true", help="do not use sudo")


def pytest_configure(config: pytest.Config) -> None:
    """:raises pytest.UsageError: our suites are asked for, and ``toolkit`` is another's."""
    if any(each.split(".")[0] == "toolkit" for each in config.args) and foreign():
        raise pytest.UsageError(trouble())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for ``gdr`` is run once for each host; one with a ``gdr`` of its own is not.

    That of ours alone asks for ``gdr_host``.
    """
    if "gdr_host" in metafunc.fixturenames:
        if foreign():
            metafunc.parametrize("gdr_host", ())
            metafunc.config.stash[_FOREIGN] = trouble()
            return
        from toolkit.suites import opened  # noqa: PLC0415 only they pay for it

        opened.open_hosts(metafunc.config)
        names = opened.host_names(metafunc.config)
        ids = map(opened.case_id, names)
        metafunc.parametrize("gdr_host", names, ids=ids, scope="session")


@pytest.fixture(scope="session")
def gdr(request: pytest.FixtureRequest, gdr_host: str) -> GdrHost:
    """A host, judged: ``gdr["peermem.loaded"].passed``, ``gdr.node``; see toolkit.suites.opened."""
    from toolkit.suites.opened import judged_host  # noqa: PLC0415 likewise

    return judged_host(request.config, gdr_host)


def pytest_collection_modifyitems(config: pytest.Config) -> None:
    """Why no host could be named is said here: before, it would be a traceback."""
    if _FOREIGN in config.stash:
        raise pytest.UsageError(config.stash[_FOREIGN])
    if opened := sys.modules.get("toolkit.suites.opened"):
        opened.refuse_trouble(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    if opened := sys.modules.get("toolkit.suites.opened"):
        opened.close_hosts(config)
