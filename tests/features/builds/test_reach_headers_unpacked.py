"""Headers that were given: which become a layer, and which kernels it serves."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
from pathlib import Path

import pytest

from toolkit.errors import Unsupported, UsageError
from toolkit.features.builds.io import headers
from toolkit.features.builds.io.headers import unpack_headers

RELEASE = "6.1.0-56-amd64"
TOOL = """#!/bin/sh
printf '%s\\n' "$(basename "$0") $*" >>"{folder}/log"
pwd >>"{folder}/where.$(basename "$0")"
. "{folder}/does.$(basename "$0")"
"""


def build_folder(at: Path, release: str = RELEASE, *, config: bool = True) -> Path:
    (at / "include/generated").mkdir(parents=True)
    text = f'#define UTS_RELEASE "{release}"\n'
    (at / "include/generated/utsrelease.h").write_text(text)
    (at / "Makefile").touch()
    if config:
        (at / ".config").touch()
    return at


class Tools:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, text: str = "") -> None:
        (self.folder / "bin" / name).write_text(TOOL.format(folder=self.folder))
        (self.folder / "bin" / name).chmod(0o755)
        (self.folder / f"does.{name}").write_text(text)

    @property
    def log(self) -> list[str]:
        return (self.folder / "log").read_text().split("\n")[:-1]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "scratch"
    made.mkdir()
    monkeypatch.setattr(headers, "_place", lambda _: str(made))
    return made


@pytest.fixture
def tools(tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    assert place.exists()
    folder = tmp_path / "tools"
    (folder / "bin").mkdir(parents=True)

    def where(tool: str) -> str | None:
        found = folder / "bin" / tool
        return str(found) if found.exists() else None

    monkeypatch.setattr(headers, "_where", where)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    return Tools(folder)


def given(tmp_path: Path, name: str, data: bytes) -> str:
    (tmp_path / name).write_bytes(data)
    return str(tmp_path / name)


DEB, RPM = b"!<arch>\ndebian", b"\xed\xab\xee\xdb rpm"
LAY = "mkdir -p {0}/usr/src/linux-headers-{1}/include/config\n"
LAY += ": >{0}/usr/src/linux-headers-{1}/include/config/auto.conf\n"
LAY += "mkdir -p {0}/{2}/modules/{1} {0}/etc {0}/usr/share/doc\n"
LAY += "ln -s /usr/src/linux-headers-{1} {0}/{2}/modules/{1}/build\n"


@pytest.mark.parametrize("lib", ["lib", "usr/lib"])
def test_a_deb_is_a_layer(tools: Tools, tmp_path: Path, place: Path, lib: str) -> None:
    tools.add("dpkg-deb", LAY.format('"$3"', RELEASE, lib))
    deb = given(tmp_path, "h.deb", DEB)
    with unpack_headers([deb]) as found:
        layer = Path(found.layer)
        assert found.releases == (RELEASE,)
        assert found.said == ("h.deb",)
        assert tools.log == [f"dpkg-deb -x {deb} {layer.parent}/part"]
        build = layer / f"usr/lib/modules/{RELEASE}/build"
        assert build.readlink() == Path(f"/usr/src/linux-headers-{RELEASE}")
        assert not (layer / "etc").exists()
        assert not (layer / "usr/share").exists()
        assert not (layer.parent / "part").exists()
        assert layer.parent.parent == place
        assert layer.parent.name.startswith("gdr-headers-")
        for folder in (layer.parent, layer, layer / "usr"):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o755
        with (layer.parent / "lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert list(place.iterdir()) == []


def test_packages_are_laid_into_one(tools: Tools, tmp_path: Path) -> None:
    """Debian's are parted: one has the link, another what it leads to."""
    tools.add(
        "dpkg-deb",
        'case "$2" in *one.deb) mkdir -p "$3/usr/lib/modules/6.1" "$3/usr/src/a";'
        'ln -s /usr/src/b "$3/usr/lib/modules/6.1/build"; : >"$3/usr/src/a/same";;'
        '*) mkdir -p "$3/usr/src/b" "$3/usr/src/a"; : >"$3/usr/src/b/.config";'
        ' : >"$3/usr/src/a/more"; echo 2 >"$3/usr/src/a/same"; esac\n',
    )
    files = [given(tmp_path, name, DEB) for name in ("one.deb", "two.deb")]
    with unpack_headers(files) as found:
        assert found.releases == ("6.1",)
        names = sorted(each.name for each in (Path(found.layer) / "usr/src/a").iterdir())
        assert names == ["more", "same"]
        assert (Path(found.layer) / "usr/src/a/same").read_text() == ""


