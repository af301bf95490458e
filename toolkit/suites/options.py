"""The suites' own command-line options, as a pytest plugin.

pytest reads options before it finds the suites' conftest, where they are named by
``--pyargs``; so they live apart, and an installed toolkit registers them (entry point
pytest11). Nothing but options is loaded here: other people's pytest runs pass by.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gdr-toolkit", "gdr-toolkit, for --pyargs toolkit.suites")
    group.addoption("--gdr-profile", default="auto", help="wanted state: a name or TOML file")
    group.addoption("--gdr-site", default="", help="the site's own TOML file over the profile")
    group.addoption("--gdr-inventory", default="", help="Ansible inventory, INI or YAML")
    group.addoption("--gdr-transport", default="paramiko", help="paramiko, openssh or local")
    group.addoption("--gdr-no-become", action="store_true", help="do not use sudo")
