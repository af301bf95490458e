"""What was tried by registration is judged, and the checks that it proves cite it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import pytest

from tests.evidence.board import BOARD, GPUS, HCAS
from tests.evidence.build import node, without_module
from tests.evidence.frames import ABSENT, Override
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.checks.judged import causes, judge_node
from toolkit.want import Want

GPU, OTHER = GPUS
HCA, SECOND = "mlx5_0", "mlx5_1"
PEERMEM = "nvidia_peermem"
WAYS = ("dmabuf", "dmabuf-vmm", "peermem")


def said(
    *,
    pairs: Mapping[tuple[str, str, str], str] | None = None,
    hcas: Mapping[str, tuple[str, str]] | None = None,
    gpus: Mapping[str, str] | None = None,
    tail: str = "end\n",
) -> dict[str, Override]:
    """The frame of a node on which all works but what is said."""
    changed = {(g, h, w): "ok" for g in GPUS for h in (HCA, SECOND) for w in WAYS} | dict(
        pairs or {}
    )
    asked = dict.fromkeys((HCA, SECOND), ("EBADF", "EBADF")) | dict(hcas or {})
    lines = ["memlock 8388608", "libibverbs /usr/lib/libibverbs.so.1.14.50.0"]
    for hca, (public, kernel) in asked.items():
        lines += [f"hca {hca} public {public}", f"hca {hca} kernel {kernel}"]
    lines.append("libcuda /usr/lib/libcuda.so.580.126.16")
    left = dict(gpus or {})
    for gpu in GPUS:
        if gpu in left:
            lines.append(f"gpu {gpu} {left[gpu]}")
        if not left.get(gpu, "").startswith("skipped"):
            lines += [f"pair {g} {h} {w} {e}" for (g, h, w), e in changed.items() if g == gpu and e]
            lines.append(f"gpu {gpu} ok")
    return {"registration": "\n".join(lines) + "\n" + tail}


def every(way: str, errno: str) -> dict[tuple[str, str, str], str]:
    return {(gpu, hca, way): errno for gpu in GPUS for hca in (HCA, SECOND)}


NOTHING = "memlock unlimited\n"
EXPORT = "cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED"
UNMAPPED = said(gpus={GPU: f"failed dmabuf-vmm {EXPORT}"})
SILENT: dict[str, Override] = {
    "registration": "".join(
        line
        for line in str(said()["registration"]).splitlines(keepends=True)
        if not line.startswith(f"hca {SECOND}")
    )
}
ROWS = [
    Row("nobody-asked", "register.peermem", NA, "not tried: verify --register"),
    Row("nobody-asked", "register.dmabuf", NA, "not tried: verify --register", want=DMABUF),
    Row(
        "a-gpu-left-to-its-job",
        "register.peermem",
        UNKNOWN,
        f"{OTHER}: 900 MB of its memory are free",
        said(gpus={OTHER: "skipped 900 MB of its memory are free"}),
    ),
    Row(
        "all-taken",
        "register.peermem",
        PASS,
        "2 pairs of GPU and HCA: taken, and given back",
        said(),
    ),
    Row("all-taken", "register.dmabuf", PASS, "2 pairs", said(), want=DMABUF),
    Row(
        "no-client",
        "register.peermem",
        FAIL,
        "2 of 2 pairs of GPU and HCA: peermem: EFAULT: no peer-memory client took the address",
        said(pairs=every("peermem", "EFAULT")),
    ),
    Row(
        "one-pair-refused-for-its-way",
        "register.dmabuf",
        FAIL,
        "1 of 2 pairs of GPU and HCA: dmabuf: ENOTSUPP: the NVIDIA driver refuses",
        said(pairs={(GPU, HCA, "dmabuf"): "ENOTSUPP"}),
        want=DMABUF,
    ),
    Row(
        "memory-by-cuMemCreate-alone-refused",
        "register.dmabuf",
        FAIL,
        "dmabuf-vmm: ENOMEM",
        said(pairs={(GPU, HCA, "dmabuf-vmm"): "ENOMEM"}),
        want=DMABUF,
    ),
    Row(
        "what-is-not-given-back",
        "register.dmabuf",
        FAIL,
        "dereg:EBUSY",
        said(pairs={(GPU, HCA, "dmabuf"): "dereg:EBUSY"}),
        want=DMABUF,
    ),
    Row(
        "another-way-refused-is-nothing-to-this-one",
        "register.dmabuf",
        PASS,
        "taken",
        said(pairs=every("peermem", "EFAULT")),
        want=DMABUF,
    ),
    Row(
        "a-gpu-left-to-its-job",
        "register.dmabuf",
        UNKNOWN,
        f"not all were tried: {OTHER}: compute mode exclusive process",
        said(gpus={OTHER: "skipped compute mode exclusive process"}),
        want=DMABUF,
    ),
    Row(
        "a-failure-beside-a-gpu-left-alone-is-one",
        "register.dmabuf",
        FAIL,
        "1 of 2",
        said(
            gpus={OTHER: "skipped compute mode exclusive process"},
            pairs={(GPU, HCA, "dmabuf"): "ENOMEM"},
        ),
        want=DMABUF,
    ),
    Row(
        "an-hca-that-was-lost-on-the-way",
        "register.dmabuf",
        UNKNOWN,
        f"{OTHER} {SECOND}: gave no answer in time",
        said(
            pairs={(g, SECOND, w): "" for g in GPUS for w in WAYS},
            tail=f"lost {SECOND} timeout\nend\n",
        ),
        want=DMABUF,
    ),
    Row("broken-off", "register.dmabuf", UNKNOWN, "broke off", said(tail=""), want=DMABUF),
    Row(
        "no-libcuda",
        "register.dmabuf",
        UNKNOWN,
        "libcuda: libcuda.so.1: cannot open",
        {"registration": NOTHING + "libcuda - libcuda.so.1: cannot open shared object file\nend\n"},
        want=DMABUF,
    ),
    Row(
        "no-python",
        "register.dmabuf",
        UNKNOWN,
        "no Python 3",
        {"registration": ABSENT},
        want=DMABUF,
    ),
    Row("asked", "dmabuf.nic", PASS, "each HCA was asked, and has the call", said(), want=DMABUF),
    Row(
        "asked-and-old-provider",
        "dmabuf.nic",
        FAIL,
        f"{SECOND}: the kernel can, and the provider library cannot",
        said(hcas={SECOND: ("EOPNOTSUPP", "EBADF")}),
        want=DMABUF,
    ),
    Row(
        "asked-and-old-kernel",
        "dmabuf.nic",
        FAIL,
        f"{HCA}: the kernel's driver of it has no such call",
        said(hcas={HCA: ("EOPNOTSUPP", "EPROTONOSUPPORT")}),
        want=DMABUF,
    ),
    Row(
        "asked-and-shown-where-tables-know-nothing",
        "dmabuf.nic",
        PASS,
        "each HCA was asked",
        said() | {"kernel-release": "5.4.0-200-generic\n"},
        want=DMABUF,
    ),
    Row(
        "storage-hcas-do-not-count",
        "dmabuf.nic",
        PASS,
        "each HCA was asked",
        said(hcas={"mlx5_2": ("EOPNOTSUPP", "EOPNOTSUPP")}),
        want=DMABUF,
    ),
    Row("tried", "dmabuf.gpu", PASS, "open; exported and taken", said(), want=DMABUF),
    Row(
        "cuda-exports-nothing",
        "dmabuf.gpu",
        FAIL,
        f"{GPU}: cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED",
        said(gpus={GPU: "failed dmabuf cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED"}),
        want=DMABUF,
    ),
    Row("tried", "peermem.bound", PASS, "it took the memory of GPUs", said()),
    Row("exported-of-cumemcreate-s-not", "dmabuf.gpu", PASS, "open", UNMAPPED, want=DMABUF),
    Row("exported-of-cumemcreate-s-not", "register.dmabuf", FAIL,
        f"dmabuf-vmm: {EXPORT}", UNMAPPED, want=DMABUF),
    Row("not-exported", "register.dmabuf", FAIL, f"dmabuf: {EXPORT}",
        said(gpus={GPU: f"failed dmabuf {EXPORT}"}), want=DMABUF),
    Row("failed-before-cuda", "dmabuf.gpu", PASS, "open",
        said(gpus={GPU: "failed dmabuf open EMFILE"}), want=DMABUF),
    Row("one-hca-not-asked", "dmabuf.nic", PASS, "not tried", SILENT, want=DMABUF),
    Row("cuda-lists-none", "register.dmabuf", UNKNOWN, "CUDA lists no GPU",
        {"registration": NOTHING + "libcuda /usr/lib/libcuda.so.1\nend\n"}, want=DMABUF),
    Row("an-hca-that-does-not-open", "register.peermem", UNKNOWN,
        f"{HCA} could not be opened: EACCES",
        said(pairs={**every("peermem", ""), (GPU, HCA, "open"): "EACCES"})),
]  # fmt: skip


@pytest.mark.parametrize(
    ("want", "frames", "cause", "follower"),
    [
        (
            Want(),
            {**said(pairs=every("peermem", "EFAULT")), "module-state": without_module(PEERMEM)},
            "peermem.loaded",
            "register.peermem",
        ),
        (
            DMABUF,
            said(hcas={SECOND: ("EOPNOTSUPP", "EBADF")}, pairs=every("dmabuf", "EOPNOTSUPP")),
            "dmabuf.nic",
            "register.dmabuf",
        ),
    ],
)
def test_what_was_tried_follows_from_what_keeps_it(
    want: Want, frames: dict[str, Override], cause: str, follower: str
) -> None:
    judged = judge_node("gpu01", node(frames), want, date(2026, 11, 28))
    found = {each.root.check.id: {e.check.id for e in each.follows} for each in causes(judged)}
    assert follower in found[cause]


@pytest.mark.parametrize("row", ROWS, ids=map(name, ROWS))
def test_what_was_tried_is_judged(row: Row) -> None:
    holds(row)


def test_what_fails_is_told_by_gpu_and_reason() -> None:
    refused = {(GPU, HCA, "peermem"): "EFAULT", (OTHER, SECOND, "peermem"): "EINVAL"}
    details = judged(Row("", "register.peermem", FAIL, "", said(pairs=refused))).finding.details
    assert [each.partition(": ")[0] for each in details] == [
        f"{GPU} with {HCA}",
        f"{OTHER} with {SECOND}",
    ]


def test_a_pair_without_a_common_switch_is_told_and_fails_nothing() -> None:
    far = said(pairs={(GPU, SECOND, "dmabuf"): "ENOTSUPP"})
    finding = judged(Row("", "register.dmabuf", PASS, "", far, want=DMABUF)).finding
    assert finding.status is PASS
    told = f"without a common switch 1 of 2 refuse, such as {GPU} {SECOND}: dmabuf: ENOTSUPP"
    assert finding.details[-1].startswith(told)


def test_where_no_two_have_a_common_switch_every_pair_counts() -> None:
    board = BOARD.but(HCAS[0], parent="pci0000:05").but(HCAS[1], parent="pci0000:05")
    far = said(pairs={(GPU, SECOND, "dmabuf"): "ENOTSUPP"})
    holds(Row("", "register.dmabuf", FAIL, "1 of 6 pairs", far, board, DMABUF))


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        ("libcuda - libcuda.so.1: cannot open shared object file\n", "is libcuda installed"),
        ("libcuda - cuInit CUDA_ERROR_NO_DEVICE\n", "nvidia-smi, ibv_devices"),
        ("libibverbs /usr/lib/x\nlibibverbs - it lists no device\n", "nvidia-smi, ibv_devices"),
    ],
)
def test_what_is_missing_is_a_library_or_what_it_lists(lines: str, hint: str) -> None:
    frames: dict[str, Override] = {"registration": f"{NOTHING}{lines}end\n"}
    assert hint in judged(Row("", "register.dmabuf", UNKNOWN, "", frames, want=DMABUF)).finding.hint


def test_what_was_taken_is_counted_by_way_and_a_way_of_some_alone_where_it_was_tried() -> None:
    def told(frames: dict[str, Override]) -> list[str]:
        return list(
            judged(Row("", "register.dmabuf", PASS, "", frames, want=DMABUF)).finding.details
        )

    both = ["dmabuf: 2 of 2", "dmabuf-vmm: 2 of 2"]
    assert told(said()) == [*both, "peermem: 2 of 2"]
    assert told(said(pairs=every("peermem", ""))) == [*both, "peermem: 0 of 2"]
    over = told(said(pairs={(GPU, HCA, "dmabuf-pcie"): "ok"}))
    assert over == [*both, "dmabuf-pcie: 1 of 2", "peermem: 2 of 2"]


def test_memory_that_no_hca_took_was_not_shown_to_be_taken() -> None:
    vain = said(pairs=every("dmabuf", "ENOMEM"))
    for check, frames, want in (("dmabuf.gpu", vain, DMABUF), ("peermem.bound", {}, Want())):
        finding = judged(Row("", check, PASS, "", frames, want=want)).finding
        assert finding.status is PASS
        assert "took" not in finding.found
        assert "taken" not in finding.found
