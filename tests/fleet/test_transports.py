"""Both transports, held to one set of expectations by real servers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.fleet.conftest import Site
from tests.fleet.sshd import Keys, Sshd
from toolkit.errors import TransportError
from toolkit.node.collect import collect

pytestmark = pytest.mark.sshd

SAYS_HELLO = "f() { echo hello; echo aside >&2; return 3; }\nf\n"


def test_a_script_gives_its_output_and_its_status(site: Site, sshd: Sshd) -> None:
    result = site.open(sshd.host()).run(SAYS_HELLO)
    assert (result.exit, result.stdout, result.stderr) == (3, "hello\n", "aside\n")


@pytest.mark.parametrize("status", [0, 1, 127, 254, 255])
def test_the_script_s_own_status_is_never_taken_for_the_client_s(
    site: Site, sshd: Sshd, status: int
) -> None:
    assert site.open(sshd.host()).run(f"exit {status}\n").exit == status


def test_lines_arrive_while_the_script_still_runs(site: Site, sshd: Sshd, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    script = f"echo first; until [ -e {seen} ]; do sleep 0.02; done; echo second\n"
    heard: list[str] = []

    def listen(line: str) -> None:
        heard.append(line)
        seen.touch()  # without this line having been heard, the script would never end

    assert site.open(sshd.host()).run(script, limit_s=60, sink=listen).exit == 0
    assert heard == ["first", "second"]


def test_output_is_kept_byte_for_byte(site: Site, sshd: Sshd) -> None:
    result = site.open(sshd.host()).run(r"printf 'a\fb\342\200\250c\377\nlast'")
    assert result.stdout.encode("utf-8", "surrogateescape") == b"a\fb\xe2\x80\xa8c\xff\nlast"


def test_a_script_larger_than_every_buffer_arrives(site: Site, sshd: Sshd) -> None:
    script = "#" + "x" * 3_000_000 + "\necho whole\n"
    assert site.open(sshd.host()).run(script).stdout == "whole\n"


def test_output_larger_than_every_buffer_arrives(site: Site, sshd: Sshd) -> None:
    script = "head -c 4000000 /dev/zero | tr '\\000' x; head -c 4000000 /dev/zero >&2\n"
    result = site.open(sshd.host()).run(script)
    assert (len(result.stdout), len(result.stderr)) == (4_000_000, 4_000_000)


def test_a_script_that_talks_while_it_is_still_being_sent_does_not_block(
    site: Site, sshd: Sshd
) -> None:
    line = "head -c 30000 /dev/zero | tr '\\000' x; #" + "y" * 30_000 + "\n"
    assert len(site.open(sshd.host()).run(line * 100, limit_s=120).stdout) == 3_000_000


def test_a_process_left_behind_does_not_hold_the_result(site: Site, sshd: Sshd) -> None:
    result = site.open(sshd.host()).run("sleep 600 & echo $!\n", limit_s=120)
    os.kill(int(result.stdout), signal.SIGKILL)  # raises where it was ended for us
    assert result.exit == 0


def test_a_script_that_is_not_read_to_its_end_still_ends(site: Site, sshd: Sshd) -> None:
    assert site.open(sshd.host()).run("exit 5\n" + "# never read\n" * 200_000).exit == 5


def test_scripts_follow_one_another(site: Site, sshd: Sshd) -> None:
    transport = site.open(sshd.host())
    assert [transport.run(f"echo {n}").stdout for n in range(3)] == ["0\n", "1\n", "2\n"]


def test_a_closed_transport_opens_again(site: Site, sshd: Sshd) -> None:
    transport = site.open(sshd.host())
    transport.run("true")
    transport.close()
    assert transport.run("echo again").stdout == "again\n"


def test_a_node_that_was_away_between_two_scripts_is_reached_again(
    site: Site, keys: Keys, tmp_path: Path
) -> None:
    with Sshd(tmp_path / "sshd", keys=keys) as server:
        transport = site.open(server.host())
        assert transport.run("echo there").stdout == "there\n"
        server.stop()
        with pytest.raises(TransportError):
            transport.run("true", limit_s=60)
        server.launch()
        server.await_start()
        assert transport.run("echo back", limit_s=60).stdout == "back\n"


def test_a_script_that_hangs_is_given_up(site: Site, sshd: Sshd, tmp_path: Path) -> None:
    transport, here = site.open(sshd.host()), tmp_path / "here"
    here.touch()
    transport.run("true")  # so that the limit is the script's alone, but for who logs in anew
    with pytest.raises(TransportError, match="no answer within 10 s while the script ran"):
        transport.run(f"while [ -e {here} ]; do sleep 0.1; done", limit_s=10)
    here.unlink()  # the node's affair, until it ends


def test_a_script_whose_shell_is_killed_has_no_result(site: Site, sshd: Sshd) -> None:
    with pytest.raises(TransportError, match="connection was lost while the script ran"):
        site.open(sshd.host()).run("kill -9 $PPID; sleep 1")


def test_the_environment_of_the_node_reaches_the_script(
    site: Site, keys: Keys, tmp_path: Path
) -> None:
    with Sshd(
        tmp_path / "sshd", keys=keys, env={"GDR_ROOT": "/some tree", "GDR_BIN": "/b"}
    ) as node:
        assert site.open(node.host()).run('echo "$GDR_ROOT,$GDR_BIN"').stdout == "/some tree,/b\n"


def test_the_probe_reads_a_node_in_one_trip(site: Site, sshd: Sshd) -> None:
    evidence = collect(site.open(sshd.host()))
    assert evidence.complete
    assert evidence.text("kernel-release").strip() == os.uname().release


def test_a_banner_and_a_login_that_prints_are_not_evidence(
    site: Site, keys: Keys, tmp_path: Path
) -> None:
    banner = tmp_path / "banner"
    banner.write_text("= begin ok gdr-toolkit/9\nAuthorised use only\n")
    noisy = """sh -c 'echo welcome; echo hush >&2; eval "$SSH_ORIGINAL_COMMAND"; echo goodbye'"""
    settings = [f"Banner {banner}", f"ForceCommand {noisy}"]
    with Sshd(tmp_path / "sshd", keys=keys, settings=settings) as node:
        transport = site.open(node.host())
        assert collect(transport).complete
        assert transport.run("echo own >&2").stderr == "own\n"


def test_an_account_without_a_shell_is_said_to_be_one(
    site: Site, keys: Keys, tmp_path: Path
) -> None:
    settings = ["ForceCommand echo This account is currently not available. >&2; exit 1"]
    with (
        Sshd(tmp_path / "sshd", keys=keys, settings=settings) as node,
        pytest.raises(TransportError, match=r"did not start the script: This account is"),
    ):
        site.open(node.host()).run("true")


def test_ipv6_is_reached(site: Site, keys: Keys, tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd", keys=keys, address="::1") as node:
        assert site.open(node.host()).run("echo six").stdout == "six\n"
