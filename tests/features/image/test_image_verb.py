"""What ``image`` is asked for, and which kernels that means."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.evidence.build import KERNEL, kernel_block
from tests.evidence.healthy_boot import grub
from tests.unit.imaging import image
from tests.unit.judged import TODAY
from toolkit.cli.options import Said
from toolkit.errors import ExitCode, UsageError
from toolkit.evidence import Evidence
from toolkit.features.image import cli as imaging
from toolkit.features.image.io.chroot import ChrootTransport
from toolkit.features.image.io.media import ImageSource, Medium
from toolkit.features.image.run import Image, ImageRequest, MadeImage, chosen_kernels
from toolkit.progress import Silent
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.local import LocalTransport
from toolkit.want import Want

NEWER, STRAY = "6.1.0-49-amd64", "6.9.0-gone"
NO_IMAGE = kernel_block(KERNEL).replace("image\n", "")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        pytest.param({}, "one image is meant, and none was named", id="none"),
        pytest.param({"root": "a", "disk": "b"}, "--root and --disk was named", id="two"),
        pytest.param({"root": "a", "out": "b"}, "--out goes with --tar", id="out"),
        pytest.param({"tar": "a"}, "--tar with --out", id="tar"),
        pytest.param({"root": "/"}, "that is this machine, which runs", id="this-machine"),
        pytest.param({"root": "/usr/.."}, "that is this machine, which runs", id="by-a-detour"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(said: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        imaging._source(Said(dict(said)))
    assert refused.value.hint


def test_one_image_is_one_source() -> None:
    source = imaging._source(Said({"tar": "in.tar", "out": "out.tar"}))
    assert source == ImageSource(Medium.TAR, Path("in.tar"), Path("out.tar"))


def test_an_archive_that_is_there_is_not_replaced_unasked(tmp_path: Path) -> None:
    source = ImageSource(Medium.TAR, tmp_path / "in.tar", tmp_path / "out.tar")
    imaging._ask(source, (), Said({}))
    (tmp_path / "out.tar").write_text("the old one\n")
    with pytest.raises(UsageError, match="nobody to ask") as refused:
        imaging._ask(source, (), Said({}))
    assert "--yes" in refused.value.hint
    imaging._ask(source, (), Said({"yes": True}))


@dataclass(frozen=True)
class Tree:
    """What an image tells: names of folders, and evidence."""

    named: tuple[str, ...]
    evidence: Evidence
    read: list[str] = field(default_factory=list)


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Two kernels that can be booted, and the folder of one that is gone."""
    blocks = kernel_block(KERNEL) + kernel_block(NEWER) + f"@{STRAY}\n"
    found = image({"kernels": blocks, "boot-entries": grub(kernels=(KERNEL, NEWER))})
    made = Tree((STRAY, NEWER, KERNEL), found)
    monkeypatch.setattr(ChrootTransport, "kernels", lambda _: made.named)
    monkeypatch.setattr("toolkit.features.image.run.collect", lambda _: made.evidence)
    return made


@pytest.fixture
def asked(tmp_path: Path) -> ImageRequest:
    folder = RunFolder(tmp_path, "image", datetime(2026, 1, 1, tzinfo=UTC))
    return ImageRequest(Want(), TODAY, folder, Silent())


@pytest.mark.parametrize(
    ("said", "kernels"),
    [
        pytest.param("all", (KERNEL, NEWER), id="all-that-can-be-booted"),
        pytest.param("default", (KERNEL,), id="of-the-menu-though-another-is-newer"),
        pytest.param(NEWER, (NEWER,), id="named"),
        pytest.param(f"{NEWER},{KERNEL},{NEWER}", (KERNEL, NEWER), id="named-twice"),
        pytest.param(f" {NEWER} ,, {KERNEL}", (KERNEL, NEWER), id="apart-by-blanks-too"),
    ],
)
def test_kernels(tree: Tree, asked: ImageRequest, said: str, kernels: tuple[str, ...]) -> None:
    assert chosen_kernels(Image(Path("golden")), said, asked) == kernels