@pytest.mark.parametrize("cpio", [True, False])
def test_an_rpm_is_a_layer(tools: Tools, tmp_path: Path, cpio: bool) -> None:
    """Either pair of tools: the second reads what the first says, where it shall lie."""
    names = ("rpm2cpio", "cpio") if cpio else ("rpm2archive", "tar")
    rpm = given(tmp_path, "k.rpm", RPM)
    tools.add(names[0], "echo it\n" if cpio else "cat\n")
    check = 'read -r it; [ "$it" = it ] || exit 9\n' if cpio else "cat >archive\n"
    tools.add(names[1], check + LAY.format(".", RELEASE, "usr/lib") + "rm -f archive\n")
    with unpack_headers([rpm]) as found:
        assert found.releases == (RELEASE,)
        part = f"{Path(found.layer).parent}/part"
        words = {
            True: ["cpio -idm --quiet --no-absolute-filenames", f"rpm2cpio {rpm}"],
            False: ["rpm2archive -", "tar -xz"],
        }
        assert sorted(tools.log) == words[cpio]
        assert (tools.folder / f"where.{names[1]}").read_text() == f"{part}\n"


@pytest.mark.parametrize("there", [(), ("rpm2cpio",), ("cpio",)])
def test_nothing_here_unpacks_an_rpm(tools: Tools, tmp_path: Path, there: tuple[str, ...]) -> None:
    for name in there:
        tools.add(name)
    with (
        pytest.raises(Unsupported, match=r"nothing here unpacks k\.rpm"),
        unpack_headers([given(tmp_path, "k.rpm", RPM)]),
    ):
        pass


@pytest.mark.parametrize(("first", "second"), [("exit 3", "exit 0"), ("exit 0", "exit 3")])
def test_an_rpm_that_is_damaged(tools: Tools, tmp_path: Path, first: str, second: str) -> None:
    tools.add("rpm2cpio", f"echo noise >&2; {first}\n")
    tools.add("cpio", f"cat >/dev/null; echo last >&2; {second}\n")
    rpm = given(tmp_path, "k.rpm", RPM)
    with pytest.raises(UsageError) as raised, unpack_headers([rpm]):
        pass
    assert str(raised.value) == f"{rpm} cannot be unpacked: last"


def test_a_deb_without_dpkg_or_damaged(tools: Tools, tmp_path: Path) -> None:
    deb = given(tmp_path, "h.deb", DEB)
    with pytest.raises(Unsupported, match="dpkg-deb is not on this machine"), unpack_headers([deb]):
        pass
    tools.add("dpkg-deb", "printf 'first\\nlast\\n' >&2; exit 2\n")
    with pytest.raises(UsageError) as raised, unpack_headers([deb]):
        pass
    assert str(raised.value) == f"{deb} cannot be unpacked: last"


@pytest.mark.parametrize("folder", ["usr/src/linux-headers-x", "usr/src/kernels/x"])
def test_a_link_that_no_package_brought_is_made(place: Path, tmp_path: Path, folder: str) -> None:
    assert place.exists()
    build_folder(tmp_path / "tree" / folder)
    with unpack_headers([str(tmp_path / "tree")]) as found:
        build = Path(found.layer) / f"usr/lib/modules/{RELEASE}/build"
        assert build.readlink() == Path(f"/{folder}")
        assert found.releases == (RELEASE,)


