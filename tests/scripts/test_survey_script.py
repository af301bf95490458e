"""The survey of a ground, and the hashes that it shares with builds, under each shell."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.scripts.engine import SHELLS
from tests.scripts.shells import parts, say
from toolkit.errors import NoEvidence
from toolkit.evidence import Evidence
from toolkit.facts.modules.build_env import Ground, parse_ground
from toolkit.features.builds.io.sandbox import survey_script

pytestmark = pytest.mark.shell

KERNEL = "6.1.0-56-amd64"


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return SHELLS[request.param]


# --- hashes ------------------------------------------------------------------------------


def digest(shell: tuple[str, ...], folder: Path) -> str:
    script = f"root=\n{parts('hashes.sh')}\ntree_digest {shlex.quote(str(folder))}\n"
    done = say(shell, script)
    assert re.fullmatch(r"[0-9a-f]{64}\n", done.stdout), done
    return done.stdout


def grow(folder: Path) -> Path:
    (folder / "sub").mkdir(parents=True)
    (folder / "a.c").write_text("int a;\n")
    (folder / "sub/b c.sh").write_text("#!/bin/sh\n")
    (folder / "sub/b c.sh").chmod(0o755)
    (folder / "link").symlink_to("a.c")
    return folder


def _relink(folder: Path) -> None:
    (folder / "link").unlink()
    (folder / "link").symlink_to("sub")


def test_a_tree_has_one_hash_wherever_and_whenever_it_lies(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    one, two = grow(tmp_path / "one"), grow(tmp_path / "two")
    os.utime(two / "a.c", (1, 1))
    assert digest(shell, one) == digest(shell, two) == digest(SHELLS["dash"], two)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda at: (at / "a.c").write_text("int b;\n"), id="a-byte"),
        pytest.param(lambda at: (at / "a.c").chmod(0o755), id="a-mode"),
        pytest.param(lambda at: (at / "a.c").rename(at / "c.c"), id="a-name"),
        pytest.param(_relink, id="a-link"),
        pytest.param(lambda at: (at / "new").touch(), id="an-empty-file"),
    ],
)
def test_each_change_of_a_tree_shows(
    shell: tuple[str, ...], tmp_path: Path, change: Callable[[Path], object]
) -> None:
    folder = grow(tmp_path / "tree")
    before = digest(shell, folder)
    change(folder)
    assert digest(shell, folder) != before


@pytest.mark.parametrize(
    ("variables", "config", "named"),
    [
        pytest.param("", 'CONFIG_CC_VERSION_TEXT="x86_64-linux-gnu-gcc-14 (Debian 14.2) 14.2"',
                     "x86_64-linux-gnu-gcc-14", id="config"),
        pytest.param("CC = $(if $(X)) $(CROSS_COMPILE)gcc-12",
                     'CONFIG_CC_VERSION_TEXT="x86_64-linux-gnu-gcc-12 (Debian) 12.2.0"',
                     "gcc-12", id="debian"),
        pytest.param("", 'CONFIG_CC_VERSION_TEXT="Ubuntu clang version 18.1.3"', "clang",
                     id="clang"),
        pytest.param("", "", "", id="none"),
    ],
)  # fmt: skip
def test_the_compiler_that_the_headers_ask_for(
    shell: tuple[str, ...], tmp_path: Path, variables: str, config: str, named: str
) -> None:
    build = tmp_path / f"lib/modules/{KERNEL}/build"
    build.mkdir(parents=True)
    (build / ".kernelvariables").write_text(f"{variables}\n")
    (build / ".config").write_text(f"{config}\n")
    script = f"root={shlex.quote(str(tmp_path))}\n{parts('hashes.sh')}\ncompiler_named {KERNEL}\n"
    assert say(shell, script).stdout.strip() == named


# --- the survey --------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with one kernel, a package of a driver, OFED's symbols; and commands of its own."""
    files = {
        "etc/os-release": 'ID=debian\nPRETTY_NAME="Debian"\n',
        f"lib/modules/{KERNEL}/build/Makefile": "all:\n",
        f"lib/modules/{KERNEL}/build/.config": "CONFIG_MODVERSIONS=y\nCONFIG_NUMA=y\n",
        f"lib/modules/{KERNEL}/build/Module.symvers":
            "0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
            "0x00000001\tkfree\tvmlinux\tEXPORT_SYMBOL\t\n",
        f"lib/modules/{KERNEL}/build/include/config/auto.conf": "CONFIG_SMP=y\n",
        f"lib/modules/{KERNEL}/build/include/generated/utsrelease.h": f'"{KERNEL}"\n',
        f"lib/modules/{KERNEL}/build/scripts/mod/modpost": "x",
        f"usr/src/ofa_kernel/x86_64/{KERNEL}/Module.symvers":
            "0xf6d59ac1\tib_register_peer_memory_client\tdrivers/ib_uverbs\tEXPORT_SYMBOL\t\n",
        "usr/src/nvidia-1.2/dkms.conf":
            'PACKAGE_NAME="nvidia"\nPACKAGE_VERSION="1.2"\nBUILT_MODULE_NAME[0]="nvidia"\n',
        "usr/src/nvidia-1.2/nvidia/nv.c": 'MODULE_LICENSE("NVIDIA");\n',
        "usr/src/nvidia-1.2/nvidia-peermem/nvidia-peermem.c": 'MODULE_LICENSE("Dual BSD/GPL");\n',
        "bin/gcc": "#!/bin/sh\necho 'gcc (Debian) 12.2.0'\necho more\n",
        "bin/dkms": "#!/bin/sh\necho dkms-3.0.10\n",
        "bin/uname": "#!/bin/sh\necho x86_64\n",
    }  # fmt: skip
    for path, text in files.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o755)
    (tmp_path / "var/tmp").mkdir(parents=True)
    return tmp_path


