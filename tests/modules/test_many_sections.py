"""An object with a section for each function, as the open driver's are, in every reader of ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.modules.building import run
from tests.scripts.shells import parts, say
from toolkit.facts.modules.module_file import ModuleImage, read_image, read_sections

pytestmark = pytest.mark.modules
FUNCTIONS = 5_000
_HEAD = """\
static const char info[] __attribute__((section(".modinfo"), used)) = "depends=drm";
extern int drm_open(int);
__asm__(".globl __crc_nvidia_p2p_get_pages\\n.set __crc_nvidia_p2p_get_pages, 0x1234");
int init(int x) { return drm_open(x); }
"""


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("large")
    functions = (f"int f{each}(int x) {{ return x + {each}; }}" for each in range(FUNCTIONS))
    (at / "nvidia.c").write_text(_HEAD + "\n".join(functions))
    run(
        "gcc",
        "-O1",
        "-ffunction-sections",
        "-Wl,--build-id",
        "-c",
        at / "nvidia.c",
        "-o",
        at / "plain.o",
    )
    run("ld", "-r", "--build-id=sha1", at / "plain.o", "-o", at / "nvidia.ko")
    return at / "nvidia.ko"


@pytest.fixture(scope="session")
def whole(large: Path) -> ModuleImage:
    return read_image(str(large), large.read_bytes())


def test_the_gate_reads_it(whole: ModuleImage) -> None:
    assert whole.depends == ("drm",)
    assert whole.imports == {"drm_open"}
    assert len(whole.build_id) == 40


@pytest.mark.parametrize(
    "shell", [("dash",), ("busybox", "sh"), ("bash",)], ids=lambda shell: shell[0]
)
def test_the_scripts_send_of_it_what_passports_need(
    large: Path, whole: ModuleImage, shell: tuple[str, ...]
) -> None:
    done = say(
        shell, f'{parts("frames.sh", "probe_elf.sh")}\nscratch="" root=""\nsparse {large} notes'
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = read_sections(str(large), done.stdout.split("\n")[:-1])
    assert found == replace(whole, imports=frozenset())


@pytest.mark.parametrize(
    "shell", [("dash",), ("busybox", "sh"), ("bash",)], ids=lambda shell: shell[0]
)
def test_the_scripts_find_its_exports_where_kmod_is_old(
    large: Path, shell: tuple[str, ...]
) -> None:
    done = say(
        shell, f'{parts("frames.sh", "probe_elf.sh")}\nscratch="" root=""\ncrc_symbols {large}'
    )
    assert (done.stdout, done.stderr) == ("0x00001234\tnvidia_p2p_get_pages\n", "")
