"""Registers of ACS as setpci tells them, in all its words, and whose word they are.

Texts are drawn from the sources that stand above each; each form is tried on ``TEXTS`` of them.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.checks.test_told_modules import found, quoted
from tests.checks.test_told_otherwise import TEXTS, read, status
from toolkit.checks.check import Status

FAIL, PASS, UNKNOWN = Status.FAIL, Status.PASS, Status.UNKNOWN


# pciutils setpci.c, exec_op and its trace of -v; loops as people write them.
def register(draw: Random, at: str, value: int) -> str:
    return draw.choice(
        (
            f"{at} {value:04x}\n",
            f"{at}: {value:04x}\n",
            f"{at} ECAP_ACS+6.w = {value:04x}\n",
            f"0000:{at} (ecap 000d @148) @14e = {value:04x}\n",
        )
    )


LOOP = "$ for b in $BRIDGES; do echo -n $b; setpci -s $b ECAP_ACS+6.w; done\n"


def test_registers_of_acs_are_counted_by_what_they_redirect_and_judge_no_path_alone() -> None:
    draw = Random(95)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        values = [draw.choice((0x0000, 0x0001, 0x001D, 0x005F, 0x0010)) for _ in range(3)]
        redirecting = sum(bool(value & 0x2C) for value in values)
        if draw.random() < 0.7:
            rows = [register(draw, f"{at:02x}:00.0", value) for at, value in enumerate(values, 3)]
            text = LOOP + "".join(rows)
        else:
            text = "".join(
                f"# setpci -s {at:02x}:00.0 ECAP_ACS+0x6.w\n{value:04x}\n"
                for at, value in enumerate(values, 3)
            )
        text = quoted(draw, text)
        assert set(read(text).frames) == {"setpci-said"}, text
        assert status("acs.redirect", text) is UNKNOWN, text
        assert f"redirected by {redirecting} of 3 ACS control registers" in found(
            "acs.redirect", text
        ), text


TREE = (
    "0000:00:00.0 Host bridge [0600]: Intel Corporation [8086:09a2]\n"
    "0000:00:01.0 PCI bridge [0604]: Intel Corporation [8086:352a]\n"
    "\tBus: primary=00, secondary=01, subordinate=05, sec-latency=0\n"
    "0000:01:00.0 PCI bridge [0604]: Broadcom / LSI [1000:c030]\n"
    "\tBus: primary=01, secondary=02, subordinate=05, sec-latency=0\n"
    "0000:02:00.0 PCI bridge [0604]: Broadcom / LSI [1000:c030]\n"
    "\tBus: primary=02, secondary=03, subordinate=03, sec-latency=0\n"
    "0000:02:01.0 PCI bridge [0604]: Broadcom / LSI [1000:c030]\n"
    "\tBus: primary=02, secondary=04, subordinate=04, sec-latency=0\n"
    "0000:03:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]\n"
    "0000:04:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 [15b3:1021]\n"
)


@pytest.mark.parametrize(("value", "want"), [(0x001D, FAIL), (0x0011, PASS)])
def test_registers_beside_a_tree_judge_the_bridges_between_a_gpu_and_its_hca(
    value: int, want: Status
) -> None:
    rows = "".join(f"0000:02:0{at}.0 {value:04x}\n" for at in range(2))
    none = "setpci: 0000:01:00.0: Instance #0 of Extended capability 000d not found - none\n"
    assert status("acs.redirect", f"$ lspci -v -nn -D\n{TREE}{LOOP}{rows}{none}") is want
    one = rows.partition("\n")[0]
    if want is PASS:
        assert status("acs.redirect", f"$ lspci -v -nn -D\n{TREE}{LOOP}{one}\n") is UNKNOWN


BESIDE = f"$ lspci -v -nn -D\n{TREE}"
OTHER = "$ for b in $BRIDGES; do echo -n $b; setpci -s $b CAP_EXP+8.w; done\n"
CLEAR = "0000:02:00.0 0000\n0000:02:01.0 0000\n"
ASK, WRITE = "# setpci -s 02:00.0 ECAP_ACS+6.w", "# setpci -s 02:00.0 ECAP_ACS+6.w=0000\n"
V = "0000:02:0{}.0 (ecap 000d @148) @{} = {}\n"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            f"{OTHER}{CLEAR.replace(' 0000', ' 2810')}{LOOP}"
            "0000:02:00.0 001d\n0000:02:01.0 001d\n",
            FAIL,
            id="of-another-register-before",
        ),
        pytest.param(
            f"{LOOP}0000:02:00.0 001d\n0000:02:01.0 001d\n{OTHER}"
            f"{CLEAR.replace(' 0000', ' 2810')}",
            FAIL,
            id="of-another-register-behind",
        ),
        pytest.param(
            LOOP.replace("; done", " CAP_EXP+8.w; done") + CLEAR, UNKNOWN, id="of-two-at-once"
        ),
        pytest.param(
            LOOP + V.format(0, "14e", "0000") + V.format(1, "14e", "0000"), PASS, id="places"
        ),
        pytest.param(
            LOOP + "".join(V.format(at, "14c", "005f") for at in (0, 1)),
            UNKNOWN,
            id="places-of-the-capability",
        ),
        pytest.param(
            LOOP.replace("+6", "+4")
            + V.format(0, "14c", "005f") + V.format(0, "14e", "0000")
            + V.format(1, "14c", "005f") + V.format(1, "14e", "0000"),
            PASS,
            id="both-places",
        ),
        pytest.param(f"{LOOP}{CLEAR}0000:02:00.0 001d\n", UNKNOWN, id="two-values"),
        pytest.param(f"{LOOP}{CLEAR}{WRITE}", UNKNOWN, id="written-since"),
        pytest.param(
            f"{LOOP}{CLEAR}# for b in $B; do setpci -s $b ECAP_ACS+6.w=0000; done\n",
            UNKNOWN,
            id="written-since-in-a-loop",
        ),
        pytest.param(
            f"{LOOP}{CLEAR}{WRITE.replace('+6.w=0000', '+4.l=001d0000')}",
            UNKNOWN,
            id="written-since-with-its-neighbour",
        ),
        pytest.param(
            f"{LOOP}{CLEAR}{WRITE.replace('ECAP_ACS+6', '14e')}",
            UNKNOWN,
            id="written-since-by-number",
        ),
        pytest.param(
            f"{LOOP}{CLEAR}{WRITE.replace('ECAP_ACS+6', 'CAP_EXP+8')}",
            PASS,
            id="another-register-written",
        ),
        pytest.param(
            LOOP.replace("; done", "; setpci -s $b ECAP_ACS+6.w=001d; done") + CLEAR,
            UNKNOWN,
            id="written-behind-each-read",
        ),
        pytest.param(
            f"{LOOP}{CLEAR.replace('0 0000', '0 001d', 1)}{WRITE}{ASK}\n0000\n",
            PASS,
            id="written-and-read-again",
        ),
        pytest.param(
            f"{ASK}\n0000\n{LOOP}0000:02:01.0 0000\n{WRITE.replace('2:00', '3:00')}",
            PASS,
            id="another-written",
        ),
    ],
)  # fmt: skip
def test_a_register_passes_by_what_was_asked_where_it_is_and_what_was_written_since(
    text: str, want: Status
) -> None:
    assert status("acs.redirect", BESIDE + text) is want


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        pytest.param("$", "$ sudo", UNKNOWN, id="sudo-beside-none"),
        pytest.param("$", "root@n1:~#", UNKNOWN, id="root-beside-a-user"),
        pytest.param("user@gpu01:~$", "root@gpu01:~#", UNKNOWN, id="prompts-with-hosts"),
        pytest.param("$ sudo", "$ sudo", PASS, id="sudo-both"),
        pytest.param("root@gpu01:~#", "root@gpu01:~#", PASS, id="root-both"),
    ],
)
def test_who_may_read_no_capability_does_not_tell_that_there_is_none(
    first: str, second: str, want: Status
) -> None:
    none = "setpci: 0000:02:00.0: Instance #0 of Extended capability 000d not found - none\n"
    loop = "for b in $B; do echo -n $b; {} -s $b ECAP_ACS+6.w; done\n"
    runs = [each.partition("sudo")[1] + " setpci" for each in (first, second)]
    signs = [each.partition(" ")[0] for each in (first, second)]
    asks = [f"{sign} {loop.format(run)}" for sign, run in zip(signs, runs, strict=True)]
    rows = [none, "0000:02:01.0 0000\n0000:01:00.0 0000\n"]
    parts = [ask + said
             for ask, said in zip(asks, rows, strict=True)]  # fmt: skip
    for text in ("".join(parts), "".join(reversed(parts))):
        assert status("acs.redirect", BESIDE + text) is want, text


def test_what_setpci_wrote_is_not_what_it_read() -> None:
    wrote = "0000:03:00.0 (ecap 000d @148) @14e 0000\n"
    text = f"# setpci -v -s 03:00.0 ECAP_ACS+6.w=0000\n{wrote}"
    assert set(read(text).frames) == {"setpci-said"}
    assert "did not write it" in found("acs.redirect", text)


def test_registers_of_which_nobody_says_what_they_are_tell_nothing() -> None:
    assert "is not told" in found("acs.redirect", "03:00.0 2910\n04:00.0 2910\n")
