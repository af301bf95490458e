"""What goes into packages, under which names, and what is refused before anything is made."""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import subprocess
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.evidence.modules import ko, signed
from toolkit.built.plan.model import Built, BuiltFile, Inputs, Part
from toolkit.errors import UsageError
from toolkit.features.builds.io import package_tools as tarball
from toolkit.features.builds.io.package_tools import PackingError
from toolkit.features.builds.plan import deb, rpm
from toolkit.features.builds.plan.packages import (
    Format,
    Making,
    contents,
    manifest,
    notes,
    payload,
    rivals,
)
from toolkit.features.builds.run.packages import make_packages, parse_format, parse_making

KERNEL = "6.1.0-56-amd64"
MAGIC = f"{KERNEL} SMP preempt mod_unload modversions "
MAKING = Making(maintainer="GPU team <gpu@site.example>")


def module(name: str, *, depends: str = "", licence: str = "Dual BSD/GPL", **info: str) -> bytes:
    told = {"name": name, "license": licence, "depends": depends, "vermagic": MAGIC, **info}
    return ko(told, {"module_layout": 1, "printk": 2})


def built(
    part: Part = Part.PEERMEM,
    package: str = "nvidia-peermem",
    version: str = "535.261.03",
    kernel: str = KERNEL,
    **files: bytes,
) -> Built:
    inputs = Inputs(part, package, version, kernel, "x86_64", "s", "h", "gcc", "v", "", "r")
    found = files or {"nvidia_peermem": module("nvidia_peermem", depends="nvidia,ib_uverbs")}
    names = {key.replace("_", "-") + ".ko": data for key, data in found.items()}
    return Built(inputs, tuple(BuiltFile(name, data) for name, data in sorted(names.items())))


DRIVER = built(Part.DRIVER, "nvidia-current-open", nvidia_current_open=module("nvidia"))
GDRDRV = built(Part.GDRDRV, "gdrdrv", "2.4", gdrdrv=module("gdrdrv"))
OFED = built(Part.OFED, "mlnx-ofed-kernel", "24.10.0.7.0", ib_uverbs=module("ib_uverbs"))


def test_a_version_tells_driver_and_ofed_and_which_modules_they_are() -> None:
    held = contents([built(), DRIVER, OFED])
    assert deb.version(held, MAKING) == f"535.261.03+ofed24.10.0.7.0-1+g{held.digest}"
    assert rpm.version(held, MAKING) == f"535.261.03+ofed24.10.0.7.0-1.g{held.digest}"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        pytest.param(("535.261.03", "", 1), ("535.309.01", "", 1), id="point-release"),
        pytest.param(("595.71.05", "", 9), ("610.43.02", "", 1), id="branch"),
        pytest.param(("535.261.03", "", 1), ("535.261.03", "24.10.0", 1), id="ofed-beside"),
        pytest.param(("535.261.03", "24.10.0", 7), ("535.261.03", "25.04.0", 1), id="ofed-newer"),
        pytest.param(("535.261.03", "24.10.0", 9), ("535.261.03", "24.10.0", 10), id="revision"),
    ],
)
def test_versions_sort_as_dpkg_sorts_them(
    older: tuple[str, str, int], newer: tuple[str, str, int]
) -> None:
    if shutil.which("dpkg") is None:
        pytest.skip("needs dpkg")

    def version(driver: str, ofed: str, revision: int) -> str:
        parts = [built(version=driver)]
        if ofed:
            parts.append(built(Part.OFED, "mlnx-ofed-kernel", ofed, ib_core=module("ib_core")))
        return deb.version(contents(parts), replace(MAKING, revision=revision))

    words = ["dpkg", "--compare-versions", version(*older), "lt", version(*newer)]
    assert subprocess.run(words, check=False).returncode == 0


@pytest.mark.parametrize(
    ("revision", "epoch", "fits"),
    [(0, 1, False), (1, 1, True), (99999, 2**32 - 1, True), (100000, 1, False),
     (1, 0, False), (1, 2**32, False)],
)  # fmt: skip
def test_a_revision_and_a_time_are_those_that_a_package_can_have(
    revision: int, epoch: int, fits: bool
) -> None:
    if fits:
        assert Making(revision, epoch=epoch).day.year >= 1970
        return
    with pytest.raises(UsageError, match=f"revision {revision}, time {epoch}: no package can have"):
        Making(revision, epoch=epoch)


def test_ofed_alone_has_its_own_version() -> None:
    assert contents([OFED]).upstream == "24.10.0.7.0"


def test_a_module_that_does_not_name_itself_is_called_by_its_file() -> None:
    told = {"license": "GPL", "vermagic": MAGIC}
    (found,) = contents([built(nvidia_peermem=ko(told, {"module_layout": 1}))]).modules
    assert (found.own_name, found.name) == ("nvidia_peermem", "nvidia-peermem.ko")


