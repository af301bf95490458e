"""How demo nodes come to lie on disk, and how their fleet is found."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolkit.demo import create, fleet
from toolkit.demo.__main__ import main
from toolkit.demo.create import commands, environment, make_node, make_nodes, owes_a_boot, run
from toolkit.demo.fleet import (
    DemoFleet,
    _host,
    _python_path,
    _read_ports,
    make_key,
    prepare,
    reset,
    write_known_hosts,
)
from toolkit.demo.nodes import EVERY, READY, SMALL, DemoFamily, Recipe, recipe_of
from toolkit.demo.tree import NodeTree
from toolkit.errors import ToolkitError, UsageError

KINDS = ["healthy", "iommu", "healthy", "stub", "healthy", "kernel", "healthy", "rocky"]
KINDS += ["healthy", "healthy"]


@pytest.mark.parametrize(("number", "kind"), list(enumerate(KINDS * 2, start=1)))
def test_numbered_nodes_go_round_in_a_cycle(number: int, kind: str) -> None:
    found = recipe_of(f"demo{number:03}")
    assert found.kind == f"small-{kind}"
    assert (found.machine.pairs, found.machine.nvswitches) == (2, 0)
    ready = READY[f"demo-{kind}"]
    assert (found.family, found.kernels, found.stub) == (ready.family, ready.kernels, ready.stub)


def test_a_name_of_no_demo_node() -> None:
    with pytest.raises(UsageError, match="demo-none: no such demo node") as raised:
        recipe_of("demo-none")
    assert raised.value.hint == f"demo nodes: {', '.join(EVERY)}"
    assert set(SMALL) < set(EVERY)


DEBIAN = {"update-grub", "update-initramfs", "lsinitramfs"}
GRUB = {"grub-mkconfig", "grub-editenv", "grub-probe"}
RHEL = {"grubby", "grub2-editenv", "grub2-probe", "dracut", "lsinitrd"}
PACKAGED = {"dkms", "ofed_info"}


@pytest.mark.parametrize(
    ("name", "has"),
    [
        ("demo-healthy", DEBIAN | GRUB | PACKAGED | {"nvidia-smi"}),
        ("demo-rocky", RHEL | PACKAGED | {"nvidia-smi"}),
        ("demo-arch", GRUB | {"nvidia-smi"}),
        ("demo-nogpu", DEBIAN | GRUB | PACKAGED),
    ],
)
def test_commands_that_only_some_nodes_have(name: str, has: set[str]) -> None:
    found = commands(recipe_of(name))
    assert (DEBIAN | GRUB | RHEL | PACKAGED | {"nvidia-smi"}) & set(found) == has
    assert {"boot", "depmod", "uname"} <= set(found)
    assert all(path.is_file() for path in found.values())
    if "grub2-probe" in found:
        assert found["grub2-probe"].name == "grub-probe"


def lay_node(place: Path, user: str = "ops") -> Path:
    (place / "tree/.node").mkdir(parents=True)
    (place / "tree/.node/user").write_text(f"{user}\n")
    return place


def test_what_a_command_finds_in_its_environment(tmp_path: Path) -> None:
    place = lay_node(tmp_path / "demo1")
    assert environment(place) == {
        "GDR_ROOT": f"{place}/tree",
        "GDR_BIN": f"{place}/bin",
        "GDR_NODE": "demo1",
        "PATH": f"{place}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": f"{place}/tree/root",
        "TMPDIR": f"{place}/tree/tmp",
        "USER": "ops",
        "LOGNAME": "ops",
        "SHELL": "/bin/sh",
        "SSH_CONNECTION": "198.51.100.5 50022 192.0.2.17 22",
    }
    command(place, "depmod", 'echo "$GDR_UID $*" >"$GDR_ROOT/uid"; ! read -r _; echo noise >&2\n')
    run(place, "depmod", "6.8.0")
    assert (place / "tree/uid").read_text() == "0 6.8.0\n"
    command(place, "depmod", "echo why >&2; exit 3\n")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(place, "depmod")
    assert caught.value.stderr == b"why\n"


def command(place: Path, name: str, script: str) -> Path:
    path = place / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("why", ["held open for writing", "noexec"])
def test_a_command_that_cannot_be_started_is_not_looked_for_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    place, host = lay_node(tmp_path / "demo1"), tmp_path / "host"
    command(host, "depmod", f"touch {tmp_path}/touched\n")
    monkeypatch.setattr(create, "SYSTEM_PATH", f"{host}/bin:{create.SYSTEM_PATH}")
    stand_in = command(place, "depmod", "")
    if why == "noexec":
        stand_in.chmod(0o644)
    with contextlib.ExitStack() as held:
        if why != "noexec":
            held.enter_context(stand_in.open("a"))
        with pytest.raises(OSError, match=r"Text file busy|Permission denied"):
            run(place, "depmod", "6.8.0")
    assert not (tmp_path / "touched").exists()


def test_what_a_command_that_failed_said_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(place: Path, name: str, *_: str) -> None:
        raise subprocess.CalledProcessError(1, name, stderr=b"first\nNo space left on device\n")

    monkeypatch.setattr(create, "run", full)
    with pytest.raises(ToolkitError, match=r"^demo1: .*: No space left on device$") as caught:
        make_node(tmp_path, recipe_of("demo1"), "demo1")
    assert str(tmp_path.parent) in (caught.value.hint or "")


def test_no_command_runs_before_all_are_laid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that starts meanwhile would hold a file of another thread: "Text file busy"."""
    seen: list[set[str]] = []

    def end(*_: object) -> None:
        laid = (tmp_path / "nodes").glob(".*/bin/update-grub")
        seen.append({each.parts[-3].lstrip(".") for each in laid})

    monkeypatch.setattr(create, "_end", end)
    names = tuple(name for name in READY if recipe_of(name).family is DemoFamily.UBUNTU)
    make_nodes(tmp_path, names)
    assert seen == [set(names)] * len(names)


