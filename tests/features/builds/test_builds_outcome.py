"""What a build printed becomes what came of it, and never more than that."""

from __future__ import annotations

import gzip
import json
from base64 import encodebytes
from hashlib import sha256

import pytest

from toolkit.built.plan.model import BuildFailure, Built, BuiltFile, Inputs, Part
from toolkit.features.builds.plan.outcome import read_outcome, running

INPUTS = Inputs(
    Part.PEERMEM, "nvidia-peermem", "535.261.03", "6.1.0-56-amd64", "x86_64",
    "a" * 64, "b" * 64, "gcc-12", "c" * 64, "", "d" * 64,
)  # fmt: skip
MODULE = b"\x7fELF" + bytes(range(256)) * 40
SYMVERS = b"0x1\tx\ty\tEXPORT_SYMBOL\t\n"


def sent(name: str, data: bytes, *, told: bytes | None = None, size: int | None = None) -> str:
    """A file as build.sh sends it; ``told`` is what its head is of."""
    digest = sha256(data if told is None else told).hexdigest()
    lines = encodebytes(gzip.compress(data, mtime=0)).decode().splitlines()
    head = f"= file.{name} ok {len(data) if size is None else size} {digest}\n"
    return head + "".join(f"|{line}\n" for line in lines)


def step(name: str, *lines: str, state: str = "ok", source: str = "x") -> str:
    said = "".join(f"|{line}\n" for line in lines)
    return f"= {name}.output ok {source}\n{said}= {name} {state} {source}\n"


def output(*frames: str, end: bool = True) -> str:
    body = "".join(frames)
    count = sum(line.startswith("= ") for line in body.split("\n"))
    return "= begin ok gdr-toolkit/1\n" + body + (f"= end ok {count}\n" if end else "")


STEPS = step("prepare") + step("make", "LD [M] nvidia-peermem.ko") + step("gate") + step("pack")
WHOLE = output(STEPS, sent("nvidia-peermem.ko", MODULE), sent("Module.symvers", SYMVERS))


def test_without_a_word_of_make_its_log_is_empty_and_a_file_that_was_not_sent_is_a_failure() -> (
    None
):
    silent = STEPS.replace("= make.output ok x\n|LD [M] nvidia-peermem.ko\n", "")
    came = read_outcome(output(silent, sent("nvidia-peermem.ko", MODULE)), INPUTS)
    assert isinstance(came, Built)
    assert came.file("make.log") == BuiltFile("make.log", b"")
    lost = sent("nvidia-peermem.ko", MODULE).replace(" ok ", " failed:1 ", 1)
    assert failure(output(STEPS, lost)).step == "pack"


def failure(text: str) -> BuildFailure:
    came = read_outcome(text, INPUTS)
    assert isinstance(came, BuildFailure), came
    assert came.inputs == INPUTS
    return came


def test_a_build_that_succeeded() -> None:
    came = read_outcome(WHOLE, INPUTS)
    assert isinstance(came, Built)
    assert [each.name for each in came.files] == ["Module.symvers", "make.log", "nvidia-peermem.ko"]
    assert [each.data for each in came.modules] == [MODULE]
    log = came.file("make.log")
    assert log is not None
    assert log.data == b"LD [M] nvidia-peermem.ko\n"


def test_dots_that_show_life_are_noise() -> None:
    text = WHOLE.replace("|LD [M]", ".\n|LD [M]")
    assert isinstance(read_outcome(text, INPUTS), Built)


@pytest.mark.parametrize("cut", range(0, len(WHOLE), 97))
def test_output_that_was_cut_is_never_a_result(cut: int) -> None:
    came = failure(WHOLE[:cut])
    assert came.found.startswith("it was killed, or cut off,")


def test_only_the_last_newline_may_be_lost() -> None:
    assert isinstance(read_outcome(WHOLE[:-1], INPUTS), BuildFailure)
    assert isinstance(read_outcome(WHOLE, INPUTS), Built)


@pytest.mark.parametrize(
    ("file", "found"),
    [
        pytest.param(sent("a.ko", MODULE, told=b"other"), "their hash is another", id="hash"),
        pytest.param(sent("a.ko", MODULE, size=5), "5 came", id="too-long"),
        pytest.param(sent("a.ko", MODULE, size=999_999), "of 999999 came", id="too-short"),
        pytest.param(sent("a.ko", MODULE, size=10**11), "100000000000 bytes", id="too-large"),
        pytest.param(sent("../a.ko", MODULE), "../a.ko", id="a-path"),
        pytest.param(sent(".a.ko", MODULE), ".a.ko", id="hidden"),
        pytest.param(sent("a.ko", MODULE).replace("|", "|!", 1), "damaged", id="base64"),
        pytest.param("= file.a.ko ok what\n", "what", id="no-hash"),
        pytest.param("= file.a.ko absent 1\n", "1", id="absent"),
    ],
)
def test_a_file_that_is_not_as_told_is_a_failure(file: str, found: str) -> None:
    came = failure(output(STEPS, file))
    assert found in came.found
    assert came.step == "pack"


def test_a_bomb_is_not_unpacked() -> None:
    bomb = bytes(50 << 20)
    assert "came" in failure(output(STEPS, sent("a.ko", bomb, size=10))).found


