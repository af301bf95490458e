"""--boot: what comes up is judged by the suite, what does not is told, and the image is proven."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from toolkit.cli.options import Said
from toolkit.errors import ApplyError, ExitCode, TransportError, UsageError
from toolkit.features.image import cli_boot as cli
from toolkit.features.image import run_boot as flow
from toolkit.features.image.boot import throwaway
from toolkit.features.image.boot.qemu import Accelerator, QemuMachine
from toolkit.features.image.cli_boot import boot_image, early
from toolkit.features.image.run_boot import Booted, BootProof, boot
from toolkit.progress import Progress, Silent
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.suites import run as suites
from toolkit.verbs.access import Access
from toolkit.verbs.cli.session import Session

SLOW, QUICK = Accelerator("tcg", "a test"), Accelerator("kvm", "")


@dataclass
class World:
    """A boot that comes up or not, and the suite that is run there."""

    trouble: TransportError | None = None
    after: str = "aa"  # the digest behind it
    accelerator: Accelerator = SLOW
    did: list[object] = field(default_factory=list)
    code: ExitCode = ExitCode.OK

    @contextmanager
    def boot(self, image: Path, **how: object) -> Iterator[Booted]:
        how.pop("progress")
        self.did.append((str(image), how))
        if self.trouble is not None:
            raise self.trouble
        yield Booted(Access(hosts="image"), self.accelerator, 9.0, "running", (), direct=False)
        self.did.append("ended")

    @contextmanager
    def unchanged(self, _: Path, __: Progress) -> Iterator[list[BootProof]]:
        proofs: list[BootProof] = []
        try:
            yield proofs
        finally:
            proofs.append(BootProof("aa", self.after))

    def suite(self, access: Access, want: object, **how: object) -> SimpleNamespace:
        print("the suite's own words")
        self.did.append((access.hosts, os.environ["GDR_PATIENCE"], how))
        return SimpleNamespace(code=self.code, junit="<suite/>")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    made = World()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("GDR_PATIENCE", raising=False)
    monkeypatch.setattr(cli, "boot", made.boot)
    monkeypatch.setattr(cli, "unchanged", made.unchanged)
    monkeypatch.setattr(suites, "run_suite", made.suite)
    return made


def run(**values: str | bool | int) -> ExitCode:
    said = Said({"profile": "auto", **values})
    return boot_image(Session.begin("image", said), Path("/srv/golden"))


def test_the_suite_judges_what_came_up_and_the_image_is_proven(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.code = ExitCode.FAILED
    xml = str(tmp_path / "x.xml")
    assert run(boot_timeout="77", boot_memory="999", junit=xml, verbose=True) is ExitCode.FAILED
    assert Path(xml).read_text() == "<suite/>"
    how: dict[str, object] = {"verbose": True}
    assert world.did == [
        ("/srv/golden", {"limit_s": 77.0, "memory_mb": 999}),
        ("image", str(SLOW.factor), how),
        "ended",
    ]
    told = capsys.readouterr().out
    assert told.startswith("booted by ")
    assert told.endswith("unchanged by its boot: /srv/golden sha256 aa\n")
    assert "GDR_PATIENCE" not in os.environ


def test_what_was_not_said_is_as_the_options_have_it(world: World) -> None:
    run()
    assert world.did[0] == ("/srv/golden", {"limit_s": 0.0, "memory_mb": 2048})
    assert world.did[1] == ("image", str(SLOW.factor), {"verbose": False})


@pytest.mark.parametrize(("before", "counts"), [("99", "99.0"), ("1", str(SLOW.factor))])
def test_the_longer_patience_counts_and_the_operators_own_comes_back(
    world: World, monkeypatch: pytest.MonkeyPatch, before: str, counts: str
) -> None:
    monkeypatch.setenv("GDR_PATIENCE", before)
    run()
    heard = world.did[1]
    assert isinstance(heard, tuple)
    assert float(heard[1]) == float(counts)
    assert os.environ["GDR_PATIENCE"] == before


def test_where_a_document_is_to_come_standard_output_is_its_alone(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    run(json=True)
    told = capsys.readouterr()
    assert told.out == ""
    assert "the suite's own words" in told.err
    run()
    assert "the suite's own words" in capsys.readouterr().out


def test_what_does_not_come_up_is_an_error_in_the_report_and_the_image_is_proven_all_the_same(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.trouble = TransportError("it did not come up")
    with pytest.raises(TransportError):
        run(junit=str(tmp_path / "x.xml"))
    assert "unchanged by its boot" in capsys.readouterr().out
    [case] = ElementTree.parse(tmp_path / "x.xml").iter("testcase")
    assert case.find("error") is not None


def test_an_image_that_was_changed_meanwhile_is_no_success(world: World) -> None:
    world.after = "bb"
    with pytest.raises(ApplyError, match="changed while it was booted: sha256 aa, now bb"):
        run()


@pytest.mark.parametrize("words", [{"boot_timeout": "-1"}, {"boot_memory": "12"}])
def test_numbers_that_make_no_sense_are_refused_early(words: dict[str, str | bool | int]) -> None:
    with pytest.raises(UsageError, match="is none"):
        early(Said(words))


class Running:
    """A machine that is up."""

    def __init__(self, machine: QemuMachine, name: str) -> None:
        self.machine, self.name = machine, name
        MACHINES.append(machine)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None: ...

    def wait_for_login(self, until_s: float, progress: object) -> float:
        WAITED.append(until_s)
        return 12.0

    def trouble(self, why: str, hint: str) -> TransportError:
        return TransportError(f"{self.name}: {why}", hint=hint)


MACHINES: list[QemuMachine] = []
WAITED: list[float] = []


class Guest:
    """A way into it that answers so often."""

    answers = 2

    def __init__(self, host: object, *, config: object) -> None:
        self.left = self.answers
        assert config is not None

    def run(self, script: str, *, limit_s: float = 0, sink: Sink = quiet) -> Result:
        if not self.left:
            raise TransportError("no answer")
        self.left -= 1
        WAITED.append(limit_s)
        return Result(0, "" if script == ":" else "degraded\nfailed a.service\n", "")

    def close(self) -> None:
        WAITED.append(-1)


@pytest.fixture
def up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    MACHINES.clear()
    WAITED.clear()
    monkeypatch.setattr(Guest, "answers", 2)
    monkeypatch.setattr(flow, "refuse_early", lambda *_: None)
    monkeypatch.setattr(flow, "accelerator", lambda: SLOW)
    monkeypatch.setattr(flow, "Emulated", Running)
    monkeypatch.setattr(flow, "SshTransport", Guest)
    monkeypatch.setattr(flow, "boots_by_bios", lambda *_: True)
    monkeypatch.setattr(throwaway, "refuse_little_room", lambda *_: None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "disk").write_bytes(b"\0" * 4096)
    return tmp_path / "disk"


@pytest.mark.parametrize(("said", "until"), [(0.0, flow.LIMIT_S * SLOW.factor), (7.0, 7.0)])
def test_what_came_up_is_told_with_how_long_it_was_waited_for(
    up: Path, said: float, until: float
) -> None:
    with boot(up, limit_s=said, memory_mb=999, name="golden") as booted:
        assert booted.seconds == 12.0
        assert booted.state == "degraded"
        assert booted.accelerator is SLOW
        assert (booted.access.hosts, booted.access.yes) == ("golden", True)
        assert booted.access.ssh_config
        assert not booted.direct
    [machine] = MACHINES
    assert (machine.memory_mb, machine.accelerator, machine.format) == (999, "tcg", "raw")
    assert 1 <= machine.cpus <= 2
    assert WAITED[0] == until
    assert WAITED[-1] == -1
    assert WAITED[2] > WAITED[1]


@pytest.mark.parametrize(("answers", "told"), [(0, "no way in after"), (1, "it hangs after")])
def test_a_guest_that_does_not_answer_is_told_by_how_far_it_came(
    up: Path, monkeypatch: pytest.MonkeyPatch, answers: int, told: str
) -> None:
    monkeypatch.setattr(Guest, "answers", answers)
    with pytest.raises(TransportError, match=f"image: {told} 0 s: no answer") as error, boot(up):
        pytest.fail("it came up")
    assert ("one-time key" in error.value.hint) is (answers == 0)
    assert WAITED[-1] == -1


def test_a_disk_that_no_bios_boots_gets_firmware(up: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    firmware = object()
    monkeypatch.setattr(flow, "boots_by_bios", lambda *_: False)
    monkeypatch.setattr(flow, "find_uefi", lambda _: firmware)
    with boot(up):
        assert MACHINES[0].uefi is firmware


@pytest.mark.parametrize("tar", [False, True])
def test_a_root_boots_its_newest_kernel_from_a_copy(
    up: Path, monkeypatch: pytest.MonkeyPatch, tar: bool
) -> None:
    made: list[object] = []
    monkeypatch.setattr(flow, "is_tar", lambda _: tar)
    monkeypatch.setattr(throwaway, "unpack", lambda *told: made.append(("unpack", *told)))
    monkeypatch.setattr(throwaway, "kernels", lambda _: ["6.1.0-9", "6.1.0-10"])
    monkeypatch.setattr(throwaway, "throw_away_disk", lambda *told: made.append(("disk", *told)))
    monkeypatch.setattr(throwaway, "direct", lambda *told: f"direct {told[1]}")
    image = up if tar else up.parent
    with boot(image) as booted:
        [machine] = MACHINES
        assert str(machine.direct) == "direct 6.1.0-10"
        assert machine.disk == machine.folder / "disk"
        assert booted.direct
    root = machine.folder / "root" if tar else image
    assert made[-1] == ("disk", root, machine.folder / "disk")
    assert made[:-1] == ([("unpack", image, root)] if tar else [])


def test_a_root_without_a_kernel_is_refused(up: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throwaway, "kernels", lambda _: [])
    with pytest.raises(UsageError, match="no kernel with an initramfs"), boot(up.parent):
        pytest.fail("it came up")


def test_nobody_need_listen(up: Path) -> None:
    with boot(up, progress=Silent()) as booted:
        assert isinstance(booted.access.progress, Silent)