def test_without_a_menu_the_newest_is_the_default(
    tree: Tree, asked: ImageRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = kernel_block(KERNEL) + kernel_block(NEWER)
    bare = image({"kernels": blocks, "boot-entries": ""})
    monkeypatch.setattr("toolkit.features.image.run.collect", lambda _: bare)
    assert chosen_kernels(Image(Path("golden")), "default", asked) == (NEWER,)


@pytest.mark.parametrize(
    ("blocks", "entries", "chosen"),
    [
        pytest.param(kernel_block(KERNEL), grub(kernels=(NEWER,)), KERNEL, id="gone-from-the-menu"),
        pytest.param(
            NO_IMAGE + NO_IMAGE.replace(KERNEL, NEWER), "", NEWER,
            id="none-can-be-booted",
        ),
        pytest.param(
            kernel_block(KERNEL) + NO_IMAGE.replace(KERNEL, NEWER), "", KERNEL,
            id="the-newest-cannot-be-booted",
        ),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("tree")
def test_the_default_is_one_that_is_there_and_can_be_booted_where_any_can(
    asked: ImageRequest, monkeypatch: pytest.MonkeyPatch, blocks: str, entries: str, chosen: str
) -> None:
    found = image({"kernels": blocks, "boot-entries": entries})
    monkeypatch.setattr("toolkit.features.image.run.collect", lambda _: found)
    assert chosen_kernels(Image(Path("golden")), "default", asked) == (chosen,)


@pytest.mark.parametrize("said", ["all", "default", "", STRAY])
def test_where_no_kernel_can_be_booted_or_built_for_none_is_chosen(
    tree: Tree, asked: ImageRequest, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    bare = image({"kernels": f"@{STRAY}\n", "boot-entries": ""})
    monkeypatch.setattr("toolkit.features.image.run.collect", lambda _: bare)
    with pytest.raises(UsageError, match="golden: its kernels cannot be booted") as refused:
        chosen_kernels(Image(Path("golden")), said, asked)
    assert refused.value.hint == f"it has {KERNEL}, {NEWER}, {STRAY}"


def test_a_root_is_read_as_it_lies_there_and_a_staged_one_where_it_is_worked_on(
    tmp_path: Path,
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    lies = Image(tmp_path / "link").reader(KERNEL)
    assert (lies.name, lies._root, lies._kernel) == (
        str(tmp_path / "link"), str(tmp_path.resolve()), KERNEL,
    )  # fmt: skip
    ground = LocalTransport("here")
    staged = Image(Path("golden"), SimpleNamespace(root=Path("/x"), ground=ground)).reader()  # type: ignore[arg-type] # a fake
    assert (staged.name, staged._root, staged._kernel) == ("golden", "/x", "-")
    assert staged._ground is ground


@pytest.mark.parametrize(
    ("after", "left", "code"),
    [
        (ExitCode.OK, None, ExitCode.OK),
        (ExitCode.OK, "a plan", ExitCode.PENDING),
        (ExitCode.FAILED, None, ExitCode.FAILED),
        (ExitCode.UNKNOWN, "a plan", ExitCode.UNKNOWN),
    ],
)
def test_an_image_ends_with_what_its_checks_say_then_with_what_is_left(
    after: ExitCode, left: str | None, code: ExitCode
) -> None:
    last: Any = SimpleNamespace(
        planned=SimpleNamespace(judged=SimpleNamespace(exit_code=after)), left=left
    )
    assert MadeImage(last, last).exit_code is code


@pytest.mark.parametrize("said", ["5.0", STRAY, f"{KERNEL},5.0"])
def test_a_kernel_that_is_not_in_it_is_refused(tree: Tree, asked: ImageRequest, said: str) -> None:
    with pytest.raises(UsageError, match="is not in it") as refused:
        chosen_kernels(Image(Path("golden")), said, asked)
    assert refused.value.hint == f"it has {KERNEL}, {NEWER}"


@pytest.mark.parametrize("said", [",", " , "])
def test_no_kernel_at_all_is_none_that_is_asked_for(
    tree: Tree, asked: ImageRequest, said: str
) -> None:
    with pytest.raises(UsageError, match="--kernels names none") as refused:
        chosen_kernels(Image(Path("golden")), said, asked)
    assert refused.value.hint.endswith(f"it has {KERNEL}, {NEWER}")


def test_an_image_without_a_kernel_is_refused(
    asked: ImageRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChrootTransport, "kernels", lambda _: ())
    with pytest.raises(UsageError, match="no kernel is in it"):
        chosen_kernels(Image(Path("golden")), "all", asked)


def test_reports_name_it_for_each_of_its_kernels() -> None:
    assert Image(Path("/srv/golden.qcow2")).of(KERNEL) == f"golden:{KERNEL}"
