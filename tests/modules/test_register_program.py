"""What register.py asks of verbs and CUDA, and what it makes of every answer.

Libraries of our own stand for hardware; the real libibverbs and the kernel answer in
tests/machine/test_register.py.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolkit.facts.rdma.registration import DmabufAnswer, Registration, cause, parse_registration
from toolkit.node.collect import register_program

pytestmark = pytest.mark.modules
SOURCE = Path(__file__).parent / "source"
GPUS, HCAS = ("0000:18:00.0", "0000:2a:00.0"), ("mlx5_0", "mlx5_1")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all of them, and one with a libibverbs of before dma-buf."""
    folder = tmp_path_factory.mktemp("libraries")
    (folder / "old").mkdir()
    compiled = (
        ("verbs.c", "libibverbs.so.1"),
        ("verbs.c", "libmlx5.so.1"),
        ("verbs.c", "old/libibverbs.so.1", "-DOLD"),
        ("cuda.c", "libcuda.so.1"),
        ("cuda.c", "libnvidia-ml.so.1"),
    )
    for source, name, *flags in compiled:
        words = ("cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", *flags)
        subprocess.run((*words, "-o", folder / name, SOURCE / source), check=True)
    return folder


def asked(
    libraries: Path,
    rules: str = "",
    *,
    library: str = "",
    gpus: tuple[str, ...] = GPUS,
    folder: str = "",
    before: str = "",
) -> Registration:
    """What the program says where each call ends as ``rules`` say."""
    environment = {
        "LD_LIBRARY_PATH": folder or str(libraries),
        "GDR_FAKE": rules,
        "GDR_GPUS": " ".join(gpus),
        "GDR_HCAS": " ".join(HCAS),
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(
        (sys.executable, "-ISB", "-", library),
        input=before + register_program(),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return parse_registration(done.stdout)


def test_python_of_the_oldest_nodes_reads_the_program() -> None:
    ast.parse(register_program(), feature_version=(3, 6))


def test_every_pair_is_tried_by_every_way_and_given_back(libraries: Path) -> None:
    tried = asked(libraries)
    assert tried.whole
    assert tried.gpus == GPUS
    assert not tried.left
    assert not tried.missing
    assert tried.libraries["libcuda"] == str(libraries / "libcuda.so.1")
    ways = {"dmabuf": "ok", "dmabuf-vmm": "ok", "dmabuf-pcie": "ok", "peermem": "ok"}
    assert {(g, h): tried.of(g, h) for g in GPUS for h in HCAS} == {
        (g, h): ways for g in GPUS for h in HCAS
    }


@pytest.mark.parametrize(
    ("rules", "able", "why"),
    [
        ("", True, ""),
        ("public:mlx5_0=95", False, "the kernel can, and the provider library cannot"),
        ("public:mlx5_0=95 kernel:mlx5_0=95", False, "the kernel's driver of it has no such call"),
        ("public:mlx5_0=93 kernel:mlx5_0=93", False, "the kernel's driver of it has no such call"),
        ("public:mlx5_0=22 kernel:mlx5_0=22", None, ""),
    ],
)
def test_who_cannot_is_told_by_both_ways_to_ask(
    libraries: Path, rules: str, able: bool | None, why: str
) -> None:
    tried = asked(libraries, rules, gpus=())
    assert tried.hcas["mlx5_0"].able is able
    assert tried.hcas["mlx5_1"].able
    assert tried.hcas["mlx5_0"].why_not.startswith(why)


def test_a_library_without_the_call_is_told_and_may_be_named(libraries: Path) -> None:
    named = str(libraries / "old/libibverbs.so.1")
    tried = asked(libraries, library=named)
    assert tried.libraries["libibverbs"] == named
    assert tried.hcas["mlx5_0"] == DmabufAnswer("absent", "absent")
    assert tried.of(GPUS[0], "mlx5_0")["dmabuf"] == "absent"


@pytest.mark.parametrize(("soft", "memlock"), [(65536, 65536), (-1, None)])
def test_what_it_may_lock_is_told(libraries: Path, soft: int, memlock: int | None) -> None:
    limits = f"import resource\nresource.getrlimit = {{resource.RLIMIT_MEMLOCK: ({soft}, 0)}}.get\n"
    tried = asked(libraries, gpus=(), before=limits)
    assert tried.memlock == memlock
    assert tried.whole


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (524, "ENOTSUPP: the NVIDIA driver refuses this HCA as a peer"),
        (12, "ENOMEM: the NVIDIA driver could not map it"),
        (95, "EOPNOTSUPP: the HCA's driver or its library has no such call"),
        (22, "EINVAL"),
    ],
)
def test_an_errno_of_dmabuf_is_told_with_its_cause(
    libraries: Path, number: int, words: str
) -> None:
    tried = asked(libraries, f"dmabuf:mlx5_1={number}")
    assert tried.of(GPUS[1], "mlx5_0")["dmabuf"] == "ok"
    said = tried.of(GPUS[1], "mlx5_1")["dmabuf"]
    assert cause("dmabuf", said, tried.memlock).startswith(words)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (14, "EFAULT: no peer-memory client took the address"),
        (12, "ENOMEM: the HCA's driver had no memory"),
        (22, "EINVAL: the NVIDIA driver could not map it"),
    ],
)
def test_an_errno_of_peermem_is_told_with_its_cause(
    libraries: Path, number: int, words: str
) -> None:
    tried = asked(libraries, f"peermem:mlx5_0={number}")
    said = tried.of(GPUS[0], "mlx5_0")
    assert said["dmabuf"] == "ok"
    assert cause("peermem", said["peermem"], None).startswith(words)