@pytest.mark.usefixtures("place")
def test_a_build_folder_alone(tmp_path: Path) -> None:
    build_folder(tmp_path / "build")
    (tmp_path / "build/link").symlink_to("/nowhere")
    with unpack_headers([str(tmp_path / "build")]) as found:
        target = Path(found.layer) / f"usr/src/linux-headers-{RELEASE}"
        assert (target / "link").readlink() == Path("/nowhere")
        assert (found.releases, found.said) == ((RELEASE,), ("build",))


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("lay", "release"),
    [
        ("lib/modules/6.1/build/.config", ("6.1",)),
        ("usr/lib/modules/6.1/build/include/config/auto.conf", ()),
        ("lib/modules/6.1/build/include/config/auto.conf", ("6.1",)),
        ("lib/modules/6.1/source/.config", ()),
        ("lib/modules/6.1/build/.config/x", ()),
    ],
)
def test_kernels_whose_build_folder_is_there(
    tmp_path: Path, lay: str, release: tuple[str, ...]
) -> None:
    (tmp_path / "tree" / lay).parent.mkdir(parents=True)
    (tmp_path / "tree" / lay).touch()
    if not release:
        with (
            pytest.raises(UsageError, match=r"no (kernel )?headers"),
            unpack_headers([str(tmp_path / "tree")]),
        ):
            pass
        return
    with unpack_headers([str(tmp_path / "tree")]) as found:
        assert found.releases == release


@pytest.mark.parametrize(
    ("text", "release"),
    [
        (f'#define UTS_RELEASE "{RELEASE}"\n', RELEASE),
        ('x\n#define UTS_RELEASE "6.1~rc1+b_2"\n', "6.1~rc1+b_2"),
        ('#define UTS_RELEASE "../x"\n', ""),
        ('#define UTS_RELEASE "a/b"\n', ""),
        ("", ""),
    ],
)
def test_the_release_of_a_build_folder(tmp_path: Path, text: str, release: str) -> None:
    assert headers._release(tmp_path) == ""
    (tmp_path / "include/generated").mkdir(parents=True)
    (tmp_path / "include/generated/utsrelease.h").write_text(text)
    assert headers._release(tmp_path) == release


@pytest.mark.usefixtures("place")
def test_a_build_folder_that_does_not_say_is_no_kernels(tmp_path: Path) -> None:
    build_folder(tmp_path / "build", "/")
    with (
        pytest.raises(UsageError, match="no kernel headers in "),
        unpack_headers([str(tmp_path / "build")]),
    ):
        pass


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("lay", "says"),
    [
        ("", "there is no such file or folder"),
        ("text", "neither a deb, nor an rpm, nor a folder"),
        ("x !<arch>", "neither a deb, nor an rpm, nor a folder"),
        ("/", "no headers: neither a Makefile and .config, nor usr/src"),
    ],
)
def test_what_is_no_package_of_headers(tmp_path: Path, lay: str, says: str) -> None:
    place = tmp_path / "given"
    if lay == "/":
        (place / "usr").mkdir(parents=True)
        (place / "Makefile").touch()
    elif lay:
        place.write_text(lay)
    with pytest.raises(UsageError) as raised, unpack_headers([str(place)]):
        pass
    assert str(raised.value) == f"--headers {place}: {says}"


@pytest.mark.parametrize("root", ["/a b", "/a,b", "/a:b", "/a\\b", "/a\nb"])
def test_a_tree_that_no_layer_can_lie_above(root: str) -> None:
    with (
        pytest.raises(UsageError, match="no tree whose path holds blanks"),
        unpack_headers([], root),
    ):
        pass


def test_it_lies_where_there_is_room(tmp_path: Path) -> None:
    assert headers._place(str(tmp_path)) == "/var/tmp"
    (tmp_path / "var/tmp").mkdir(parents=True)
    assert headers._place(str(tmp_path)) == f"{tmp_path}/var/tmp"
    assert headers._place("") == "/var/tmp"


