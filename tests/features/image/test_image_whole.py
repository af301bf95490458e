"""The verb image from its words to its report, over an image that only remembers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

from tests.evidence.build import KERNEL, kernel_block
from tests.unit.imaging import NOT_BUILT, image, planned
from tests.unit.judged import TODAY
from tests.unit.passports import BORN
from tests.unit.planning import placed
from toolkit.errors import ApplyError, ExitCode, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.passport import PLACE, SIGNATURE, Passport
from toolkit.features.image import cli as imaging
from toolkit.features.image import run as flow
from toolkit.features.image.io.index import TreeChange, TreeDifference
from toolkit.features.image.io.media import ImageSource, Medium
from toolkit.features.image.run import ROUNDS, Image
from toolkit.node import deliver
from toolkit.progress import Silent
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.want import Want

APPLIED = SimpleNamespace(steps=["place /etc/x: done"])
[LACKS] = planned().plan.changes
GOOD = placed({LACKS.path: LACKS.text})  # all that could be placed in it is there


@dataclass
class World:
    """One image: what it is read as, and all that is done to it."""

    found: Evidence
    becomes: Evidence | None = None  # after it was worked on; None: what it was
    passport: str = ""  # what lies in it
    did: list[str] = field(default_factory=list)
    sources: list[ImageSource] = field(default_factory=list)
    broken: bool = False
    named: tuple[str, ...] = (KERNEL,)

    # As a staged image.
    root, ground, name = Path("/tree"), None, "/srv/golden"

    @contextmanager
    def stage(self, source: ImageSource, *, progress: object = None) -> Iterator[World]:
        assert progress is not None
        self.sources.append(source)
        self.did.append("stage")
        yield self

    def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
        if script.startswith("rm -f"):
            self.did.append(" ".join(script.split()))
            return Result(0, "", "")
        assert PLACE in script
        return Result(0, self.passport, "")

    def close(self) -> None: ...

    def commit(self) -> list[TreeDifference]:
        self.did.append("commit")
        return [
            TreeDifference("/etc/x", TreeChange.ADDED),
            TreeDifference("/etc/y", TreeChange.CONTENT),
        ]

    # As a way to look into one.
    def kernels(self) -> tuple[str, ...]:
        return self.named

    def collect(self, _: object) -> Evidence:
        worked = "apply" in self.did and self.becomes is not None
        return self.becomes if worked and self.becomes is not None else self.found

    def apply(
        self, staged: World, script: str, *, limit_s: float, sink: Sink, audit: str
    ) -> SimpleNamespace:
        assert staged is self
        assert "-image" in audit, "the journal of the image tells which run of ours it was"
        self.did.append("apply")
        sink("|DKMS: building")
        if self.broken:
            raise ApplyError("/srv/golden: a step failed")
        return APPLIED

    def place(self, staged: World, passport: Passport, signature: str = "") -> None:
        self.did.append(f"passport {signature!r}")
        self.passport = passport.json() + signature

    def rollback(self, staged: World, run: str, *, audit: str) -> SimpleNamespace:
        assert audit.startswith("who=")
        self.did.append(f"rollback {run}")
        return SimpleNamespace(steps=[f"restore /etc/{run}: done"] if run != "none" else [])


def of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, world: World) -> World:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(imaging, "stage", world.stage)
    monkeypatch.setattr(imaging, "rollback", world.rollback)
    monkeypatch.setattr(Image, "reader", lambda *_: world)
    monkeypatch.setattr(flow, "collect", world.collect)
    monkeypatch.setattr(deliver, "apply", world.apply)
    monkeypatch.setattr(flow, "place_passport", world.place)
    monkeypatch.setattr(flow, "make_passport", lambda *_: BORN)
    monkeypatch.setattr(imaging, "signature_of", lambda _, key: f"signed by {key}\n")
    monkeypatch.setattr(imaging, "try_signing", lambda key: world.did.append(f"try {key}"))
    return world


def run(*, dry: bool = False, **values: str | bool) -> ExitCode:
    context = Context()
    context.config.run.dry = dry
    told = {"kernels": "all", "profile": "auto", **values}
    if not {"disk", "tar"} & told.keys():
        told = {"root": "/srv/golden", **told}
    try:
        imaging.image(context, **told)
    except Exit as ended:
        return ExitCode(ended.code)
    return ExitCode.OK


@pytest.fixture
def stale(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    """An image without the module, which has it once it was worked on."""
    return of(monkeypatch, tmp_path, World(image(NOT_BUILT), image(GOOD)))


@pytest.fixture
def good(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return of(monkeypatch, tmp_path, World(image(GOOD)))


def test_an_image_is_made_as_wanted_and_gets_its_passport(
    stale: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(yes=True) is ExitCode.OK
    assert stale.did == [
        "stage", "apply", f'rm -f "${{GDR_ROOT:-}}"{SIGNATURE}', "passport ''", "commit",
    ]  # fmt: skip
    told = capsys.readouterr()
    before, after = told.out.split("\nafter\n")
    assert before.startswith("before\n")
    assert "change " in before
    assert f"golden:{KERNEL}" in before
    assert "ready" in after
    assert "2 paths of /srv/golden changed" in told.err
    folder = Path(told.err.split("kept in ")[1].splitlines()[0])
    assert (folder / "changed.txt").read_text() == "added /etc/x\ncontent /etc/y\n"
    assert list(folder.glob("*after*"))


@pytest.mark.parametrize("how", [{"check": True}, {"dry": True}])
def test_a_look_changes_nothing_and_says_that_something_would(
    stale: World, how: dict[str, bool], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(**how) is ExitCode.PENDING
    assert stale.did == []
    assert "change " in capsys.readouterr().out


def test_an_image_that_is_as_wanted_gets_its_passport_once(
    good: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() is ExitCode.OK  # nobody is asked: nothing of it is replaced but the passport
    assert good.did[0] == "stage"
    assert good.did[-2:] == ["passport ''", "commit"]
    good.did.clear()
    assert run() is ExitCode.OK
    assert good.did == []
    told = capsys.readouterr()
    assert "changed" not in told.err.rpartition("kept in")[2]
    assert told.out.count("after\n") == 2
    assert run(passport_sign="/k") is ExitCode.OK
    assert good.did == [
        "try /k", "stage", f'rm -f "${{GDR_ROOT:-}}"{SIGNATURE}',
        "passport 'signed by /k\\n'", "commit",
    ]  # fmt: skip
    good.did.clear()
    assert run(passport_sign="/k") is ExitCode.OK
    assert good.did == ["try /k"]


def test_nobody_to_ask_keeps_an_image_as_it_is(
    stale: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() is ExitCode.USAGE
    assert "apply" not in stale.did
    assert "nobody to ask" in capsys.readouterr().err


def test_a_step_that_fails_puts_nothing_in_place(stale: World) -> None:
    stale.broken = True
    assert run(yes=True) is ExitCode.STOPPED
    assert stale.did == ["stage", "apply"]


def test_a_plan_that_mends_nothing_is_carried_out_once_and_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = of(monkeypatch, tmp_path, World(image(NOT_BUILT)))
    assert run(yes=True) is ExitCode.FAILED
    assert world.did.count("apply") == 1 <= ROUNDS
    assert world.did[-1] == "commit"


@pytest.mark.parametrize(
    ("words", "medium", "out"),
    [
        pytest.param({"disk": "/srv/golden"}, Medium.DISK, "", id="disk"),
        pytest.param({"tar": "/srv/golden", "out": "new.tar"}, Medium.TAR, "new.tar", id="tar"),
        pytest.param({"root": "/srv/golden"}, Medium.ROOT, "", id="root"),
    ],
)
def test_every_medium_is_worked_on_aside_and_opened_once(
    stale: World, words: dict[str, str | bool], medium: Medium, out: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert run(**{"yes": True, **words}) is ExitCode.OK  # type: ignore[arg-type] # as the rows have them
    assert stale.sources == [ImageSource(medium, Path("/srv/golden"), Path(out) if out else None)]
    assert f"2 paths of {out or '/srv/golden'} changed" in capsys.readouterr().err


def test_a_tar_is_made_anew_where_nothing_is_to_be_done_for_that_was_asked_for(
    good: World, tmp_path: Path
) -> None:
    good.passport = BORN.json()
    assert run(tar="/srv/golden", out=f"{tmp_path}/new.tar") is ExitCode.OK
    assert good.did == ["stage", "commit"]


def test_runs_in_it_are_taken_back_and_its_passport_goes(
    good: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(undo="last", yes=True, json=True) is ExitCode.OK
    assert good.did == ["stage", "rollback last", f"rm -f {PLACE} {SIGNATURE}", "commit"]
    told = capsys.readouterr()
    [host] = json.loads(told.out)["hosts"]
    assert (host["name"], host["steps"]) == ("golden:", ["restore /etc/last: done"])
    assert "2 paths of /srv/golden changed" in told.err
    assert run(undo="none", yes=True) is ExitCode.OK
    assert capsys.readouterr().out == "nothing to take back\n"
    assert run(undo="last") is ExitCode.USAGE
    assert "take back run" not in capsys.readouterr().out


def test_machines_are_told_of_before_and_after_and_of_the_plan(
    stale: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(yes=True, json=True) is ExitCode.OK
    [host] = json.loads(capsys.readouterr().out)["hosts"]
    assert host["name"] == f"golden:{KERNEL}"
    assert host["state"] == "ready"
    assert host["before"]
    assert host["plan"]["changes"]
    assert host["steps"] == ["place /etc/x: done"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"check": True, "boot": True}, "--boot proves what was made"),
        ({"dry": True, "boot": True}, "--boot proves what was made"),
        ({"check": True, "undo": "last"}, "--undo takes back"),
        ({"dry": True, "undo": "last"}, "--undo takes back"),
        ({"kernels": "5.0"}, "kernel 5.0 is not in it"),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_is_done(
    good: World, words: dict[str, str | bool], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(**words) is ExitCode.USAGE  # type: ignore[arg-type] # as the rows have them
    assert why in capsys.readouterr().err
    assert good.did == []


@pytest.mark.parametrize("code", [ExitCode.OK, ExitCode.UNREACHABLE])
def test_the_result_is_started_once_where_that_was_asked_for(
    stale: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: ExitCode
) -> None:
    def boot(_: object, path: Path) -> ExitCode:
        stale.did.append(f"boot {path}")
        return code

    monkeypatch.setattr(imaging, "boot_image", boot)
    monkeypatch.setattr(imaging, "early", lambda _: stale.did.append("early"))
    assert run(yes=True, boot=True) is code
    assert (stale.did[0], stale.did[-1]) == ("early", "boot /srv/golden")
    stale.did.clear()
    run(yes=True, boot=True, tar="/srv/golden", out=f"{tmp_path}/new.tar")
    assert stale.did[-1] == f"boot {tmp_path}/new.tar"


def test_a_boot_that_cannot_be_is_said_before_the_image_is_looked_at(
    stale: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def early(_: object) -> None:
        raise UsageError("no QEMU")

    monkeypatch.setattr(imaging, "early", early)
    assert run(yes=True, boot=True) is ExitCode.USAGE
    assert stale.did == []


def test_kernels_are_told_oldest_first_and_not_as_words(good: World) -> None:
    good.named = ("6.1.0-10", "6.1.0-9", "5.10")
    assert Image(Path("golden")).kernels() == ("5.10", "6.1.0-9", "6.1.0-10")


def test_the_newest_that_can_be_booted_is_the_default_not_one_with_headers_alone(
    good: World, tmp_path: Path
) -> None:
    newer = "6.1.0-49-amd64"
    headers = kernel_block(newer).replace("image\n", "")
    good.named = (KERNEL, newer)
    good.found = image({"kernels": kernel_block(KERNEL) + headers, "boot-entries": ""})
    there = {each.release: bool(each.image) for each in Node(good.found).kernels}
    assert there == {KERNEL: True, newer: False}
    folder = RunFolder(tmp_path, "image", datetime(2026, 1, 1, tzinfo=UTC))
    asked = flow.ImageRequest(Want(), TODAY, folder, Silent())
    assert flow.chosen_kernels(Image(Path("golden")), "default", asked) == (KERNEL,)


def test_a_passport_without_a_signature_is_what_is_meant_where_none_was_named(good: World) -> None:
    good.passport = BORN.json()
    assert flow.has_passport(Image(Path("golden")), BORN)
    flow.give_passport(good, BORN)
    assert good.did[-1] == "passport ''"
