"""What a node may say is bounded, and costs no more than its bytes."""

from __future__ import annotations

import functools
import gzip
import io
import socket
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolkit import tar_member
from toolkit.errors import ExitCode, FloodError, ToolkitError, UsageError
from toolkit.evidence import Evidence
from toolkit.features.builds.io.sandbox import SandboxJob, run_job
from toolkit.hosts.host import Host
from toolkit.node.collect import collect
from toolkit.ssh.limits import ANSWER, Hearing
from toolkit.ssh.local import LocalTransport, answer
from toolkit.ssh.paramiko import SshTransport
from toolkit.ssh.ssh_config import SshConfig
from toolkit.ssh.stream import Lines
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.verbs.incident import read_incident

ENDLESS = [
    pytest.param("yes", id="lines"),
    pytest.param("yes ''", id="empty-lines"),
    pytest.param("cat /dev/zero", id="one-line"),
    pytest.param("yes >&2", id="stderr"),
    pytest.param("cat /dev/zero >&2", id="one-line-on-stderr"),
]


@pytest.mark.parametrize("command", ENDLESS)
def test_a_node_that_never_stops_talking_fails_with_one_sentence(command: str) -> None:
    heard = 0

    def count(line: str) -> None:
        nonlocal heard
        heard += len(line) + 1

    with pytest.raises(FloodError) as raised:
        LocalTransport("gpu7", become=False).run(f"{command}\n", limit_s=60, sink=count)
    assert str(raised.value).startswith("gpu7: says more than ")
    assert "\n" not in str(raised.value)
    assert raised.value.hint
    assert raised.value.exit_code == ExitCode.UNREACHABLE
    assert heard <= ANSWER


def test_a_flood_is_no_evidence_though_it_begins_as_one() -> None:
    class Flooding(LocalTransport):
        """Says a whole frame first."""

        def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
            frame = "printf '= begin ok gdr-toolkit/1\\n= uid ok id\\n|0\\n= x ok x\\n'; yes\n"
            return super().run(frame, limit_s=limit_s, sink=sink)

    with pytest.raises(FloodError):
        collect(Flooding("gpu7", become=False))


def test_the_longest_line_costs_no_more_than_its_bytes() -> None:
    lines = Lines(quiet, Hearing("gpu7", 32 << 20))
    begun = time.process_time()
    for _ in range(32 << 10):
        lines.feed(b"x" * 1024)
    assert time.process_time() - begun < 20  # quadratic, it takes minutes
    assert len(lines.end()) == 32 << 20


def test_all_the_commands_of_a_run_have_a_bound_together() -> None:
    hearing = Hearing("gpu7", 10_000)
    here = LocalTransport("gpu7", become=False, hearing=hearing)
    for _ in range(17):  # the blanks before each end mark count, too
        assert here.run("head -c 1000 /dev/zero\n").exit == 0
    with pytest.raises(FloodError, match="gpu7: says more than 160000 bytes in one run"):
        here.run("head -c 1000 /dev/zero\n")


def test_what_is_just_short_of_it_is_kept_whole() -> None:
    here = LocalTransport("gpu7", become=False)
    assert len(here.run(f"head -c {ANSWER} /dev/zero\n").stdout) == ANSWER


def test_a_build_may_say_more_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.features.builds.io.sandbox.BULK", 2 * ANSWER)
    here = functools.partial(LocalTransport, become=False)
    monkeypatch.setattr("toolkit.features.builds.io.sandbox.LocalTransport", here)
    job = SandboxJob("nvidia", "", "head -c 6000000 /dev/zero | tr '\\0' x\n", limit_s=60, log="")
    assert len(run_job(job)) == 6_000_001
    with pytest.raises(FloodError, match="nvidia: says more than 8 MiB on stdout"):
        run_job(SandboxJob("nvidia", "", "cat /dev/zero\n", limit_s=60, log=""))