def test_a_build_without_a_module_is_a_failure() -> None:
    assert failure(output(STEPS, sent("Module.symvers", SYMVERS))).found == (
        "the build left no module"
    )


def test_the_step_that_failed_with_cause_action_and_the_last_lines() -> None:
    lines = [f"line {number}" for number in range(30)]
    lines += ['ERROR: modpost: "nvidia_p2p_put_pages" [nvidia-peermem.ko] undefined!']
    came = failure(output(step("prepare"), step("make", *lines, state="failed:10")))
    assert (came.step, came.status) == ("make", 10)
    assert "without the driver's symbols" in came.cause
    assert came.action
    assert len(came.tail) == 20
    assert came.tail[-1] == lines[-1]
    assert not came.excluded


def test_a_kernel_that_the_package_does_not_want_is_excluded() -> None:
    came = failure(output(step("prepare"), step("make", "excluded", state="failed:77")))
    assert (came.status, came.excluded) == (77, True)
    made = step("prepare") + step("make")
    assert not failure(output(made, step("gate", "odd", state="failed:77"))).excluded


def test_an_unmatched_log_is_told_by_its_first_error() -> None:
    came = failure(output(step("prepare"), step("make", "ok", "a.c:1: error: frob", "later",
                                                state="failed:10")))  # fmt: skip
    assert came.found == "the build stopped: a.c:1: error: frob"


def test_an_unmatched_failure_points_at_the_log_that_is_kept() -> None:
    """Not at the one that DKMS names: it lay in a scratch folder, which is gone."""
    said = (
        "Binary /dev/null not found, modules won't be signed",
        "Error! Bad return status for module build on kernel: 6.1.0-49-amd64 (x86_64)",
        "Consult /mnt/dkms/gdrdrv/2.4.4/build/make.log for more information.",
        "make: *** No targets.  Stop.",
    )
    came = failure(output(step("prepare"), step("make", *said, state="failed:10")))
    assert came.found == "the build stopped: make: *** No targets.  Stop."
    assert came.action == "read the whole log of this build, in the folder of the run"


def test_the_action_names_this_kernel_and_this_module() -> None:
    line = "gcc: fatal error: Killed signal terminated program cc1"
    came = failure(output(step("prepare"), step("make", line, state="failed:10")))
    assert came.action == (
        "free memory, or build with fewer jobs: "
        "dkms build -j 2 nvidia-peermem/535.261.03 -k 6.1.0-56-amd64"
    )


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        pytest.param(
            ("a", "  the last  ", "", "   "), "the last", id="the-last-that-says-something"
        ),
        pytest.param(("", "  "), "the build stopped; it printed nothing", id="nothing-but-blanks"),
        pytest.param((), "the build stopped; it printed nothing", id="nothing"),
    ],
)
def test_a_step_beside_make_that_stopped_is_told_by_its_last_words(
    lines: tuple[str, ...], found: str
) -> None:
    came = failure(output(step("prepare", *lines, state="failed:3")))
    assert (came.step, came.found, came.status, came.tail) == ("prepare", found, 3, lines)


def test_the_gate_has_its_own_words() -> None:
    said = "gate: nvidia-peermem.ko: stub: a stub: it takes nothing from the RDMA core"
    made = step("prepare") + step("make")
    came = failure(output(made, step("gate", said, state="failed:1")))
    assert (came.step, came.found) == ("gate", said)


def test_preparing_has_its_own_words_too() -> None:
    came = failure(output(step("prepare", "dkms is not there", state="failed:127")))
    assert (came.step, came.found) == ("prepare", "dkms is not there")


def test_a_build_that_hung_says_for_how_long() -> None:
    source = "dkms build x/1: not done after 600 s, killed"
    text = output(step("prepare"), step("make", "CC a.o", state="timeout", source=source))
    came = failure(text)
    assert (came.step, came.found, came.tail) == ("make", source, ("CC a.o",))


def test_what_was_said_before_the_cut_is_kept() -> None:
    text = output(step("prepare"), "= make.output ok dkms build\n|CC a.o\n|CC b", end=False)
    came = failure(text)
    assert (came.step, came.tail) == ("make", ("CC a.o", "CC b"))


def test_what_is_no_output_of_a_build_is_none() -> None:
    assert failure("sh: 1: unshare: not found\n").tail == ("sh: 1: unshare: not found",)
    assert "gdr-toolkit/9" in failure("= begin ok gdr-toolkit/9\n= end ok 0\n").found


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("= make.output ok dkms build x/1 -k 6.1", "make"),
        ("= make ok dkms build x/1 -k 6.1", None),
        ("|= make.output ok", None),
        ("= file.make.output ok 5 x", None),
        ("", None),
    ],
)
def test_the_step_that_is_running(line: str, name: str | None) -> None:
    assert running(line) == name


def test_a_digest_is_that_of_all_inputs() -> None:
    told = {"part": "peermem", "package": "nvidia-peermem", "version": "535.261.03",
            "kernel": "6.1.0-56-amd64", "arch": "x86_64", "source": "a" * 64, "headers": "b" * 64,
            "compiler": "gcc-12", "symvers": "c" * 64, "flags": "", "recipe": "d" * 64}  # fmt: skip
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    assert INPUTS.digest == sha256(text.encode()).hexdigest()
