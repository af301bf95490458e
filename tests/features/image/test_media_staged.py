"""An image, changed aside: what is put back, what goes, and when the old one is replaced."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.features.image.rooming import Tools, lay_tools
from toolkit.errors import ApplyError, LockedError, UsageError
from toolkit.features.image.io import media
from toolkit.features.image.io import media as hygiene
from toolkit.features.image.io.disk import Disk
from toolkit.features.image.io.index import TreeChange, look
from toolkit.features.image.io.media import POLICY, ImageSource, Medium, Staged, stage
from toolkit.features.image.io.namespace import MountRoom
from toolkit.features.image.io.tar import Tar
from toolkit.features.image.io.tree import TreeMedium
from toolkit.progress import Silent

SMALL = ("dev", "etc", "proc", "run", "sys", "tmp")


class Told(Silent):
    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def note(self, host: str, step: str) -> None:
        self.notes.append((host, step))


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    made = lay_tools(tmp_path / "tools", monkeypatch)
    made.add("view", "")
    view = tmp_path / "view.sh"
    view.write_text('view "$@"\n')
    monkeypatch.setattr(media, "_VIEW", view)
    # An ordinary user may do all of this to his own files, but for giving them away.
    monkeypatch.setattr(media, "os", SimpleNamespace(geteuid=lambda: 0))
    monkeypatch.setattr(os, "fchown", lambda *_: None)
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "image"
    for each in SMALL:
        (made / each).mkdir(parents=True)
    (made / "etc/hostname").write_text("old\n")
    (made / "etc/plain").write_text("plain\n")
    return made


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.usefixtures("tools")
def test_it_is_as_it_was_until_it_is_put_in_place(tmp_path: Path, root: Path) -> None:
    with stage(ImageSource(Medium.ROOT, root)) as on:
        on.write("/etc/new", b"text", 0o600)
        assert on.read("/etc/new") == b"text"
        assert not (root / "etc/new").exists()
        assert on.outside == Path(f"/proc/{on._room._pid}/root") / on.root.relative_to("/")
    assert names(root / "etc") == ["hostname", "plain"]
    assert names(tmp_path) == ["image", "tools", "view.sh"]


def test_what_it_became_takes_its_place(tools: Tools, tmp_path: Path, root: Path) -> None:
    told = Told()
    ended: list[str] = []
    with stage(ImageSource(Medium.ROOT, root), progress=told) as on:
        assert (on.name, on.way) == (str(root), TreeMedium(root).way)
        assert on.view.name == "view"
        assert on.view.parent == on.root.parent
        assert tools.calls("view") == [f"view view {on.root} {on.view.parent}"]
        folder = on.root.parent
        on.write("/etc/new", b"text", 0o640)
        on.write("/opt/deep/file", b"")
        on._room.still = lambda: ended.append("still")  # type: ignore[method-assign]  # a stand-in
        changed = on.commit()
        assert ended == ["still"]
        with pytest.raises(UsageError, match="put in place already"):
            on.commit()
        on.close()
    assert [(each.path, each.change) for each in changed] == [
        ("/etc/new", TreeChange.ADDED),
        ("/opt", TreeChange.ADDED),
        ("/opt/deep", TreeChange.ADDED),
        ("/opt/deep/file", TreeChange.ADDED),
    ]
    assert (root / "etc/new").read_text() == "text"
    assert stat.S_IMODE((root / "etc/new").stat().st_mode) == 0o640
    assert stat.S_IMODE((root / "opt/deep/file").stat().st_mode) == 0o644
    assert names(tmp_path) == ["image", "tools", "view.sh"]
    assert tools.calls("sync") == [f"sync -f {folder}/root"]
    assert told.notes == [
        (str(root), f"copying it aside; {TreeMedium(root).way}"),
        (str(root), "clearing away what is not the image's"),
        (str(root), "writing it to the disk"),
    ]


def test_scripts_run_in_the_view_and_the_ground_is_this_machine(tools: Tools, root: Path) -> None:
    with stage(ImageSource(Medium.ROOT, root)) as on:
        lines: list[str] = []
        assert on.run("echo in; exit 4\n", sink=lines.append).exit == 4
        assert lines == ["in"]
        [call] = tools.calls("setpriv")
        assert f" chroot {on.view} env -i " in call
        assert on.ground.name == str(root)
        assert on.ground.run("true\n").exit == 0
        assert len(tools.calls("setpriv")) == 1


@pytest.mark.parametrize("lacks", SMALL)
@pytest.mark.usefixtures("tools")
def test_what_is_no_whole_root(root: Path, lacks: str) -> None:
    for each in (root / lacks).iterdir():
        each.unlink()
    (root / lacks).rmdir()
    for _ in range(2):
        says = f"{root}: there is no folder /{lacks} in it"
        with pytest.raises(UsageError, match=says), stage(ImageSource(Medium.ROOT, root)):
            pass
        (root / lacks).write_text("a file")


@pytest.mark.usefixtures("tools")
def test_only_root_may(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "os", SimpleNamespace(geteuid=lambda: 1))
    says = "only root can work on an image"
    with pytest.raises(UsageError, match=says), stage(ImageSource(Medium.ROOT, root)):
        pass


@pytest.mark.usefixtures("tools")
def test_two_runs_do_not_meet_and_the_room_is_gone_at_the_end(root: Path) -> None:
    with stage(ImageSource(Medium.ROOT, root)) as on:
        pid = on._room._pid
        with pytest.raises(LockedError), stage(ImageSource(Medium.ROOT, root)):
            pass
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_each_medium_has_its_keeper(tmp_path: Path, root: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\0")
    assert isinstance(media._keeper(ImageSource(Medium.ROOT, root)), TreeMedium)
    assert isinstance(media._keeper(ImageSource(Medium.DISK, file)), Disk)
    kept = media._keeper(ImageSource(Medium.TAR, file, tmp_path / "out.tar"))
    assert isinstance(kept, Tar)
    assert kept.target == tmp_path / "out.tar"
    assert [str(each) for each in Medium] == ["root", "disk", "tar"]


AS_BEFORE = [
    *("/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/hostname", "/etc/hosts"),
    *("/etc/resolv.conf", "/etc/mtab", "/etc/adjtime", "/etc/hostid"),
    *("/etc/iscsi/initiatorname.iscsi", "/var/lib/systemd/random-seed"),
    *("/var/lib/systemd/credential.secret", "/var/lib/random-seed"),
    *("/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ed25519_key.pub"),
    *("/usr/sbin/policy-rc.d", "/root/.bash_history", "/var/lib/dkms/mok.key"),
    *("/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der"),
]


def lay(root: Path, path: str, text: str) -> None:
    place = root / path[1:]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


@pytest.fixture
def owned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fchown", lambda _, *owner: given.append(owner))
    return given


@contextmanager
def cleaned(root: Path) -> Iterator[None]:
    before = look(root)
    kept = hygiene.keep(root, before)
    yield
    after = hygiene.clean(root, before, kept, before)
    assert after == look(root)


@pytest.mark.parametrize("path", AS_BEFORE)
def test_what_tells_one_machine_from_others_stays_as_it_was(
    root: Path, owned: list[tuple[int, int]], path: str
) -> None:
    lay(root, path, "before")
    (root / path[1:]).chmod(0o604)
    with cleaned(root):
        lay(root, path, "by a script")
        (root / path[1:]).chmod(0o600)
    place = root / path[1:]
    assert (place.read_text(), stat.S_IMODE(place.stat().st_mode)) == ("before", 0o604)
    assert owned == [(os.getuid(), os.getgid())]
    with cleaned(root):
        place.unlink()
    assert place.read_text() == "before"
    with cleaned(root):
        place.unlink()
        place.symlink_to("/elsewhere")
    assert place.read_text() == "before"
    place.unlink()
    with cleaned(root):
        lay(root, path, "by a script")
    assert not place.exists()


@pytest.mark.usefixtures("owned")
def test_a_link_and_a_folder_stay_as_they_were(root: Path) -> None:
    (root / "etc/resolv.conf").symlink_to("../run/resolv.conf")
    (root / "etc/mtab").symlink_to("/proc/mounts")
    (root / "etc/hosts").mkdir()
    with cleaned(root):
        for name in ("resolv.conf", "mtab"):
            (root / "etc" / name).unlink()
        (root / "etc/resolv.conf").write_text("x")
        (root / "etc/mtab").mkdir()
        (root / "etc/hosts").rmdir()
        lay(root, "/etc/hosts", "x")
    assert (root / "etc/resolv.conf").readlink() == Path("../run/resolv.conf")
    assert (root / "etc/mtab").is_dir()
    assert not (root / "etc/hosts").exists()


SCRATCH = [
    "/var/lib/dkms/nvidia/550/build/make.log",
    "/var/lib/dkms/nvidia/550/6.1/x86_64/log/make.log",
    "/var/lib/gdr-toolkit/rebuild/a.log",
    "/var/lib/gdr-toolkit/runs/1/log",
]


@pytest.mark.parametrize("path", SCRATCH)
def test_scratch_goes_where_it_was_not_before(root: Path, path: str) -> None:
    with cleaned(root):
        lay(root, path, "x")
    assert not (root / path[1:]).exists()
    lay(root, path, "x")
    with cleaned(root):
        lay(root, path, "y")
    assert (root / path[1:]).read_text() == "y"


@pytest.mark.parametrize(
    "path",
    ["/var/lib/dkms/a/b/c/build", "/etc/ssh/sub/ssh_host_x", "/srv/etc/hosts", "/etc/hosts2"],
)
def test_nothing_else_is_touched(root: Path, path: str) -> None:
    with cleaned(root):
        lay(root, path, "x")
    assert (root / path[1:]).read_text() == "x"


def test_no_service_is_started_in_it(tools: Tools, root: Path) -> None:
    with stage(ImageSource(Medium.ROOT, root)) as on, pytest.raises(FileNotFoundError):
        on.read(POLICY)
    (root / "var/lib/dpkg").mkdir(parents=True)
    (root / "usr/sbin").mkdir(parents=True)
    with stage(ImageSource(Medium.ROOT, root)) as on:
        assert on.read("/usr/sbin/policy-rc.d").endswith(b"\nexit 101\n")
        place = on.outside / "usr/sbin/policy-rc.d"
        assert stat.S_IMODE(place.stat().st_mode) == 0o755
        on.write("/etc/new", b"")
        assert [each.path for each in on.differences()] == ["/etc/new"]
        assert place.exists()
        assert [each.path for each in on.commit()] == ["/etc/new"]
    assert not (root / "usr/sbin/policy-rc.d").exists()


FAILS = [
    ("look", "it could not be read"),
    ("keep", "nothing can be written in it"),
    ("forbid_services", "nothing can be written in it"),
    ("clean", "it could not be cleared up"),
    ("write_inside", "/etc/x cannot be written"),
]


@pytest.mark.parametrize(("step", "says"), FAILS)
@pytest.mark.parametrize("name", [None, "/in/it"])
@pytest.mark.usefixtures("tools")
def test_a_step_that_fails_leaves_the_image(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str, says: str, name: str | None
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error", name)

    monkeypatch.setattr(media, step, fails)

    def work(on: Staged) -> None:
        on.write("/etc/x", b"")
        on.commit()

    with pytest.raises(ApplyError) as raised, stage(ImageSource(Medium.ROOT, root)) as on:
        work(on)
    where = f": {name}" if name else ""
    assert str(raised.value) == f"{root}: {says}: Input/output error{where}"
    assert names(root / "etc") == ["hostname", "plain"]


@pytest.mark.usefixtures("tools")
def test_the_room_is_closed_before_the_two_change_places(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    close = MountRoom.close
    put = TreeMedium.put

    def closed(room: MountRoom) -> None:
        order.append("close")
        close(room)

    def placed(tree: TreeMedium, folder: Path) -> None:
        order.append("put")
        os.kill(os.getpid(), 2)  # a Ctrl-C waits until it is done
        put(tree, folder)

    monkeypatch.setattr(MountRoom, "close", closed)
    monkeypatch.setattr(TreeMedium, "put", placed)
    with stage(ImageSource(Medium.ROOT, root)) as on:
        on.write("/etc/x", b"")
        on.commit()
        assert order == ["close", "put"]
    assert (root / "etc/x").exists()
