"""The gate and the build aside, under each shell, with stand-ins for kmod and DKMS.

What the real ones make of them is in tests/builds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.scripts.engine import SHELLS
from toolkit.plan.templates import TEMPLATES

pytestmark = pytest.mark.shell

KERNEL = "6.8.0-45-generic"
MAGIC = f"{KERNEL} SMP preempt mod_unload modversions "
REGISTER, PAGES = "ib_register_peer_memory_client", "nvidia_p2p_get_pages"
GOOD = f"0x11111111\t{REGISTER}\n0x22222222\t{PAGES}"
PARTS = ("gate.sh", "aside.sh", "swap.sh")

# A "module" here is an ELF header and lines KEY=VALUE; crc= is an import, export= an export.
MODINFO = """#!/bin/sh
[ "$1" != -k ] || shift 2
case $1 in
    -n) [ -e "$MODULES/$2.ko" ] && echo "$MODULES/$2.ko" ;;
    -F) file=$3; [ -e "$file" ] || file=$MODULES/$3.ko; sed -n "s/^$2=//p" "$file" ;;
esac
"""
MODPROBE = """#!/bin/sh
case $1 in
    --dump-modversions) sed -n 's/^crc=//p' "$2" ;;
    --show-exports) sed -n 's/^export=//p' "$2" ;;
    -S) cd "$MODULES" && grep -l "	${4#symbol:}$" *.ko 2>/dev/null | sed 's/.ko$//' ;;
esac
"""
DKMS = """#!/bin/sh
printf '%s\\n' "$*" "sign_file=${sign_file:-}" "KVERSION=${KVERSION:-}" >>"$HOME/said"
while [ $# -gt 0 ]; do
    case $1 in
        --dkmstree) tree=$2 ;; -a) arch=$2 ;;
        -m) name=$2 ;; -v) version=$2 ;; -k) kernel=$2 ;;
    esac
    shift
