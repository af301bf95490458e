"""Kernels that are installed nowhere: their headers from packages, foretold, tried and built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tests.builds.grounds import kept
from tests.builds.layers import stack
from tests.builds.mirrors import NotToBeHad
from tests.builds.sandbox import Sandbox
from tests.invoked import gdr
from toolkit.built.plan.model import Part
from toolkit.compat.reader import shipped
from toolkit.compat.rows import build_numbers
from toolkit.errors import UsageError
from toolkit.features.builds.io.headers import Headers, unpack_headers
from toolkit.features.builds.plan.outcome import Need
from toolkit.features.builds.plan.preflight import CompileAnswer, Outlook
from toolkit.features.builds.run.places import BuildPlace, open_place
from toolkit.features.builds.run.preflight import lay, preflight
from toolkit.features.builds.run.run import graphs_for
from toolkit.verbs.access import Access

pytestmark = pytest.mark.builds
LONG = True

LIMIT_S = 600.0


@pytest.fixture(scope="module")
def packages() -> Path:
    """Headers of an older kernel of the suite, which no tree has: plain, real-time, and kbuild."""
    return kept("headers-trixie", _fetch)


def _fetch(folder: Path) -> None:
    with Sandbox.of("trixie") as box:
        get = "apt-get -q -o APT::Sandbox::User="
        box.shell(f"cd /root && {get} update")
        listed = box.run("apt-cache", "search", "--names-only", "^linux-headers-6.*-amd64$").out
        there = set(box.kernels)
        releases = re.findall(r"^linux-headers-(6\S+\+deb13-amd64) ", listed, re.M)
        if not (found := sorted(set(releases) - there)):
            raise NotToBeHad(f"no headers but those of {', '.join(there)} in the suite")
        version = found[0].removesuffix("-amd64")
        names = [
            *(f"linux-headers-{version}-{kind}" for kind in ("amd64", "rt-amd64")),
            *(f"linux-headers-{version}-{kind}" for kind in ("common", "common-rt")),
            f"linux-kbuild-{version}",
        ]
        box.shell(f"cd /root && {get} download {' '.join(names)}")
        for each in box.path("root").glob("*.deb"):
            shutil.copy(each, folder)


def chosen(packages: Path, *words: str) -> list[str]:
    found = [str(each) for each in sorted(packages.iterdir()) for w in words if w in each.name]
    assert len(found) >= len(words), words
    return found


def plain(packages: Path) -> list[str]:
    found = chosen(packages, "-amd64_", "-common_", "linux-kbuild")
    return [each for each in found if "-rt-" not in each]


@pytest.fixture
def box() -> Iterator[Sandbox]:
    """A builder with stubs of OFED and the driver, and the vendor's nvidia-peermem beside."""
    with stack("trixie") as made:
        yield made


def place_of(root: Path) -> BuildPlace:
    with open_place(Access(), root=str(root)) as place:
        return place


@pytest.fixture(scope="module")
def headers(packages: Path) -> Iterator[Headers]:
    """Of two kernels, unpacked once: the plain one first."""
    with unpack_headers([str(each) for each in packages.iterdir()]) as found:
        assert [each.endswith("-rt-amd64") for each in found.releases] == [False, True]
        yield found


def foretold(
    box: Sandbox, headers: Headers, *, kernel: int = 0, compile_it: bool = False
) -> dict[Part, Outlook]:
    laid = lay(place_of(box.root), headers)
    need = Need((headers.releases[kernel],) if headers.releases else ())
    surveyed = graphs_for(laid.place, [need], (), "")
    found = preflight(laid, surveyed, shipped(), compile_it=compile_it, limit_s=LIMIT_S)
    return {each.part: each for each in found.outlooks}


def tree_of(box: Sandbox) -> str:
    """Hash of every path and content outside of scratch folders."""
    names = box.run("find", "/usr", "/etc", "/lib", "/var/lib", "/boot", "-xdev", "-ls").out
    return sha256(names.encode()).hexdigest()


def test_a_kernel_that_is_not_installed_is_foretold_and_then_really_compiled_for(
    box: Sandbox, headers: Headers
) -> None:
    before = tree_of(box)
    found = foretold(box, headers, compile_it=True)
    assert found[Part.PEERMEM].answer is CompileAnswer.WILL, found[Part.PEERMEM].reasons
    assert found[Part.PEERMEM].tried
    assert "compiled on this machine" in found[Part.PEERMEM].reasons[0].source
    # The point release 6.12.97 changed what this driver calls.
    fails = build_numbers(headers.releases[0]) >= (6, 12, 97)
    expected = CompileAnswer.WILL_NOT if fails else CompileAnswer.WILL
    assert found[Part.DRIVER].answer is expected
    assert tree_of(box) == before
    assert not list(box.path("var/tmp").iterdir())


def test_a_real_time_kernel_is_refused_by_name(box: Sandbox, headers: Headers) -> None:
    found = foretold(box, headers, kernel=1)
    assert found[Part.DRIVER].answer is CompileAnswer.WILL_NOT
    assert "real-time kernel" in found[Part.DRIVER].reasons[0].found