@pytest.mark.parametrize("name", ["demo-healthy", "demo-rocky", "demo-kernel"])
def test_a_node_is_built_and_booted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def part(*_: object, **__: object) -> NodeTree:
        return NodeTree()

    def machine(given: object, *, root: bool) -> NodeTree:
        assert given is recipe.machine
        assert root is (recipe.user == "root")
        tree = NodeTree()
        tree.line("proc/sys/kernel/hostname", "x")
        return tree

    recipe: Recipe = recipe_of(name)
    ran: list[tuple[Path | str, ...]] = []
    monkeypatch.setattr(create, "sysfs", machine)
    monkeypatch.setattr("toolkit.demo.disk.disk", part)
    for each in ("packages", "inside"):
        monkeypatch.setattr(create, each, part)
    monkeypatch.setattr(create, "run", lambda *words: ran.append(words))
    make_node(tmp_path, recipe, "gpu7")
    assert (tmp_path / "tree/proc/sys/kernel/hostname").read_text() == "gpu7\n"
    assert {each.name for each in (tmp_path / "bin").iterdir()} == set(commands(recipe))
    assert all(os.access(each, os.X_OK) for each in (tmp_path / "bin").iterdir())
    steps: list[tuple[str, ...]] = [("depmod", kernel) for kernel in recipe.kernels]
    steps += [("grub-mkconfig", "-o", "/boot/grub/grub.cfg")] * (name != "demo-rocky")
    assert ran == [(tmp_path, *step) for step in [*steps, ("boot",)]]


@pytest.mark.parametrize(
    ("target", "age_s", "owes"),
    [
        ("rebooting for x", 9, True),
        ("rebooting for x", -600, False),  # young, however long this takes
        ("pid 7", 9, False),
        ("", 9, False),
    ],
)
def test_a_reboot_that_was_lost(tmp_path: Path, target: str, age_s: int, owes: bool) -> None:
    lock = tmp_path / "tree/var/lib/gdr-toolkit/lock"
    lock.parent.mkdir(parents=True)
    if target:
        lock.symlink_to(target)
        then = time.time() - age_s
        os.utime(lock, (then, then), follow_symlinks=False)
    assert owes_a_boot(tmp_path) is owes


def test_numbered_nodes_are_cloned_from_a_template_a_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, str]] = []

    def lay(place: Path, recipe: Recipe, name: str) -> None:
        made.append((name, recipe.kind))
        own = place / "tree/proc/sys/kernel/random"
        own.mkdir(parents=True)
        (own / "boot_id").write_text("same\n")
        (own.parent / "hostname").write_text(f"{name}\n")
        assert (place / "bin").is_dir()
        assert place.name.startswith(".")

    monkeypatch.setattr(create, "_fill_and_boot", lay)
    left = tmp_path / "nodes/.demo001"
    left.mkdir(parents=True)
    (left / "old").touch()
    names = ("demo-stub", "demo001", "demo003", "demo002")
    make_nodes(tmp_path, names)
    assert sorted(made) == [
        ("demo-stub", "stub"),
        ("small-healthy", "small-healthy"),
        ("small-iommu", "small-iommu"),
    ]
    nodes = tmp_path / "nodes"
    assert sorted(each.name for each in nodes.iterdir()) == sorted(names)
    assert not (nodes / "demo001/old").exists()
    for name in names[1:]:
        own = nodes / name / "tree/proc/sys/kernel"
        assert (own / "hostname").read_text() == f"{name}\n"
        assert len((own / "random/boot_id").read_text()) == 37
        kind = recipe_of(name).kind
        assert (nodes / name / "bin").readlink() == tmp_path / "templates" / kind / "bin"
    ids = {(nodes / name / "tree/proc/sys/kernel/random/boot_id").read_text() for name in names[1:]}
    assert len(ids) == 3
    make_nodes(tmp_path, (*names, "demo005"))
    assert len(made) == 3
    assert (nodes / "demo005/tree").is_dir()


