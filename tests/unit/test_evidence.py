"""The wire format: what counts as read, and what noise, cuts and odd bytes do to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import CutOff, NoEvidence, NotCollected, Unparsable
from toolkit.evidence import GRAMMAR, Evidence, Frame, State

TEXT = """\
= begin ok gdr-toolkit/1
= kernel-release ok /proc/sys/kernel/osrelease
|6.8.0-45-generic
= cmdline ok /proc/cmdline
|ro quiet
|
|iommu=pt
= ofed-info absent ofed_info -s
= lockdown denied /sys/kernel/security/lockdown
= dkms-status failed:4 dkms status
|dkms: command broken
= nvidia-smi timeout nvidia-smi -q
= end ok 6
"""
FRAMES = {
    "kernel-release": Frame(
        "kernel-release", State.OK, "/proc/sys/kernel/osrelease", "6.8.0-45-generic\n"
    ),
    "cmdline": Frame("cmdline", State.OK, "/proc/cmdline", "ro quiet\n\niommu=pt\n"),
    "ofed-info": Frame("ofed-info", State.ABSENT, "ofed_info -s"),
    "lockdown": Frame("lockdown", State.DENIED, "/sys/kernel/security/lockdown"),
    "dkms-status": Frame(
        "dkms-status", State.FAILED, "dkms status", "dkms: command broken\n", exit=4
    ),
    "nvidia-smi": Frame("nvidia-smi", State.TIMEOUT, "nvidia-smi -q"),
}
WHOLE = Evidence(FRAMES, complete=True)


def test_every_state_of_a_source() -> None:
    assert Evidence.parse(TEXT) == WHOLE


def test_dumping_gives_the_text_back() -> None:
    assert WHOLE.dump() == TEXT


# --- reading ---


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("ofed-info", "ofed_info -s: not there"),
        ("lockdown", "/sys/kernel/security/lockdown: permission denied"),
        ("dkms-status", "dkms status: ended with status 4"),
        ("nvidia-smi", "nvidia-smi -q: no answer in time, abandoned"),
    ],
)
def test_four_kinds_of_no_are_four_answers(key: str, why: str) -> None:
    with pytest.raises(NoEvidence) as refused:
        WHOLE.text(key)
    assert str(refused.value) == why
    assert not isinstance(refused.value, CutOff)


@pytest.mark.parametrize(
    ("complete", "kind", "why"),
    [
        (True, NotCollected, "modules: not part of this evidence"),
        (False, CutOff, "modules: cut off before it was read"),
    ],
)
def test_what_was_never_collected_says_whether_it_could_have_been(
    complete: bool, kind: type[NoEvidence], why: str
) -> None:
    with pytest.raises(kind) as refused:
        Evidence(FRAMES, complete).text("modules")
    assert (str(refused.value), refused.value.hint) == (why, "collect the evidence again")


def test_what_was_read_has_no_trouble() -> None:
    assert WHOLE.frame("cmdline").trouble == ""
    assert WHOLE.text("cmdline") == "ro quiet\n\niommu=pt\n"


# --- cuts ---


@pytest.mark.parametrize("cut", range(len(TEXT)))
def test_a_lost_connection_never_invents_a_fact(cut: int) -> None:
    part = Evidence.parse(TEXT[:cut])
    assert not part.complete
    assert part.frames.items() <= FRAMES.items()


def test_a_frame_counts_only_once_the_next_header_is_there() -> None:
    before = TEXT[: TEXT.index("= cmdline")]
    assert Evidence.parse(before).frames == {}
    assert list(Evidence.parse(before + "= x ok y\n").frames) == ["kernel-release"]


def test_an_end_without_its_newline_is_no_end() -> None:
    assert not Evidence.parse(TEXT.rstrip("\n")).complete


@pytest.mark.parametrize("count", ["5", "7", "06", "60", "", "six", "6 ", "-6", "6\r"], ids=repr)
def test_an_end_that_counts_otherwise_completes_nothing(count: str) -> None:
    evidence = Evidence.parse(TEXT.replace("= end ok 6", f"= end ok {count}"))
    assert not evidence.complete
    assert evidence.frames == FRAMES


@pytest.mark.parametrize("end", ["= end ok 6", "= end ok 99", "= cut ok evidence"])
def test_what_follows_the_end_is_not_evidence(end: str) -> None:
    text = TEXT.replace("= end ok 6", end) + "= forged ok /etc/passwd\n|x\n= end ok 7\n"
    evidence = Evidence.parse(text)
    assert evidence.frames == FRAMES
    assert evidence.complete is (end == "= end ok 6")


@pytest.mark.parametrize("status", ["", "-1", "1000", "9" * 5000, "four", "\u0664"])
def test_a_status_that_no_command_has_is_no_header(status: str) -> None:
    part = Evidence.parse(TEXT.replace("failed:4", f"failed:{status}"))
    assert not part.complete
    assert "dkms-status" not in part.frames


def test_a_word_that_only_begins_like_a_state_is_none() -> None:
    part = Evidence.parse(TEXT.replace("= cmdline ok ", "= cmdline okay "))
    assert not part.complete
    assert "cmdline" not in part.frames


def test_a_key_that_comes_twice_completes_nothing() -> None:
    text = TEXT.replace("= end ok 6", "= cmdline ok /proc/cmdline\n|other\n= end ok 7")
    assert not Evidence.parse(text).complete


# --- beginnings ---


@pytest.mark.parametrize(
    "banner",
    [
        pytest.param("Welcome to gpu01\n\n", id="message-of-the-day"),
        pytest.param("|= ascii art =|\n= not ok a header\n", id="that-looks-like-ours"),
        pytest.param("= kernel-release ok /forged\n|9.9.9\n= end ok 1\n", id="a-whole-forgery"),
        pytest.param("no newline at its end", id="unended"),
        pytest.param("\x00\x1b[1mhi\x1b[0m\f\u2028\r\n", id="odd-bytes"),
    ],
)
def test_what_precedes_the_beginning_is_not_evidence(banner: str) -> None:
    assert Evidence.parse(banner + TEXT) == WHOLE


@pytest.mark.parametrize("text", ["", "\n", "sh: not found\n", "= kernel-release ok x\n|6\n"])
def test_without_a_beginning_there_is_nothing(text: str) -> None:
    assert Evidence.parse(text) == Evidence({}, complete=False)


@pytest.mark.parametrize("grammar", ["gdr-toolkit/2", "", "gdr-toolkit/1\r"])
def test_another_grammar_is_refused(grammar: str) -> None:
    with pytest.raises(Unparsable, match="evidence: cannot read: '= begin ok "):
        Evidence.parse(TEXT.replace(GRAMMAR, grammar))


# --- noise ---

LINES = TEXT.split("\n")
# Whatever a terminal may bring that does not look like a line of ours.
NOISE = st.text(st.characters(exclude_characters="\n|=", codec=None), max_size=30)
ODD = st.text(st.characters(exclude_characters="\n", codec=None), max_size=30)


@given(st.data())
def test_noise_between_the_lines_changes_nothing(data: st.DataObject) -> None:
    lines = list(LINES)
    for noise in data.draw(st.lists(NOISE, max_size=4)):
        lines.insert(data.draw(st.integers(0, len(lines) - 1)), noise)
    assert Evidence.parse("\n".join(lines)) == WHOLE


@given(st.data())
def test_noise_before_a_line_of_ours_invents_nothing(data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(LINES) - 2))
    noise = data.draw(NOISE.filter(bool))
    lines = [*LINES[:at], noise + LINES[at], *LINES[at + 1 :]]
    part = Evidence.parse("\n".join(lines))
    assert not part.complete
    assert part.frames.items() <= FRAMES.items()


def test_a_state_of_a_later_grammar_takes_its_content_along() -> None:
    text = TEXT.replace("= ofed-info absent ofed_info -s", "= ofed-info partial x\n|5.8")
    part = Evidence.parse(text)
    assert not part.complete
    assert set(part.frames) == set(FRAMES) - {"ofed-info", "cmdline"}


# --- odd content ---


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("a\fb", id="form-feed"),
        pytest.param("a\u2028b\u2029c\x85d", id="unicode-line-ends"),
        pytest.param("a\x00b", id="nul"),
        pytest.param("a\rb\r", id="carriage-return"),
        pytest.param("\udce9\udcff", id="bytes-that-are-no-utf-8"),
        pytest.param("= end ok 6", id="looks-like-the-end"),
        pytest.param("|bar", id="bar"),
        pytest.param("", id="empty"),
        pytest.param(" x ", id="blanks"),
    ],
)
def test_content_is_kept_word_for_word(line: str) -> None:
    frame = Frame("x", State.OK, "x", f"{line}\n")
    evidence = Evidence({"x": frame}, complete=True)
    assert Evidence.parse(evidence.dump()) == evidence


KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8).filter(
    lambda key: key not in {"begin", "end", "cut"}
)


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    state = draw(st.sampled_from(State))
    lines = draw(st.lists(ODD, max_size=3))
    return Frame(
        draw(KEYS),
        state,
        draw(ODD),
        "".join(line + "\n" for line in lines),
        draw(st.integers(1, 255)) if state is State.FAILED else 0,
    )


@given(st.lists(frames(), max_size=5), st.booleans())
def test_dumping_and_parsing_are_inverse(made: list[Frame], complete: bool) -> None:
    evidence = Evidence({frame.key: frame for frame in made}, complete)
    assert Evidence.parse(evidence.dump()) == evidence


@given(st.text(st.characters(codec=None), max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        evidence = Evidence.parse(f"= begin ok {GRAMMAR}\n{text}")
    except Unparsable:
        raise AssertionError("the grammar was ours") from None
    assert Evidence.parse(evidence.dump()) == evidence


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        *(
            (text, True)
            for text in (
                *("x: Operation not permitted\n", "x: Permission denied\n"),
                *("Insufficient Permissions\n", "x must be run as root\n", "must be root\n"),
                *("You need to be root\n", "x has to be run as root\n"),
                *("Root privileges required\n", "root permissions required\n"),
            )
        ),
        ("x: no such device\n", False),
        ("", False),
    ],
)
def test_a_command_that_wants_root_says_so_in_words(text: str, refused: bool) -> None:
    assert Frame("x", State.FAILED, "x", text, exit=1).refused is refused
    assert not Frame("x", State.OK, "x", text).refused