def test_of_modules_that_two_builds_have_the_first_by_name_is_told() -> None:
    one = built(nvidia_peermem=module("nvidia_peermem"), gdrdrv=module("gdrdrv"))
    with pytest.raises(UsageError, match="two builds have the module gdrdrv"):
        contents([one, replace(one, inputs=GDRDRV.inputs)])


@pytest.mark.parametrize("kernel", ["6.1.0-a:b", "6.1.0-a..b"])
def test_a_kernel_whose_name_would_leave_its_folder_is_refused(kernel: str) -> None:
    with pytest.raises(UsageError, match=r"is no kernel release|cannot stand in a package's name"):
        contents([built(kernel=kernel)])


def test_nvidia_fs_is_no_module_of_the_drivers_family() -> None:
    held = contents([built(Part.NVIDIA_FS, "nvidia-fs", "2.13", nvidia_fs=module("nvidia_fs"))])
    assert rivals(held) == ("nvidia-fs", "nvidia_fs")


def test_a_machine_that_neither_format_has_a_word_for_is_refused() -> None:
    for of, word in ((deb, "no Debian architecture"), (rpm, "no architecture of rpm")):
        with pytest.raises(UsageError, match=f"{word} is known for 'riscv64'"):
            of.arch("riscv64")
    assert (deb.arch("aarch64"), rpm.arch("aarch64")) == ("arm64", "aarch64")


def test_a_spec_names_each_licence_once_and_in_order() -> None:
    one, two, none = (
        module(n, licence=lic) for n, lic in (("a", "GPL v2"), ("b", "GPL v2 "), ("c", ""))
    )
    held = contents([built(Part.GDRDRV, "gdrdrv", "2.4", a=one, b=two, c=none)])
    text = rpm.spec(held, MAKING, (), {"pre": "true 100%\n", "post": "#!/bin/sh\nfalse\n"})
    assert "\nLicense: GPL v2 and unknown\n" in text
    assert "%pre -p /bin/sh\ntrue 100%%\n" in text
    assert "%post -p /bin/sh\nfalse\n" in text


@pytest.mark.parametrize(
    ("package", "provides"),
    [("nvidia-current-open", "nvidia-open-kernel-535.261.03"),
     ("nvidia-current", "nvidia-kernel-535.261.03"), ("nvidia", "")],
)  # fmt: skip
def test_a_deb_provides_what_debians_driver_packages_ask_for(package: str, provides: str) -> None:
    held = contents([built(Part.DRIVER, package, nvidia=module("nvidia"))])
    (control,) = [e for e in deb.tree(held, MAKING, (), {}) if e.path == "DEBIAN/control"]
    assert (f"\nProvides: {provides}\n" in control.data.decode()) is bool(provides)
    assert ("\nProvides:" in control.data.decode()) is bool(provides)


def test_the_digest_follows_the_bytes_and_the_builds() -> None:
    one = contents([built()])
    assert contents([built()]).digest == one.digest
    again = signed_built()
    assert contents([again]).digest != one.digest
    other = built()
    other = replace(other, inputs=replace(other.inputs, symvers="other"))
    assert contents([other]).digest != one.digest


def signed_built() -> Built:
    data = module("nvidia_peermem") + signed("site key")
    return built(nvidia_peermem=data)


def test_debians_file_names_become_the_modules_own_and_stay_known_as_aliases() -> None:
    held = contents([built(), DRIVER])
    placed = {each.path: each.data for each in payload(held)}
    assert f"{held.folder}/nvidia.ko" in placed
    assert f"{held.folder}/nvidia-peermem.ko" in placed
    aliases = placed[f"usr/lib/modprobe.d/gdr-modules-{KERNEL}.conf"].decode()
    assert "alias nvidia-current-open nvidia\n" in aliases
    assert "peermem" not in aliases
    assert (
        f"override nvidia-peermem {KERNEL} updates/gdr-toolkit\n"
        in placed[f"usr/lib/depmod.d/gdr-modules-{KERNEL}.conf"].decode()
    )


def test_without_renamed_files_there_are_no_aliases() -> None:
    assert not [each for each in payload(contents([built()])) if "modprobe.d" in each.path]


def test_a_rival_is_known_under_every_packagers_name() -> None:
    found = rivals(contents([built(), OFED]))
    assert {"nvidia-peermem", "nvidia_peermem", "nvidia-current-open-peermem"} < set(found)
    assert {"ib_uverbs", "ib-uverbs"} < set(found)
    assert "nvidia" not in found  # the driver is not in this package: others may bring it
    assert not any("fs" in each for each in found)