def test_keys_are_made_once_and_for_their_owner(tmp_path: Path) -> None:
    for name in ("b", "a", ".half"):
        (tmp_path / "nodes" / name).mkdir(parents=True)
        make_key(tmp_path / "nodes" / name / "host_key")
    key = tmp_path / "nodes/a/host_key"
    before = key.read_text()
    assert before.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    assert key.stat().st_mode & 0o777 == 0o600
    make_key(key)
    assert key.read_text() == before
    write_known_hosts(tmp_path)
    rows = (tmp_path / "known_hosts").read_text().split("\n")
    assert [row.split()[:2] for row in rows[:-1]] == [["a", "ssh-ed25519"], ["b", "ssh-ed25519"]]
    public = (tmp_path / "nodes/a/host_key.pub").read_text()
    assert rows[0] == f"a {public.rstrip()}"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["known_hosts", "nodes"]


def test_a_host_of_the_fleet(tmp_path: Path) -> None:
    found = _host(tmp_path, "demo-noroot", 2222)
    assert (found.name, found.address, found.user, found.port) == (
        "demo-noroot",
        "127.0.0.1",
        "ops",
        2222,
    )
    assert (found.groups, found.key_file) == (("demo",), str(tmp_path / "client_key"))
    assert dict(found.options) == {
        "UserKnownHostsFile": f'"{tmp_path}/known_hosts"',
        "GlobalKnownHostsFile": "/dev/null",
        "HostKeyAlias": "demo-noroot",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
    }


def test_where_the_server_imports_us_from(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = str(Path(fleet.__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    assert _python_path() == f"{ours}{os.pathsep}/theirs"
    monkeypatch.delenv("PYTHONPATH")
    assert _python_path() == ours


def server(text: str, status: int = 0) -> Any:
    return SimpleNamespace(
        stdin=io.StringIO(), stdout=io.StringIO(text), wait=lambda _=None: status, pid=77
    )


def test_ports_are_read_until_an_empty_line(tmp_path: Path) -> None:
    assert _read_ports(server("a 1\nb 2\n\nc 3\n")) == {"a": 1, "b": 2}
    with pytest.raises(ToolkitError, match="ended with status 9 before it listened"):
        _read_ports(server("a 1\n", 9))
    child = server("demo-stub 5\n\n")
    with DemoFleet(tmp_path, ("demo-stub",), child) as on:
        assert [each.port for each in on.hosts] == [5]
        assert on.pid == 77
        assert on.tree("demo-stub") == tmp_path / "nodes/demo-stub/tree"
    assert child.stdin.closed
    assert child.stdout.closed
    on.close()


def test_a_server_that_does_not_end_is_killed(tmp_path: Path) -> None:
    calls: list[object] = []

    def wait(seconds: float | None = None) -> int:
        calls.append(seconds)
        if seconds is not None:
            raise subprocess.TimeoutExpired("x", seconds)
        return -9

    child = server("demo-stub 5\n\n")
    child.wait, child.kill = wait, lambda: calls.append("kill")
    DemoFleet(tmp_path, ("demo-stub",), child).close()
    assert calls[1:] == ["kill", None]
    assert isinstance(calls[0], int | float)


def test_nodes_of_another_toolkit_are_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"

    def lay(where: Path, names: tuple[str, ...]) -> None:
        for name in names:
            (where / "nodes" / name).mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(fleet, "make_nodes", lay)
    prepare(state, ("a",))
    mark = state / "nodes/a/mark"
    mark.touch()
    for each in ("client_key", "nodes/a/host_key", "known_hosts", "version"):
        assert (state / each).exists()
    prepare(state, ("a", "b"))
    assert mark.exists()
    for name in ("host_key", "host_key.pub"):  # Ctrl-C came before them
        (state / "nodes/a" / name).unlink()
    prepare(state, ("b",))
    assert (state / "nodes/a/host_key.pub").exists()
    (state / "version").write_text("other")
    (state / "templates").mkdir()
    prepare(state, ("a",))
    assert not mark.exists()
    assert not (state / "templates").exists()
    reset(state)
    assert not (state / "nodes").exists()
    assert not (state / "version").exists()
    reset(tmp_path / "none")


def test_how_the_server_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["serve"], ["serve", "x"], ["other", "x", "y"], []):
        assert main(words) == 64
    said = capsys.readouterr()
    assert said.err.startswith("usage: python -m toolkit.demo serve")
    assert said.out == ""