def test_what_another_run_holds_is_left(tmp_path: Path) -> None:
    for name in ("gdr-headers-held", "gdr-headers-free", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock").touch()
    (tmp_path / "gdr-headers-none").mkdir()
    (tmp_path / "gdr-headers-file").touch()
    with (tmp_path / "gdr-headers-held/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 # it is no folder of files
        headers._sweep(tmp_path)
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 # likewise
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "gdr-headers-file",
        "gdr-headers-held",
        "gdr-headers-none",
        "other",
    ]


@pytest.mark.parametrize(
    ("layer", "part", "left"),
    [({}, {"a": ""}, {"a"}), ({"a": ""}, {"b": ""}, {"a", "b"}), ({"a/x": ""}, {"a": ""}, {"a/x"})],
)
def test_what_is_there_already_stays(
    tmp_path: Path, layer: dict[str, str], part: dict[str, str], left: set[str]
) -> None:
    for name, files in (("layer", layer), ("part", part)):
        (tmp_path / name).mkdir()
        for path in files:
            (tmp_path / name / path).parent.mkdir(exist_ok=True)
            (tmp_path / name / path).touch()
    headers._move(tmp_path / "part", tmp_path / "layer")
    root = tmp_path / "layer"
    assert {str(each.relative_to(root)) for each in root.rglob("*") if each.is_file()} == left


def test_a_tool_is_looked_for_where_ordinary_users_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("shutil.which", lambda _, path: asked.append(path))
    monkeypatch.setenv("PATH", "/p")
    assert headers._where("x") is None
    assert asked == ["/p:/usr/bin:/bin"]


# --- the driver's source ------------------------------------------------------------------


def driver(at: Path, release: str = "580.142") -> Path:
    (at / "nvidia-peermem").mkdir(parents=True)
    (at / "nvidia-peermem/nvidia-peermem.c").touch()
    (at / "Kbuild").write_text(f'ccflags-y += -DNV_VERSION_STRING=\\"{release}\\"\n')
    for name in ("nv-kernel.o_binary", "dkms.conf"):
        (at / name).touch()
    return at


def laid(given: Path, release: str = "580.142") -> list[str]:
    """What of a driver's source lies below usr/src of the layer."""
    with unpack_headers([], sources=[str(given)]) as found:
        assert found.releases == ()
        [folder] = (Path(found.layer) / "usr/src").iterdir()
        assert folder.name == f"nvidia-{release}"
        return sorted(each.name for each in folder.iterdir())


def tar(folder: Path, file: Path) -> Path:
    subprocess.run(["tar", "-C", folder, "-caf", file, "."], check=True)
    return file


@pytest.mark.usefixtures("place")
def test_a_drivers_source_is_found_in_whatever_holds_it(tmp_path: Path) -> None:
    """A folder as the vendor's installer extracts it; his tarball; a package of a tarball."""
    whole = tmp_path / "NVIDIA-Linux-x86_64-580.142"
    driver(whole / "kernel-open")
    driver(whole / "kernel", "0")  # the other flavour's comes after the open one's
    assert laid(whole) == ["Kbuild", "nvidia-peermem"]
    assert laid(tar(whole, tmp_path / "given.tar.xz")) == ["Kbuild", "nvidia-peermem"]
    (tmp_path / "source-package").mkdir()
    tar(whole, tmp_path / "source-package/open-gpu-kernel-modules.tar.xz")
    assert laid(tmp_path / "source-package") == ["Kbuild", "nvidia-peermem"]


def test_a_package_of_dkms_need_not_be_installed_to_give_its_source(
    tools: Tools, tmp_path: Path
) -> None:
    made = driver(tmp_path / "made")
    at = "usr/src/nvidia-open-580.142"
    tools.add("dpkg-deb", f'mkdir -p "$3/usr/src" && cp -R "{made}" "$3/{at}"')
    assert laid(Path(given(tmp_path, "d.deb", DEB))) == ["Kbuild", "nvidia-peermem"]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("NVIDIA.run", "has to be unpacked first", id="a-program"),
        pytest.param("nowhere.tar.xz", "there is no such file", id="nothing"),
        pytest.param("text.tar.xz", "cannot be unpacked", id="no-archive"),
        pytest.param("folder", "no nvidia-peermem.c in it", id="without-it"),
    ],
)
def test_what_holds_no_source_of_the_driver_is_one_sentence(
    tmp_path: Path, name: str, words: str
) -> None:
    (tmp_path / "text.tar.xz").write_text("no archive")
    (tmp_path / "folder").mkdir()
    with (
        pytest.raises(UsageError, match=words),
        unpack_headers([], sources=[str(tmp_path / name)]),
    ):
        pass
