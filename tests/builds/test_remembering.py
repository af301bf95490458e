"""What a compiler answered before is what it would answer now; nothing else comes from there."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builds.remembering import TOLD, remembering
from tests.builds.sandbox import Sandbox
from tests.builds.sources import place_peermem, source

pytestmark = pytest.mark.builds
HEADERS = "/root/driver/conftest/headers.h"
ASKED = ("gcc-12", "-E", "-M", "-I/root/given")
BUILD = "cd /root/driver && make modules NV_KERNEL_MODULES=nvidia-peermem KERNEL_UNAME="


@pytest.fixture
def box() -> Iterator[Sandbox]:
    """With answers of its own, none yet: those of all sandboxes grow while other tests build."""
    with Sandbox.of("bookworm") as made:
        place = str(made.path(TOLD))
        subprocess.run(("mount", "-t", "tmpfs", "gdr-sandbox", place), check=True)
        yield made


def answers(box: Sandbox) -> set[str]:
    return {each.name for each in box.path(TOLD).iterdir() if each.is_file()}


def status(box: Sandbox, header: str) -> int:
    """What conftest would be told of a header."""
    words = f"cd /root && echo '#include <{header}>' | {' '.join(ASKED)} - 2>&1"
    return box.run("sh", "-c", words, check=False).status


def test_conftest_finds_the_same_headers_whoever_answers(box: Sandbox) -> None:
    kernel = box.kernel("6.1.")
    found, kept = [], []
    vendors = source("nvidia-open")
    for whole in (True, False):
        place_peermem(vendors, box.path("root/driver"))
        if whole:  # as the vendor has it, it asks for each header anew which options there are
            shutil.copy(vendors.folder / "Kbuild", box.path("root/driver"))
        box.shell(BUILD + kernel, check=False)  # without nvidia.ko nothing can be linked
        found.append(box.read(HEADERS))
        kept.append(answers(box))
        box.shell("rm -r /root/driver")
    assert "#define NV_LINUX_MUTEX_H_PRESENT" in found[0]
    assert "#undef NV_ASM_SYSTEM_H_PRESENT" in found[0]
    assert found[1] == found[0]
    assert len(kept[0]) > 100
    assert kept[1] == kept[0], "the second build had nothing to ask, and asked in the same words"


def test_it_is_asked_again_for_other_headers_and_after_another_compiler(box: Sandbox) -> None:
    assert status(box, "given.h") == 1
    assert len(answers(box)) == 1
    assert status(box, "stdio.h") == 0, "another header is another question"
    box.write("/root/given/given.h", "")
    assert status(box, "given.h") == 1, "of the same words it is not asked again"
    header = f"/usr/src/linux-headers-{box.kernel('6.1.')}/include/generated/autoconf.h"
    box.path(header).write_text(box.read(header) + "\n")
    assert status(box, "given.h") == 0
    box.write("/usr/bin/gcc-12", "#!/bin/sh\necho Killed signal >&2\nexit 1\n", 0o755)
    assert status(box, "given.h") == 1
    assert len(answers(box)) == 3, "what is no answer is not kept"


def test_an_object_is_the_one_that_the_compiler_makes_of_the_text_as_it_is(box: Sandbox) -> None:
    def made(compiler: str, options: str = "") -> bytes:
        box.shell(f"cd /root && rm -f one.o && {compiler} {options} -g -c -o one.o one.c")
        return box.path("root/one.o").read_bytes()

    box.write("/root/one.h", "#define ONE 1\n")
    box.write("/root/one.c", '#include "one.h"\nint one(void) { return ONE; }\n')
    first = made("gcc-12")
    assert made("gcc-12") == first
    assert made("/usr/bin/gcc-12") == first
    assert box.path(f"{TOLD}/objects").is_dir(), "it came by ccache"
    assert made("gcc-12", "-O2") != first
    box.write("/root/one.h", "#define ONE 2\n")
    assert made("gcc-12") == made("/usr/bin/gcc-12") != first
    box.write("/root/one.c", "#error no\n")
    assert box.run("gcc-12", "-c", "-o", "/root/one.o", "/root/one.c", check=False).status == 1
    assert answers(box) == set()


def test_nothing_is_compiled_once_a_part_of_the_compiler_is_gone_or_another(box: Sandbox) -> None:
    box.write("/root/one.c", "int one(void) { return 1; }\n")
    compile_one = ("sh", "-c", "cd /root && gcc-12 -c -o one.o one.c")
    box.run(*compile_one)
    box.shell("cd /usr/lib/gcc/*/*/ && mv cc1 cc1.real")
    assert box.run(*compile_one, check=False).status != 0
    box.shell("cd /usr/lib/gcc/*/*/ && ln cc1.real cc1")
    box.run(*compile_one)
    box.shell("cd /usr/lib/gcc/*/*/ && rm cc1 && echo 'exit 1' >cc1 && chmod 755 cc1")
    assert box.run(*compile_one, check=False).status != 0


def test_without_a_compiler_of_this_machine_builds_only_take_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GDR_TEST_CACHE", str(tmp_path / "cache"))
    tree = tmp_path / "tree"
    (tree / "usr/bin").mkdir(parents=True)
    assert remembering((tree,)) is None, "nothing there asks"
    (tree / "usr/bin/gcc-12").touch()
    found = remembering((tree,))
    assert found is not None
    assert (found.layer / "usr/local/bin/gcc-12").exists()
    (tree / "usr/bin/gcc-13").touch()
    monkeypatch.setenv("PATH", "")
    assert remembering((tree,)) is None
    assert len([each for each in (tmp_path / "cache").iterdir() if each.is_dir()]) == 1
