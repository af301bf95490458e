"""``--dry``, Invoke's own, is heeded by every verb that changes anything, and else refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import MagicMock

import pytest

import tasks as checkout
from dev import run as tiers
from dev import tools
from dev.lab import boxing
from dev.lab import tasks as lab
from dev.lab.machine import Guest
from tests.invoked import here
from tests.unit.test_json_everywhere import tasks
from toolkit.built.io.store import Store
from toolkit.cli import Gdr, verbs
from toolkit.errors import ExitCode, NewKey, Outcome, UsageError
from toolkit.features.ansible import cli as playing
from toolkit.features.bios import cli as bios
from toolkit.features.builds import cli as build
from toolkit.features.enrol import cli as enrolling
from toolkit.features.exercise import cli as exercising
from toolkit.features.image import cli as image
from toolkit.features.iommu_groups import cli
from toolkit.features.kubernetes import cli as kubernetes
from toolkit.features.nic import cli as firmware
from toolkit.features.reload import cli as reloading
from toolkit.verbs.cli import budget, capture, demo, hosts, plan, provision
from toolkit.verbs.cli import init as beginning
from toolkit.verbs.cli.session import Session

# What tells, and writes no more than the run's own folder and the results that were asked for.
TELLING = {
    *("doctor", "plan", "verify", "history", "runs", "runs.show", "compare", "report", "drift"),
    *("expect", "gate"),
    *("topology", "predict", "rehearse", "checks", "explain", "why", "image.diff"),
}


OWN = {"state", "cache"}  # runs keep what was seen, and the cache its folder


@dataclass(frozen=True)
class Row:
    """A command line, what it does all its changing by, and what it asks before that."""

    words: str
    changes: str  # the name of a function that its module calls
    module: object
    asks: str = ""  # names there that ask the world, and here mean nothing
    refused: bool = False  # with --dry; else it tells what it would do


ROWS = {
    "provision": Row("--hosts a --yes", "_provision", provision, "plan_all kept_off"),
    "reload": Row("--hosts a --yes", "reload_nodes", reloading, "look to_do counting replace"),
    "iommu": Row("--hosts a --yes", "change", cli, "look"),
    "exercise": Row(
        "--hosts a --yes",
        "run",
        exercising,
        "read_nodes plan refuse_jobs planned_lines _consent delivered",
    ),
    "enrol": Row("--hosts a --dkms-key", "_request", enrolling, "look"),
    "enrol --revoke": Row("--hosts a --dkms-key", "revoke", enrolling, "look"),
    "bios": Row(
        "--hosts a --set acs=off --apply --yes",
        "_apply",
        bios,
        "access replace open_bmcs look_all _consent BiosRun _tell_planned",
    ),
    "nic": Row(
        "--hosts a --set ATS_ENABLED=off --role vm --apply --yes", "_write", firmware, "look"
    ),
    "image": Row("--root . --yes", "_prepare", image, "chosen_kernels"),
    "build": Row(
        "--kernel 6.1",
        "build_in",
        build,
        "open_place with_headers graphs_for plan_builds _finish",
    ),
    "image --undo": Row("last --root . --yes", "_take_back", image, refused=True),
    "build --prune": Row("0", "prune", Store, refused=True),
    "build --package": Row(
        "deb --kernel 6.1",
        "pack_built",
        build,
        "open_place with_headers graphs_for build_in plan_builds _finish",
        refused=True,
    ),
    "rollback": Row("--hosts a --yes", "rollback_nodes", plan, "counting", refused=True),
    "undo": Row(
        "a-run --yes",
        "undo_nodes",
        plan,
        "read_run undoing as_reached counting scheduled replace Session",
        refused=True,
    ),
    "budget --release": Row("a", "release", budget, refused=True),
    "budget --set-aside": Row("a/b=1", "set_aside", budget, refused=True),
    "init": Row("--folder new", "begin", beginning),
    "hosts --scan-keys": Row("--hosts a --yes", "add_keys", hosts, "_keys"),
    "demo --reset": Row("", "reset", demo, refused=True),
    "demo --serve": Row("new", "terminable", demo, refused=True),
    "bundle": Row("--hosts a", "write_bundles", plan, "_planned", refused=True),
    "playbook": Row("--hosts a --out new", "fleet", playing, refused=True),
    "capture": Row("--hosts a", "capture_nodes", capture, refused=True),
    "kubernetes --roll": Row(
        "--from a --kubeconfig b",
        "rolled",
        kubernetes,
        "terms_of kubectl_of cluster_of read_saved plan_for_pods carrying _told told_of",
        refused=True,
    ),
    "kubernetes --out": Row("new --image a/b@sha256:" + "0" * 64, "write_manifests", kubernetes,
                            refused=True),
}  # fmt: skip


def test_every_verb_changes_by_a_row_or_tells() -> None:
    assert {name.split(" ")[0] for name in ROWS} | TELLING == tasks(verbs()).keys()
    assert not {name.split(" ")[0] for name in ROWS} & TELLING


NEW_KEY = NewKey("known_hosts", "a", "ssh-ed25519", b"key", "a")


class Changed(UsageError):
    """Here the verb would have begun to change something."""


@pytest.fixture
def began(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """What was begun, where nobody is asked and nothing is found."""
    row: Row = ROWS[request.param]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    calls: list[str] = []

    def changes(*_: object, **__: object) -> None:
        calls.append(row.changes)
        raise Changed("begun", hint="")

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[MagicMock]:
        yield MagicMock(hosts=(), demo=False)

    for name in row.asks.split():
        monkeypatch.setattr(row.module, name, MagicMock())
    if hasattr(row.module, "scan"):
        monkeypatch.setattr(row.module, "scan", lambda *_: [Outcome("a", NEW_KEY)])
    for name in ("fleet", "open_fleet"):
        if hasattr(row.module, name):
            monkeypatch.setattr(row.module, name, opened)
    monkeypatch.setattr(row.module, row.changes, changes)
    return calls


@pytest.mark.parametrize(
    ("name", "began"), [(e, e) for e in ROWS], ids=list(ROWS), indirect=["began"]
)
def test_dry_begins_nothing(
    name: str,
    began: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    argv = (*name.split(" "), *ROWS[name].words.split())
    before = sorted(tmp_path.iterdir())
    code = here(monkeypatch, "--dry", *argv)
    said = capsys.readouterr().err
    assert began == []
    assert "bug in the toolkit" not in said
    assert (code == ExitCode.USAGE) is ROWS[name].refused, said
    assert [each for each in sorted(tmp_path.iterdir()) if each.name not in OWN] == before
    # The same without it gets there: or nothing would be shown by this.
    here(monkeypatch, *argv)
    assert began == [ROWS[name].changes], capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "began"), [(e, e) for e in ("exercise", "rollback", "undo")], indirect=["began"]
)
def test_who_does_not_say_yes_is_asked_before_anything_begins(
    name: str, began: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ROWS[name]
    asked: list[str] = []

    def refused(*_: object, **__: object) -> None:
        asked.append(name)
        raise Changed("not confirmed", hint="")

    monkeypatch.setattr(row.module, "_consent" if "_consent" in row.asks else "consent", refused)
    code = here(monkeypatch, *name.split(" "), *row.words.replace("--yes", "").split())
    assert (code, asked, began) == (ExitCode.USAGE, [name], [])


# Whose runs have a folder, and the words by which each gets to it.
BEGUN = {
    **dict.fromkeys(("doctor", "plan", "bundle", "compare", "report", "expect"), "--from x"),
    **dict.fromkeys(("topology", "predict", "drift"), "--from x"),
    **dict.fromkeys(("verify", "provision", "reload", "iommu", "hosts", "exercise"), "--hosts a"),
    **dict.fromkeys(("rollback", "playbook", "capture", "nic"), "--hosts a"),
    "bios": "--hosts a --set acs=off",
    "enrol": "--hosts a --dkms-key",
    "kubernetes": "--from x",
    "build": "--kernel 6.1",
    "rehearse": "--from x --driver 595.71.05",
    "why": "peermem.loaded --from x",
    "image": "--root .",
    "image.diff": "a b",
}


@pytest.mark.parametrize("name", BEGUN)
def test_a_run_is_called_by_its_verb(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    called: list[str] = []

    def begin(verb: str, _: object) -> None:
        called.append(verb)
        raise Changed("begun", hint="")

    monkeypatch.setattr(Session, "begin", begin)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    here(monkeypatch, name, *BEGUN[name].split())
    assert called == [name.replace(".", "-")]


@pytest.mark.parametrize("began", ["image --undo"], indirect=True)
def test_check_of_an_image_takes_nothing_back(
    began: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("image", "--undo", "last", "--root", ".", "--check", "--yes")
    assert (here(monkeypatch, *words), began) == (ExitCode.USAGE, [])


def _checkout(*words: str) -> int:
    try:
        Gdr(namespace=checkout.namespace).run(["invoke", *words])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


DEVELOPERS = (
    pytest.param(("vm.up", 0, "lab: would be made and started"), id="vm.up"),
    pytest.param(("vm.up --install", 0, "would be installed: one"), id="vm.up-install"),
    pytest.param(("vm.box --install", 0, "would be installed: one"), id="vm.box-install"),
    pytest.param(("vm.down", 0, "lab: would be ended and removed"), id="vm.down"),
    pytest.param(("test --tier lint --install", 0, "nothing was run: --dry"), id="test"),
    pytest.param(("lint", 0, "nothing was run: --dry"), id="lint"),
    pytest.param(("pictures", 64, "--dry: pictures has no dry run"), id="pictures"),
)


@pytest.mark.parametrize("row", DEVELOPERS)
def test_dry_begins_nothing_of_what_developers_run(
    row: tuple[str, int, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    words, code, told = row
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    left = tmp_path / "gdr-toolkit/lab/lab"  # of a guest that has ended otherwise
    left.mkdir(parents=True)
    (left / "spec.json").write_text("{}")
    begun: list[object] = []
    lacks = (tools.Tool("one", "one"),) if "--install" in words else ()
    monkeypatch.setattr(tools, "missing", lambda _: lacks)
    for module in (lab, boxing, tiers):
        monkeypatch.setattr(module, "missing", lambda _: lacks)
    monkeypatch.setattr(Guest, "remove", begun.append)
    monkeypatch.setattr("subprocess.run", lambda *each, **_: begun.append(each))
    monkeypatch.setattr("dev.pictures.write", lambda: begun.__iadd__(["pictures"]))
    ended = _checkout("--dry", *words.split())
    seen = capsys.readouterr()
    assert ended == code, seen.err
    assert told in seen.out + seen.err
    assert begun == []
    assert (left / "spec.json").exists()