def test_what_it_rests_on_is_told_where_it_does_not_bring_it() -> None:
    assert contents([built()]).needs == ("ib_uverbs", "nvidia")
    assert contents([built(), DRIVER, OFED]).needs == ()
    assert "rests on modules that it does not bring: ib_uverbs, nvidia" in notes(
        contents([built()])
    )


def test_what_ofed_has_left_empty_is_told_before_it_takes_the_kernels_place() -> None:
    irdma = module("irdma", description="irdma dummy kernel module")
    told = notes(contents([built(Part.OFED, "mlnx-ofed-kernel", irdma=irdma)]))
    assert "empty, and in the place of the kernel's own by OFED: irdma.ko" in told
    assert not [each for each in notes(contents([OFED])) if each.startswith("empty")]


def test_nvidias_own_licence_is_flagged_wherever_somebody_could_look() -> None:
    closed = built(Part.DRIVER, "nvidia-current", nvidia=module("nvidia", licence="NVIDIA"))
    held = contents([closed])
    assert "not to be redistributed: nvidia.ko" in notes(held)[0]
    assert json.loads(manifest(held, "1"))["redistributable"] is False
    tree = {each.path: each.data.decode("latin-1") for each in deb.tree(held, MAKING, (), {})}
    assert "not to be redistributed" in tree["DEBIAN/control"]
    assert "Section: non-free/kernel" in tree["DEBIAN/control"]
    assert "not to be redistributed" in rpm.spec(held, MAKING, (), {})
    scripts = dict.fromkeys(tarball.TAR_SCRIPTS, "")
    with tarfile.open(fileobj=io.BytesIO(tarball.tar_bytes(held, MAKING, (), scripts))) as tar:
        assert any(each.endswith("/NOT-TO-BE-REDISTRIBUTED") for each in tar.getnames())
    open_one = contents([DRIVER])
    assert not [each for each in notes(open_one) if "redistributed" in each]
    assert json.loads(manifest(open_one, "1"))["redistributable"] is True


def test_a_signed_module_goes_in_as_it_is_and_is_not_called_unsigned() -> None:
    held = contents([signed_built()])
    assert held.modules[0].data.endswith(b"~Module signature appended~\n")
    assert not [each for each in notes(held) if each.startswith("unsigned")]
    assert json.loads(manifest(held, "1"))["modules"][0]["signed"] is True


@pytest.mark.parametrize(
    ("builts", "words"),
    [
        pytest.param([], "no modules", id="nothing"),
        pytest.param([built(), built(kernel="6.12.1-amd64")], "one kernel", id="two-kernels"),
        pytest.param([built(), replace(DRIVER, inputs=replace(DRIVER.inputs, version="550.1"))],
                     "one version", id="two-drivers"),
        pytest.param([built(version="1; rm -rf /")], "package's version", id="hostile-version"),
        pytest.param([built(version="535\nDepends: x")], "package's version", id="second-line"),
        pytest.param([built(kernel="../../etc")], "no kernel release", id="hostile-kernel"),
        pytest.param([built(kernel="6.1.0..amd64")], "cannot stand in", id="dots"),
        pytest.param([replace(DRIVER, files=(BuiltFile("../../x.ko", module("x")),))],
                     "no name of a module", id="hostile-file"),
        pytest.param([built(nvidia_peermem=b"\x7fELF, and")], "no kernel module", id="damaged"),
        pytest.param([built(nvidia_peermem=ko({"vermagic": "6.1.0-1 SMP "}, {"printk": 1}))],
                     "was built for 6.1.0-1", id="another-kernels"),
        pytest.param([built(nvidia_peermem=module("nvidia_peermem", depends="-x;id"))],
                     "as none can be named", id="hostile-depends"),
        pytest.param([built(), replace(built(), inputs=DRIVER.inputs)],
                     "two builds have the module", id="peermem-twice"),
    ],
)  # fmt: skip
def test_what_cannot_be_one_package_is_refused(builts: list[Built], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        contents(builts)


@pytest.mark.parametrize(
    "maintainer",
    ["nobody", "X <x@y>\nDepends: z", "%{lua: x} <x@y.z>", "`id` <x@y.z>", "J\udcfcrgen <x@y.z>"],
)
def test_a_maintainer_cannot_break_out_of_his_line(maintainer: str) -> None:
    with pytest.raises(UsageError, match="cannot be a package's maintainer"):
        Making(maintainer=maintainer)


def test_what_the_operator_says_wrongly_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no package format 'exe'"):
        parse_format("exe")
    with pytest.raises(UsageError, match="--revision is a whole number"):
        parse_making(revision="two")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH is a whole number"):
        parse_making()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert parse_making().epoch == 1700000000


@pytest.mark.parametrize("field", ["version", "author", "license"])
def test_a_modules_own_words_cannot_break_out_of_their_line(field: str) -> None:
    info = {"licence" if field == "license" else field: "1.0\nPre-Depends: evil\x1b[2J"}
    odd = module("gdrdrv", **info)
    held = contents([built(Part.GDRDRV, "gdrdrv", "2.4", gdrdrv=odd)])
    texts = [
        each.data for each in deb.tree(held, MAKING, payload(held), {}) if "gz" not in each.path
    ]
    texts = [text for text in texts if not text.startswith(b"\x7fELF")]
    texts.append(rpm.spec(held, MAKING, payload(held), {}).encode())
    assert any(b"evil" in text for text in texts)
    for text in texts:
        assert not re.search(rb"^Pre-Depends", text, re.MULTILINE)
        assert b"\x1b" not in text


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (KERNEL, "gdr-modules-6.1.0-56-amd64"),
        ("5.14.0-427.13.1.el9_4.x86_64", "gdr-modules-5.14.0-427.13.1.el9-4.x86-64"),
        ("6.8.0-1013-NVIDIA-64k", "gdr-modules-6.8.0-1013-nvidia-64k"),
    ],
)
def test_a_debs_name_is_one_that_policy_allows(kernel: str, name: str) -> None:
    assert deb.name(kernel) == name
    assert re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name)