done
at=$tree/$name/$version
mkdir -p "$at/build" && echo 'cc: Killed' >"$at/build/make.log"
[ -z "$FAILS" ] || exit "$FAILS"
mkdir -p "$at/$kernel/$arch/module" "$at/$kernel/$arch/log"
mv "$at/build/make.log" "$at/$kernel/$arch/log/make.log"
cp "$HOME/built.ko" "$at/$kernel/$arch/module/$name.ko"
[ ! -e "$HOME/symvers" ] || cp "$HOME/symvers" "$at/$kernel/$arch/module/Module.symvers"
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with stand-ins on its PATH, and the functions to call."""

    root: Path
    shell: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)

    def command(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def module(self, path: str, **values: str) -> Path:
        """A stand-in for a module; ``crc`` and ``export`` take several lines."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        machine = b"\x3e\x00" if os.uname().machine == "x86_64" else b"\xb7\x00"
        lines = [f"{key}={row}" for key, rows in values.items() for row in rows.split("\n") if row]
        header = b"\x7fELF" + b"\x02" * 14 + machine
        target.write_bytes(header + ("\n" + "\n".join(lines) + "\n").encode())
        return target

    def call(self, *words: str | Path, **env: str) -> tuple[int, str]:
        """Status and what was said."""
        done = subprocess.run(
            [*self.shell, str(self.root / "functions.sh"), *map(str, words)],
            env={
                "PATH": f"{self.root}/bin:{os.environ['PATH']}",
                "HOME": str(self.root),
                "MODULES": str(self.root / "modules"),
                "FAILS": "",
                **env,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def peermem(self, **other: str) -> Path:
        values = {
            "vermagic": MAGIC,
            "depends": "nvidia,ib_uverbs",
            "license": "Dual BSD/GPL",
            "version": "580.1",
            "crc": GOOD,
        }
        return self.module("nvidia-peermem.ko", **(values | other))


@pytest.fixture(params=sorted(SHELLS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """With the driver and OFED installed."""
    made = Place(tmp_path, SHELLS[request.param])
    (tmp_path / "bin").mkdir()
    for name, text in (("modinfo", MODINFO), ("modprobe", MODPROBE), ("dkms", DKMS)):
        made.command(name, text)
    text = "\n".join((TEMPLATES / "dkms" / each).read_text() for each in PARTS)
    lines = f'set -u\n{text}\naside_live=$HOME/live\n"$@"\n'
    (tmp_path / "functions.sh").write_text(lines)
    made.module("modules/nvidia.ko", name="nvidia", version="580.1", export=f"0x22222222\t{PAGES}")
    made.module("modules/ib_uverbs.ko", name="ib_uverbs", export=f"0x11111111\t{REGISTER}")
    return made


def test_a_good_module_passes(place: Place) -> None:
    assert place.call("gate", KERNEL, place.peermem()) == (0, "")


OTHER_OFED, OTHER_P2P = GOOD.replace("0x1111", "0x3333"), GOOD.replace("0x2222", "0x3333")
OTHER_KERNEL = MAGIC.replace("45", "51")
NO_IMPORTS, HALF = "0x1\tprintk", f"0x11111111\t{REGISTER}"


@pytest.mark.parametrize(
    ("other", "word", "said"),
    [
        pytest.param({"crc": NO_IMPORTS}, "stub", "nothing from the RDMA core", id="stub"),
        pytest.param({"crc": HALF}, "stub", "nothing from the driver", id="half"),
        pytest.param({"vermagic": OTHER_KERNEL}, "other-kernel", "6.8.0-51-generic", id="kernel"),
        pytest.param({"vermagic": ""}, "damaged", "cannot be read as a module", id="damaged"),
        pytest.param({"crc": OTHER_OFED}, "crc", "exports as 0x11111111", id="other-ofed"),
        pytest.param({"crc": OTHER_P2P}, "crc", "against another nvidia", id="driver-crc"),
        pytest.param({"version": "570.9"}, "other-driver", "of driver 570.9", id="other-driver"),
        pytest.param({"depends": "ib_uverbs"}, "no-depends", "on nvidia", id="modpost-warn"),
        pytest.param({"depends": "nvidia"}, "no-depends", "on ib_uverbs", id="no-core"),
        pytest.param({"crc": ""}, "unknown", "cannot be read", id="no-versions"),
    ],
)
def test_what_would_not_work_is_refused_with_its_cause(
    place: Place, other: dict[str, str], word: str, said: str
) -> None:
    status, text = place.call("gate", KERNEL, place.peermem(**other))
    assert status == 1
    assert text.startswith(f"gate: nvidia-peermem.ko: {word}: ")
    assert said in text
    assert text.count("\n") == 1


def test_a_module_of_another_machine_is_refused(place: Place) -> None:
    path = place.peermem()
    path.write_bytes(path.read_bytes().replace(path.read_bytes()[18:20], b"\x15\x00", 1))
    status, text = place.call("gate", KERNEL, path)
    assert status == 1
    assert ": other-arch: " in text


def test_what_nothing_exports_is_said(place: Place) -> None:
    (place.root / "modules/ib_uverbs.ko").unlink()
    status, text = place.call("gate", KERNEL, place.peermem())
    assert (status, ": no-provider: nothing exports ib_register" in text) == (1, True)


def test_leading_zeroes_and_letters_do_not_make_another_checksum(place: Place) -> None:
    place.module("modules/nvidia.ko", name="nvidia", version="580.1", export=f"0x00ab12cd\t{PAGES}")
    crc = GOOD.replace("0x22222222", "0xAB12CD")
    assert place.call("gate", KERNEL, place.peermem(crc=crc)) == (0, "")


def test_symbols_that_were_linked_count_before_and_after_those_installed(place: Place) -> None:
    other = GOOD.replace("0x11111111", "0x44444444")
    symvers = place.root / "symvers"
    symvers.write_text(f"0x44444444\t{REGISTER}\tdrivers/core/ib_uverbs\tEXPORT_SYMBOL\t\n")
    path = place.peermem(crc=other)
    assert place.call("gate", KERNEL, path, GATE_SYMVERS=str(symvers)) == (0, "")
    assert place.call("gate", KERNEL, path, GATE_LINKED=str(symvers))[0] == 1
    (place.root / "modules/ib_uverbs.ko").unlink()
    assert place.call("gate", KERNEL, path, GATE_LINKED=str(symvers)) == (0, "")


def test_each_refused_file_has_its_line(place: Place) -> None:
    stub = place.module("stub/nvidia-peermem.ko", vermagic=MAGIC, depends="", crc="0x1\tprintk")
    status, text = place.call("gate", KERNEL, stub, place.peermem(), "none/gdrdrv.ko")
    assert status == 1
    assert [line.split(": ")[1:3] for line in text.splitlines()] == [
        ["nvidia-peermem.ko", "stub"],
        ["gdrdrv.ko", "missing"],
    ]


def _source(place: Place) -> None:
    conf = place.root / "live/nvidia-peermem/580.1/source/dkms.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text("")


def test_a_build_aside_leaves_result_and_log_and_nothing_else(place: Place) -> None:
    _source(place)
    shutil.copy(place.peermem(), place.root / "built.ko")
    live = place.root / "live/ofed"
    arch = os.uname().machine
    (live / f"24.10/{KERNEL}/{arch}/module").mkdir(parents=True)
    (live / f"kernel-{KERNEL}-{arch}").symlink_to(f"24.10/{KERNEL}/{arch}")
    before = sorted(place.root.joinpath("live").rglob("*"))
    scratch = place.root / "scratch"
    status, text = place.call("aside", scratch, KERNEL, "nvidia-peermem", "580.1")
    assert (status, text) == (0, "")
    assert (scratch / "result/nvidia-peermem.ko").read_bytes() == (
        place.root / "built.ko"
    ).read_bytes()
    assert (scratch / "result/Module.symvers").exists()
    assert (scratch / "make.log").read_text() == "cc: Killed\n"
    # What it waits for is there in the scratch tree too, as DKMS looks for it.
    link = scratch / f"dkms/ofed/kernel-{KERNEL}-{arch}"
    assert link.resolve() == (scratch / f"dkms/ofed/24.10/{KERNEL}/{arch}").resolve()
    assert (link / "module").is_dir()
    assert sorted(place.root.joinpath("live").rglob("*")) == before
    said = (place.root / "said").read_text()
    assert (
        f"--dkmstree {scratch}/dkms --sourcetree {scratch}/src --installtree {scratch}/modules"
        in said
    )
    assert "--force" not in said
    assert f"\nKVERSION={KERNEL}\n" in said  # OFED's scripts would ask which kernel runs


def test_a_build_vouches_for_what_it_exports_itself_and_for_nothing_else(place: Place) -> None:
    """Kernels before 5.8 note in Module.symvers what a module was linked against too."""
    _source(place)
    shutil.copy(place.peermem(name="nvidia_peermem"), place.root / "built.ko")
    linked = f"0x22222222\t{PAGES}\tnvidia\tEXPORT_SYMBOL\n"
    own = "0x33333333\tpeermem_own\t/build/kernel-open/nvidia-peermem\tEXPORT_SYMBOL\n"
    (place.root / "symvers").write_text(linked + own)
    scratch = place.root / "scratch"
    assert place.call("aside", scratch, KERNEL, "nvidia-peermem", "580.1") == (0, "")
    assert (scratch / "result/Module.symvers").read_text() == own
    [kept] = scratch.glob("dkms/nvidia-peermem/580.1/*/*/module/Module.symvers")
    assert kept.read_text() == linked + own


def test_a_failed_build_aside_has_its_status_and_its_log(place: Place) -> None:
    _source(place)
    scratch = place.root / "scratch"
    assert place.call("aside", scratch, KERNEL, "nvidia-peermem", "580.1", FAILS="10")[0] == 10
    assert (scratch / "make.log").read_text() == "cc: Killed\n"
    assert not (scratch / "result").exists()


def test_what_dkms_calls_a_success_and_is_none(place: Place) -> None:
    _source(place)
    (place.root / "built.ko").write_text("cut off by a full disk")
    status, text = place.call("aside", place.root / "s", KERNEL, "nvidia-peermem", "580.1")
    assert status == 7
    assert "nvidia-peermem.ko is no whole module" in text


def test_the_builder_gets_modules_that_are_not_signed(place: Place) -> None:
    _source(place)
    shutil.copy(place.peermem(), place.root / "built.ko")
    words = ("aside", place.root / "s", KERNEL, "nvidia-peermem", "580.1")
    place.call(*words, ASIDE_PLAIN="1", ASIDE_FLAGS="-j 2")
    said = (place.root / "said").read_text()
    assert "sign_file=/dev/null" in said
    assert " -j 2 " in said


def test_a_package_without_a_source_is_said(place: Place) -> None:
    status, text = place.call("aside", place.root / "s", KERNEL, "nvidia-peermem", "580.1")
    assert status == 2
    assert "no source of nvidia-peermem/580.1" in text
