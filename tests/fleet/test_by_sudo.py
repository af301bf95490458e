"""By the real sudo: what the accounts of gdr-node may do, and that they may do nothing else."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.scripts.engine import MODPROBE_D, SHELLS, Ran, Tree, make_tree
from tests.scripts.test_gdr_node import PROBE, WRAPPER, install, refused
from tests.scripts.test_signers import UNSIGNED, key, signed, trust
from toolkit.evidence import Evidence, State
from toolkit.node.collect import probe_script
from toolkit.node.deliver import sudoers
from toolkit.plan.bundle import tar_bytes
from toolkit.ssh.become import Become, read_marks, refusal

pytestmark = [pytest.mark.root, pytest.mark.sshd, pytest.mark.sudo]


@dataclass(frozen=True, slots=True)
class Account:
    """One of the two, made for the test and gone after it."""

    name: str
    tree: Tree

    def sudo(self, *words: str, feed: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
        done = subprocess.run(
            [*self.login, "sudo", "-n", *words],
            input=feed,
            capture_output=True,
            check=False,
            timeout=60,
            cwd="/",
            env={"PATH": os.environ["PATH"], "LC_ALL": "C", **(env or {})},
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    @property
    def login(self) -> tuple[str, ...]:
        who = pwd.getpwnam(self.name)
        ids = ("--reuid", str(who.pw_uid), "--regid", str(who.pw_gid), "--clear-groups")
        return ("setpriv", *ids)

    @property
    def wrapper(self) -> str:
        return str(self.tree.root / WRAPPER[1:])


@pytest.fixture
def accounts(tmp_path: Path) -> Iterator[tuple[Account, Account]]:
    tree = make_tree(tmp_path / "node", SHELLS["dash"])
    install(tree)
    trust(tree, key(tmp_path))
    names = tuple(f"gdr-test-{each}-{os.getpid()}" for each in ("p", "a"))
    text = sudoers().replace("gdr-probe ", f"{names[0]} ").replace("gdr-apply ", f"{names[1]} ")
    rules = tmp_path / "sudoers"
    rules.write_text(text.replace(WRAPPER, str(tree.root / WRAPPER[1:])))
    subprocess.run(("visudo", "-cf", rules), check=True, capture_output=True)
    placed = Path(f"/etc/sudoers.d/gdr-toolkit-test-{os.getpid()}")
    try:
        for name in names:
            words = ("useradd", "--system", "--no-create-home", "--shell", "/bin/sh", name)
            subprocess.run(words, check=True, capture_output=True)
        shutil.copyfile(rules, placed)
        placed.chmod(0o440)
        yield Account(names[0], tree), Account(names[1], tree)
    finally:
        placed.unlink(missing_ok=True)
        for name in names:
            subprocess.run(("userdel", name), check=False, capture_output=True)


def test_by_sudo_an_account_may_do_what_it_is_for(
    accounts: tuple[Account, Account], tmp_path: Path
) -> None:
    reader, carrier = accounts
    for each in accounts:
        assert each.sudo(each.wrapper, "probe").stdout == "probed as 0 in /\n"
    feed = tar_bytes(signed(UNSIGNED, tmp_path / "key"))
    assert reader.sudo(reader.wrapper, "apply", feed=feed).exit == 1, "it may only read"
    assert not reader.tree.exists(MODPROBE_D)
    forged = tar_bytes(replace(UNSIGNED, signature=signed(UNSIGNED, key(tmp_path, "x")).signature))
    for bad in (tar_bytes(UNSIGNED), forged, b"id\n"):
        refused(carrier.tree, carrier.sudo(carrier.wrapper, "apply", feed=bad))
    ran = carrier.sudo(carrier.wrapper, "apply", feed=feed)
    assert (ran.exit, ran.stderr) == (0, "")
    assert carrier.tree.read(MODPROBE_D) == "softdep x pre: y\n"


def test_by_sudo_an_account_may_do_nothing_else(
    accounts: tuple[Account, Account], tmp_path: Path
) -> None:
    _, carrier = accounts
    run = carrier.wrapper
    own = Path(f"/tmp/{carrier.name}")  # where an account may write
    try:
        own.symlink_to("/bin/sh")
        tries = [
            *(("sh", "-c", "id"), ("-s",), ("-i",), ("-e", "/etc/shadow"), ("id",), (str(own),)),
            *((run,), (run, "probe", "x"), (run, "apply", "-"), (run, "sh"), ("sh", run, "probe")),
            *(("-u", "daemon", run, "probe"), ("-E", run, "probe"), ("GDR_ROOT=/x", run, "probe")),
            *(
                ("env", run, "probe"),
                (f"{run}/../probe.sh",),
                (run.replace("gdr-node", "probe.sh"),),
            ),
        ]
        for words in tries:
            ran = carrier.sudo(*words, feed=b"id\n")
            assert (ran.exit, ran.stdout) == (1, ""), words
            assert ran.stderr.startswith("sudo: "), words
    finally:
        own.unlink(missing_ok=True)
    assert carrier.sudo(run, "probe", feed=b"id\n").exit == 77, "and no script of its own"


def test_by_sudo_no_variable_gets_through(accounts: tuple[Account, Account]) -> None:
    reader, _ = accounts
    reader.tree.write(PROBE, "env | sort\n")
    told = {"GDR_ROOT": "/x", "BASH_ENV": "/x", "ENV": "/x", "LANG": "x", "PS4": "x", "HOME": "/x"}
    said = reader.sudo(reader.wrapper, "probe", env=told).stdout
    names = {line.partition("=")[0] for line in said.split("\n")[:-1]}
    assert names - {"_", "PWD", "OLDPWD", "SHLVL"} == {
        "GDR_BIN", "GDR_ROOT", "HOME", "LC_ALL", "PATH",
    }  # fmt: skip
    assert f"GDR_ROOT={reader.tree.root}\n" in said
    assert "HOME=/root\n" in said


@pytest.mark.parametrize("same", [True, False])
def test_by_sudo_a_transport_has_a_tree_read(accounts: tuple[Account, Account], same: bool) -> None:
    """What is typed is what a login shell of the account is given; --wrapper."""
    reader, _ = accounts
    reader.tree.write(PROBE, probe_script() if same else f"{probe_script()}# another version\n")
    become = Become(password="x", wrapped=True)  # noqa: S106 of nobody, and not sent
    shell = become.command.replace(WRAPPER, reader.wrapper)
    done = subprocess.run(
        [*reader.login, "sh", "-c", shell],
        input=become.feed(probe_script()),
        capture_output=True,
        check=True,
        cwd="/",
    )
    told = read_marks(done.stderr.decode())
    if same:
        assert (told.begun, told.status, told.noise, told.stderr) == (True, 0, "", "")
        evidence = Evidence.parse(done.stdout.decode())
        assert evidence.complete
        assert evidence.frames["os-release"].state is State.ABSENT, "of the tree, which has none"
    else:
        assert (told.begun, told.status, done.stdout) == (False, 77, b"")
        assert str(refusal("gpu1", told)) == (
            f"gpu1: gdr-node: what came is not the probe that is installed here: {PROBE}"
        )
