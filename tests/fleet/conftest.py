"""The fleet tier: real SSH on loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.fleet.sshd import Keys, Sshd, program


def need(tool: str, package: str) -> None:
    """Skip without ``tool``, saying what to install; fail where a skip would hide it."""
    if program(tool) is None:
        why = f"{tool} is not here: install the Debian package {package}"
        if os.environ.get("CI") == "true":
            pytest.fail(why, pytrace=False)
        pytest.skip(why)


@pytest.fixture(autouse=True)
def _real_servers(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("sshd") is not None:
        need("sshd", "openssh-server")
        need("ssh", "openssh-client")


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    need("ssh-keygen", "openssh-client")
    return Keys.make(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="session")
def sshd(keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """One plain server for all tests that only want a node to talk to."""
    need("sshd", "openssh-server")
    with Sshd(tmp_path_factory.mktemp("sshd"), keys=keys) as server:
        yield server