def test_a_gpu_that_a_job_may_have_is_left_alone(libraries: Path) -> None:
    for rules, words in (
        (f"mode:{GPUS[0]}=3", "compute mode exclusive process"),
        (f"mode:{GPUS[0]}=2", "compute mode prohibited"),
        (f"free:{GPUS[0]}=900", "900 MB of its memory are free"),
        (f"nvml:{GPUS[0]}=999", "its free memory is not told: NVML error 999"),
    ):
        tried = asked(libraries, rules)
        assert tried.left == {GPUS[0]: words}
        assert tried.gpus == GPUS[1:]
        assert not any(each.gpu == GPUS[0] for each in tried.pairs)


def test_memory_that_only_the_processor_has_is_no_reason(libraries: Path) -> None:
    assert asked(libraries, f"nvml:{GPUS[0]}=3").gpus == GPUS


def test_cuda_that_exports_nothing_is_told_by_its_own_word(libraries: Path) -> None:
    tried = asked(libraries, f"export-dmabuf:{GPUS[0]}=801")
    failure = "cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED"
    assert tried.unexported == {(GPUS[0], "dmabuf"): failure}
    assert tried.of(GPUS[0], "mlx5_0").keys() == {"dmabuf-vmm", "dmabuf-pcie", "peermem"}


def test_what_gives_no_memory_costs_what_needs_it_alone(libraries: Path) -> None:
    tried = asked(libraries, f"alloc:{GPUS[0]}=1 context:{GPUS[1]}=999 open:mlx5_1=13")
    assert tried.unexported == {(GPUS[0], "dmabuf"): "cuMemAlloc_v2 CUDA_ERROR_INVALID_VALUE"}
    assert tried.of(GPUS[0], "mlx5_0") == {"dmabuf-vmm": "ok"}
    assert tried.of(GPUS[0], "mlx5_1") == {"open": "EACCES"}
    assert tried.left == {
        "mlx5_1": "ibv_open_device EACCES",
        GPUS[1]: "cuDevicePrimaryCtxRetain CUDA_ERROR_UNKNOWN",
    }


def test_data_direct_is_tried_where_the_hca_has_it(libraries: Path) -> None:
    tried = asked(libraries, "sysfs:mlx5_0=0 data-direct:mlx5_0=12")
    assert tried.of(GPUS[0], "mlx5_0")["data-direct"] == "ENOMEM"
    assert "data-direct" not in tried.of(GPUS[0], "mlx5_1")


def test_what_cannot_be_given_back_is_no_success(libraries: Path) -> None:
    assert asked(libraries, "dereg:mlx5_0=16").of(GPUS[0], "mlx5_0")["dmabuf"] == "dereg:EBUSY"


def test_a_hang_or_crash_costs_one_gpu_and_is_told(libraries: Path) -> None:
    began = time.monotonic()
    tried = asked(libraries, "public:mlx5_1=crash peermem:mlx5_0=hang", gpus=GPUS[:1])
    assert time.monotonic() - began < 30
    assert tried.hcas.keys() == {"mlx5_0"}
    assert tried.whole
    assert tried.left["mlx5_1"] == "its process died of signal 11"
    assert tried.left[GPUS[0]] == "gave no answer in time, at peermem mlx5_0"
    assert tried.of(GPUS[0], "mlx5_0")["dmabuf"] == "ok"


def test_without_libraries_it_says_which_is_missing(libraries: Path) -> None:
    tried = asked(libraries, library="libibverbs.so.99", folder="/nonexistent")
    assert "libibverbs.so.99" in tried.missing["libibverbs"]
    assert "libcuda.so.1" in tried.missing["libcuda"]
    assert tried.whole


def test_a_driver_that_does_not_answer_is_told(libraries: Path) -> None:
    tried = asked(libraries, "cuInit:all=999 list:all=38")
    assert tried.missing == {
        "libcuda": "cuInit CUDA_ERROR_UNKNOWN",
        "libibverbs": "ibv_get_device_list ENOSYS",
    }
