"""``hosts --scan-keys`` over real servers: what is new is listed, and written after a yes alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.fleet.sshd import Keys, Sshd, fingerprint
from tests.invoked import ROOT, here
from toolkit.errors import ExitCode

pytestmark = pytest.mark.sshd
ALIAS, OTHER = "gpu1", "gpu2"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Sshd, Sshd]]:
    """Two, with keys of their own, in a site whose file of known hosts is not there yet."""
    one, two = (Sshd(tmp_path / n, keys=Keys.make(tmp_path / f"{n}.keys")) for n in ("1", "2"))
    with one, two:
        yield one, two


class Site:
    """An operator's ssh_config with these two, and what the verb says there."""

    def __init__(
        self,
        folder: Path,
        servers: tuple[Sshd, Sshd],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.known = folder / "ssh/known_hosts"
        self._patch, self._capsys, self._config = monkeypatch, capsys, folder / "config"
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        blocks = [
            f"Host {name}\n  HostName {each.address}\n  Port {each.port}\n"
            f"  IdentityFile {each.keys.user}\n"
            for name, each in zip((ALIAS, OTHER), servers, strict=True)
        ]
        self.write("".join(blocks))

    def write(self, text: str) -> None:
        end = "Host *\n  GlobalKnownHostsFile /dev/null\n"
        self._config.write_text(f"{text}{end}  UserKnownHostsFile {self.known}\n")

    def jump(self) -> None:
        """The second is behind the first from now on."""
        text = self._config.read_text()
        self._config.write_text(
            text.replace(f"Host {OTHER}\n", f"Host {OTHER}\n  ProxyJump {ALIAS}\n")
        )

    def scan(self, *words: str) -> tuple[int, str]:
        at = ("--ssh-config", str(self._config), "--hosts", f"{ALIAS},{OTHER}", "--quiet")
        code = here(self._patch, "hosts", *at, "--scan-keys", *words)
        return code, self._capsys.readouterr().out

    def document(self, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
        """Any: JSON. By host: what is told of its key."""
        code, out = self.scan(*words, "--json")
        told = json.loads(out)
        jsonschema.validate(told, json.loads((ROOT / "docs/hosts.schema.json").read_text()))
        return code, {each["name"]: each["key"] for each in told["hosts"]}


@pytest.fixture
def site(
    tmp_path: Path,
    servers: tuple[Sshd, Sshd],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Site:
    return Site(tmp_path, servers, monkeypatch, capsys)


def test_new_keys_are_listed_and_written_after_a_yes_alone(
    site: Site, servers: tuple[Sshd, Sshd]
) -> None:
    code, out = site.scan()
    assert (code, site.known.exists()) == (ExitCode.PENDING, False)
    rows = [line.split() for line in out.splitlines()]
    for name, each in zip((ALIAS, OTHER), servers, strict=True):
        assert ["ED25519", fingerprint(each.keys.host), name] in rows
    code, told = site.document("--yes")
    assert (code, {each["state"] for each in told.values()}) == (ExitCode.OK, {"added"})
    assert site.known.stat().st_mode & 0o777 == 0o600
    expected = {each.known_hosts.read_text() for each in servers}
    assert {f"{line}\n" for line in site.known.read_text().splitlines()} == expected
    code, told = site.document()
    assert (code, {each["state"] for each in told.values()}) == (ExitCode.OK, {"known"})
    assert "session opened" not in "".join(each.log for each in servers)  # nobody logged in
    assert not any("Accepted" in each.log for each in servers)


@pytest.mark.parametrize("mark", ["", "@revoked "])
def test_a_key_that_has_changed_or_is_revoked_is_never_written(
    site: Site, servers: tuple[Sshd, Sshd], mark: str
) -> None:
    one, two = servers
    name, kind, blob = one.known_hosts.read_text().split()
    other = blob if mark else two.known_hosts.read_text().split()[2]
    site.known.parent.mkdir()
    site.known.write_text(f"{mark}{name} {kind} {other}")  # and no end of its line
    code, told = site.document("--yes")
    assert code == ExitCode.UNREACHABLE
    assert (told[ALIAS]["state"], told[OTHER]["state"]) == ("refused", "added")
    assert ("revoked" if mark else "CHANGED") in told[ALIAS]["message"]
    lines = site.known.read_text().splitlines()
    assert lines == [f"{mark}{name} {kind} {other}", two.known_hosts.read_text().rstrip()]


def test_the_key_of_a_jump_host_comes_before_those_behind_it(
    site: Site, servers: tuple[Sshd, Sshd]
) -> None:
    site.jump()
    code, told = site.document("--yes")
    assert (code, told[ALIAS]["state"], told[OTHER]["state"]) == (7, "added", "behind")
    assert site.known.read_text() == servers[0].known_hosts.read_text()
    code, told = site.document("--yes")
    assert (code, told[ALIAS]["state"], told[OTHER]["state"]) == (0, "known", "added")