def test_an_old_driver_and_a_new_kernel_are_not_called_a_match(
    box: Sandbox, headers: Headers
) -> None:
    """A driver of which nobody has told with that kernel, and whose peermem is too old."""
    folder = box.path("usr/src/nvidia-current-open-535.261.03")
    older = shutil.copytree(folder, folder.with_name("nvidia-current-open-515.105.01"))
    shutil.rmtree(folder)
    conf = older / "dkms.conf"
    conf.write_text(conf.read_text().replace("535.261.03", "515.105.01"))
    found = foretold(box, headers)
    assert found[Part.PEERMEM].answer is CompileAnswer.UNKNOWN
    assert any("Linux-OpenIB" in each.found for each in found[Part.PEERMEM].reasons)


def test_headers_without_their_other_half_ask_for_it(box: Sandbox, packages: Path) -> None:
    [given] = [each for each in plain(packages) if "linux-headers-" in each and "-amd64_6" in each]
    with unpack_headers([given]) as half:
        [outlook] = foretold(box, half).values()
    assert outlook.answer is CompileAnswer.WILL_NOT
    assert "not whole" in outlook.reasons[0].found
    assert "linux-kbuild" in outlook.reasons[0].hint


def test_an_older_compiler_than_the_kernels_is_told(headers: Headers) -> None:
    with stack("bookworm") as old:  # gcc 12, for headers that gcc 14 built
        found = foretold(old, headers)
    said = " ".join(each.found for each in found[Part.PEERMEM].reasons)
    assert found[Part.PEERMEM].answer is CompileAnswer.WILL_NOT
    assert "gcc 12 is here, and gcc 14 built the kernel" in said


def verb(box: Sandbox, folder: Path, *words: str) -> tuple[int, str]:
    """A process of ``build``: its exit status and what it printed."""
    own = {**os.environ, "XDG_STATE_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
    called = ("build", "--root", str(box.root), *words)
    done = gdr(*called, state=folder, timeout_s=LIMIT_S, around=own)
    return done.returncode, done.stdout + done.stderr


def test_the_verb_foretells_and_builds_for_a_kernel_that_is_nowhere_installed(
    box: Sandbox, packages: Path, tmp_path: Path
) -> None:
    before = tree_of(box)
    given = [word for each in plain(packages) for word in ("--headers", each)]
    status, said = verb(box, tmp_path, *given, "--check")
    assert status == 2, said  # of a driver's name the table knows the real one; here is a stub
    assert "nvidia-peermem/535.261.03: will compile" in said
    out = tmp_path / "out"
    status, said = verb(box, tmp_path, *given, "--package", "deb", "--out", str(out))
    assert status == 0, said
    assert "3 of 3 are there: 3 built" in said
    names = sorted(each.name.partition("_")[0] for each in out.iterdir())
    assert re.fullmatch(r"gdr-modules-6\.\S+-amd64", names[0])
    assert names[1:] == ["gdr-modules-common"]
    assert tree_of(box) == before


@pytest.mark.packagers
def test_an_rpm_of_headers_is_read_as_well(tmp_path: Path) -> None:
    """Made here, in the shape of kernel-devel: usr/src/kernels/RELEASE, and no link to it."""
    release = "5.14.0-427.13.1.el9_4.x86_64"
    spec = tmp_path / "devel.spec"
    spec.write_text(
        "Name: kernel-devel\nVersion: 6\nRelease: 1\nSummary: x\nLicense: GPL\n"
        "AutoReqProv: no\n%global __os_install_post %{nil}\n%global debug_package %{nil}\n"
        f"%description\nx\n%install\nat=%{{buildroot}}/usr/src/kernels/{release}\n"
        "mkdir -p $at/include/generated; touch $at/Makefile\n"
        "echo CONFIG_MODVERSIONS=y >$at/.config\n"
        f"echo '#define UTS_RELEASE \"{release}\"' >$at/include/generated/utsrelease.h\n"
        "%files\n/usr/src/kernels\n"
    )
    defines = ["--define", f"_topdir {tmp_path}/top", "--define", f"_rpmdir {tmp_path}/rpms"]
    subprocess.run(["rpmbuild", "-bb", "--quiet", *defines, str(spec)], check=True)
    [made] = (tmp_path / "rpms").rglob("*.rpm")
    with unpack_headers([str(made)]) as found:
        assert found.releases == (release,)
        link = Path(found.layer) / f"usr/lib/modules/{release}/build"
        assert str(link.readlink()) == f"/usr/src/kernels/{release}"
        text = Path(found.layer) / f"usr/src/kernels/{release}/.config"
        assert text.read_text() == "CONFIG_MODVERSIONS=y\n"


@pytest.mark.parametrize("spoiled", ["text", "cut"])
def test_what_is_no_package_is_refused_in_one_sentence(
    spoiled: str, packages: Path, tmp_path: Path
) -> None:
    file = tmp_path / "headers.deb"
    whole = Path(plain(packages)[0]).read_bytes()
    file.write_bytes(b"no package" if spoiled == "text" else whole[: len(whole) // 2])
    words = "neither a deb" if spoiled == "text" else "cannot be unpacked"
    with pytest.raises(UsageError, match=words), unpack_headers([str(file)]):
        pass