def test_an_rpm_asks_for_the_exact_kernel_where_rpm_can_say_it() -> None:
    el = "5.14.0-427.13.1.el9_4.x86_64"
    told = ko({"vermagic": f"{el} SMP ", "name": "gdrdrv", "license": "MIT"}, {"printk": 1})
    held = contents([built(Part.GDRDRV, "gdrdrv", "2.5", kernel=el, gdrdrv=told)])
    assert f"Requires: kernel-uname-r = {el}\n" in rpm.spec(held, MAKING, (), {})
    assert "kernel-uname-r" not in rpm.spec(contents([built()]), MAKING, (), {})


def test_a_percent_sign_of_a_script_is_no_macro_of_rpms() -> None:
    text = rpm.spec(contents([built()]), MAKING, (), {"post": "#!/bin/sh\necho ${x%/} %{nil}\n"})
    assert "echo ${x%%/} %%{nil}" in text


def test_only_ofed_makes_an_initramfs_anew() -> None:
    """The driver's modules are in none; HCA drivers are."""
    assert contents([OFED, built()]).carried_early
    assert not contents([DRIVER, built()]).carried_early


def test_a_tarball_has_the_hash_of_everything_in_it_and_the_same_bytes_always(
    tmp_path: Path,
) -> None:
    [first] = make_packages([built(), DRIVER], Format.TAR, tmp_path, MAKING)
    data = first.path.read_bytes()
    [again] = make_packages([DRIVER, built()], Format.TAR, tmp_path / "again", MAKING)
    assert again.path.read_bytes() == data
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
        member = tar.extractfile(
            f"{tarball.tar_name(contents([built(), DRIVER]), MAKING)}/SHA256SUMS"
        )
        assert member is not None
        rows = [line.split("  ") for line in member.read().decode().splitlines()]
        folder = tarball.tar_name(contents([built(), DRIVER]), MAKING)
        listed = tar.extractfile(f"{folder}/list")
        assert listed is not None
        lines = [line.split(" ") for line in listed.read().decode().splitlines()]
        held = {path: told for told, path in lines}
        hashes = {}
        for entry in tar.getmembers():
            inner = tar.extractfile(entry)
            assert inner is not None
            hashes[entry.name.partition("/")[2]] = sha256(inner.read()).hexdigest()
            mode = 0o755 if entry.name.endswith(".sh") else 0o644
            assert (entry.mode, entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime) == (
                mode, 0, 0, "root", "root", MAKING.epoch,
            )  # fmt: skip
    assert {path: told for told, path in rows} == {
        path: told for path, told in hashes.items() if path != "SHA256SUMS"
    }
    assert [path for _, path in rows] == sorted(names - {"SHA256SUMS"})
    assert {f"files/{path}": told for path, told in held.items()} == {
        path: told for path, told in hashes.items() if path.startswith("files/")
    }
    assert names - {f"files/{path}" for path in held} == {
        "SHA256SUMS", "list", "manifest.json", "install.sh", "uninstall.sh",
    }  # fmt: skip


def test_a_tarball_is_named_by_kernel_version_and_machine() -> None:
    held = contents([built(), DRIVER, OFED])
    making = replace(MAKING, revision=7)
    version = f"535.261.03+ofed24.10.0.7.0-7+g{held.digest}"
    assert deb.version(held, making) == version
    assert tarball.tar_name(held, making) == f"gdr-modules-{KERNEL}_{version}_x86_64"


def test_a_folder_that_cannot_be_written_to_is_one_sentence(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(PackingError, match=r"packages cannot be written to .*/file") as told:
        make_packages([built()], Format.TAR, blocker / "out", MAKING)
    assert "--out" in told.value.hint