def test_a_schedulers_command_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.ssh.local.BULK", 1 << 20)
    with pytest.raises(FloodError, match="sh: says more than 1 MiB on stdout"):
        answer(("sh", "-c", "yes"), limit_s=60)
    with pytest.raises(FloodError, match="sh: says more than 1 MiB on stderr"):
        answer(("sh", "-c", "yes >&2"), limit_s=60)
    assert answer(("cat",), b"said", limit_s=60).stdout == b"said"
    assert answer(("sh", "-c", "exit 3"), limit_s=60).returncode == 3


class Server:
    """Says one thing to whoever connects, again and again."""

    def __init__(self, first: bytes, then: bytes) -> None:
        self._first, self._then = first, then
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.said = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            there, _ = self._socket.accept()
            with there:
                there.sendall(self._first)
                while self._then:
                    there.sendall(self._then)
                    self.said += len(self._then)
        except OSError:
            return

    def close(self) -> None:
        self._socket.close()
        self._thread.join(10)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    opened = Server(*request.param)
    yield opened
    opened.close()


PACKET = b"SSH-2.0-x\r\n\x7f\xff\xff\xf4"  # and then one packet of 2 GiB


@pytest.mark.parametrize(
    "server",
    [
        pytest.param((b"", b"x" * 65536), id="greeting-without-end"),
        pytest.param((PACKET, b"x" * 65536), id="packet-without-end"),
    ],
    indirect=True,
)
def test_a_server_that_floods_before_the_login(server: Server) -> None:
    host = Host("gpu7", address="127.0.0.1", port=server.port, user="ops")
    begun = time.monotonic()
    with pytest.raises(FloodError, match=r"gpu7: says .* and was not listened to"):
        SshTransport(host, config=SshConfig()).run("true\n", limit_s=200)
    assert time.monotonic() - begun < 150
    assert server.said < 64 << 20


def test_more_frames_than_any_node_has_are_refused() -> None:
    text = "= begin ok gdr-toolkit/1\n" + "".join(f"= k{n} ok x\n" for n in range(30_000))
    with pytest.raises(ToolkitError, match="more than 20000 frames"):
        Evidence.parse(text)


def bomb(file: Path, *members: tuple[str, int, bytes]) -> Path:
    """A gzipped tar; each member has that many bytes of nothing."""
    with gzip.open(file, "wb") as packed, tarfile.open(fileobj=packed, mode="w|") as tar:
        for name, size, kind in members:
            member = tarfile.TarInfo(name)
            member.size, member.type = size, kind
            tar.addfile(member, io.BytesIO(bytes(size)))
    return file


@pytest.mark.parametrize(
    ("members", "says"),
    [
        pytest.param(
            [(f"evidence/n{n}.evidence", 1 << 20, tarfile.REGTYPE) for n in range(40)],
            "is no evidence|unpacks to more than 8 MiB",
            id="evidence",
        ),
        pytest.param(
            [(f"other{n}", 1 << 20, tarfile.REGTYPE) for n in range(40)],
            "unpacks to more than 8 MiB",
            id="what-is-passed-over",
        ),
        pytest.param(
            [("x", 4 << 20, tarfile.XHDTYPE)], "header of its tar claims", id="extended-header"
        ),
        pytest.param(
            [("x", 4 << 20, tarfile.GNUTYPE_LONGNAME)], "header of its tar claims", id="long-name"
        ),
        pytest.param(
            [("x", 0, tarfile.XHDTYPE)] * 5000, "is damaged|holds no evidence", id="header-chain"
        ),
    ],
)
def test_an_incident_that_unpacks_to_far_more_than_it_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    members: list[tuple[str, int, bytes]],
    says: str,
) -> None:
    monkeypatch.setattr(tar_member, "_LEAST", 4 << 20)
    monkeypatch.setattr(tar_member, "_MOST", 8 << 20)
    file = bomb(tmp_path / "ticket.tar.gz", *members)
    with pytest.raises(UsageError, match=says) as raised:
        list(read_incident(file))
    assert "\n" not in str(raised.value)


def test_what_pads_its_end_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_member, "_LEAST", 4 << 20)
    file = bomb(tmp_path / "ticket.tar.gz")
    with gzip.open(file, "ab") as more:
        more.write(bytes(16 << 20))
    with pytest.raises(UsageError, match="unpacks to more than"):
        list(read_incident(file))