def surveyed(shell: tuple[str, ...], tree: Path, *kernels: str) -> Ground:
    done = say(shell, survey_script(kernels), GDR_ROOT=str(tree), GDR_BIN=str(tree / "bin"))
    assert done.stderr == ""
    return parse_ground(Evidence.parse(done.stdout))


def test_a_tree_is_surveyed_by_each_shell_alike(shell: tuple[str, ...], tree: Path) -> None:
    ground = surveyed(shell, tree)
    other = surveyed(SHELLS["dash"], tree)
    assert replace(ground, room_mb=0) == replace(other, room_mb=0)  # others write to the disk
    [kernel] = ground.kernels
    assert (kernel.release, kernel.missing) == (KERNEL, ())
    assert kernel.compiler == "gcc (Debian) 12.2.0"
    assert dict(kernel.config) == {"CONFIG_MODVERSIONS": "y"}
    assert set(kernel.symvers) == {"module_layout"}
    [source] = ground.sources
    assert (source.name, source.version, source.licence) == ("nvidia", "1.2", "NVIDIA")
    assert source.peermem
    assert ground.ofed.search(KERNEL, "x86_64").kbuild_symbol
    assert ground.dkms == "3.0.10"


@pytest.mark.parametrize(
    ("folder", "below"),
    [
        pytest.param("nvidia-580.142", "", id="as-ubuntu-lays-it"),
        pytest.param("nvidia-580.142", "kernel-open/", id="as-the-vendors-installer-does"),
    ],
)
def test_sources_of_the_driver_that_are_no_dkms_package_are_seen(
    shell: tuple[str, ...], tree: Path, folder: str, below: str
) -> None:
    at = tree / f"usr/src/{folder}/{below}"
    for path, text in (
        ("Kbuild", 'ccflags-y += -DNV_VERSION_STRING=\\"580.142\\"\n'),
        ("nvidia/nv.c", 'MODULE_LICENSE("Dual MIT/GPL");\n'),
        ("nvidia-peermem/nvidia-peermem.c", 'MODULE_LICENSE("Dual BSD/GPL");\n'),
    ):
        (at / path).parent.mkdir(parents=True, exist_ok=True)
        (at / path).write_text(text)
    ground = surveyed(shell, tree)
    assert ground == replace(surveyed(SHELLS["dash"], tree), room_mb=ground.room_mb)
    [package, bare] = ground.sources
    assert (package.name, package.version, package.builds) == ("nvidia", "1.2", ("nvidia",))
    assert (bare.folder, bare.name, bare.version, bare.builds) == (folder, "nvidia", "580.142", ())
    assert (bare.peermem, bare.licence) == (True, "Dual MIT/GPL")


FRAMEWORK = "etc/dkms/framework.conf.d/site.conf"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("etc/dkms/nvidia.conf", "MAKE[0]=odd\n", id="a-fragment"),
        pytest.param("etc/dkms/nvidia-1.2.conf", "A=1\n", id="a-fragment-by-another-name"),
        pytest.param("etc/dkms/nvidia/patches/a.patch", "--- a\n", id="a-patch"),
        pytest.param(FRAMEWORK, "build_environment=/etc/env.sh # ours\n", id="the-environment"),
        pytest.param("etc/build.env", "export CC=odd\n", id="what-the-environment-says"),
        pytest.param(f"lib/modules/{KERNEL}/build/scripts/mod/modpost", "y", id="modpost"),
        pytest.param(f"lib/modules/{KERNEL}/build/tools/objtool/objtool", "x", id="objtool"),
    ],
)
def test_what_changes_a_build_changes_its_hashes(
    shell: tuple[str, ...], tree: Path, path: str, text: str
) -> None:
    def hashes() -> tuple[str, str]:
        ground = surveyed(shell, tree)
        return ground.sources[0].digest, ground.kernels[0].headers

    for at, said in (
        ("etc/dkms/nvidia-1.1.conf", "A=1\n"),
        ("etc/build.env", "export CC=gcc\n"),
        (FRAMEWORK, "build_environment='/etc/build.env'\n"),
    ):
        (tree / at).parent.mkdir(parents=True, exist_ok=True)
        (tree / at).write_text(said)
    before = hashes()
    if path == "etc/dkms/nvidia-1.2.conf":
        (tree / "etc/dkms/nvidia-1.1.conf").unlink()  # the same words, for another version
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text(text)
    assert hashes() != before
    assert hashes() == hashes()


def test_a_kernel_without_headers_is_there_with_all_that_it_lacks(
    shell: tuple[str, ...], tree: Path
) -> None:
    ground = surveyed(shell, tree, "6.99.0")
    [kernel] = ground.kernels
    assert (kernel.headers, len(kernel.missing)) == ("", 4)
    assert ground.releases == (KERNEL,)


def test_a_survey_changes_nothing(shell: tuple[str, ...], tree: Path) -> None:
    before = digest(shell, tree)
    surveyed(shell, tree)
    assert digest(shell, tree) == before


def test_a_survey_that_was_cut_on_its_way_reads_nothing(tree: Path) -> None:
    script = survey_script()
    for cut in range(0, len(script) - 1, 997):
        done = say(SHELLS["dash"], script[:cut], GDR_ROOT=str(tree), GDR_BIN=str(tree / "bin"))
        with pytest.raises(NoEvidence):
            parse_ground(Evidence.parse(done.stdout))
