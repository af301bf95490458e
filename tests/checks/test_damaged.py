"""Damaged texts: cut, flipped, shuffled, with lines gone, one behind another. None crashes.

And none that is cut passes what the whole fails or does not know; a pass by a list that may be cut
between two entries says of how many it is. ``GDR_FAULTS=10000`` says how many are tried,
``GDR_SEED`` which ones; the corpus's captures are among them where they lie beside the checkout.
"""

from __future__ import annotations

import os
import re
from datetime import date
from random import Random

from tests.checks.test_told_cards import card, mlnx_qos, module, statistics
from tests.checks.test_told_cluster import listed_pods, node_offers, plugin_log
from tests.checks.test_told_containers import POD, described, inspected, written
from tests.checks.test_told_fabric import device_list, listed, stated
from tests.checks.test_told_modules import (
    DOWN,
    EXPORT,
    MISSING,
    SWITCH,
    UP,
    config_lines,
    step,
    symbol_line,
)
from tests.checks.test_told_otherwise import ibstatus, rdma_link, stamp
from tests.checks.test_told_ports import mlxlink
from tests.checks.test_told_refusals import refusals
from tests.checks.test_told_setpci import LOOP, register
from tests.checks.test_told_stack import listed_nodes, managed, sections
from tests.corpus.expected import EXPECTED
from tests.corpus.known import CORPUS, HERE
from tests.evidence.test_properties import LISTS
from tests.verbs.test_collections import REPORT
from toolkit.checks.check import Status
from toolkit.checks.judged import judge_node
from toolkit.errors import UsageError
from toolkit.facts.text.pasted_logs import evidence_of, frames_of
from toolkit.verbs.pasted_logs import decoded
from toolkit.want import Want

FAULTS_WANTED = int(os.environ.get("GDR_FAULTS", "300"))
SEED = int(os.environ.get("GDR_SEED", "0"))
DAY = date(2026, 11, 27)
OPEN = {Status.FAIL, Status.UNKNOWN}
LONG = 80_000  # characters
# Lists of which every beginning that ends with an entry is such a list as well.
ENDLESS = frozenset({"dkms-status", "rdma-link", "ibdev2netdev", "ibstatus", "nvidia-smi-csv"})
ENDLESS |= {"ibstat", "ibv-devinfo"}  # each device tells its end, and none how many there are
# What is said of such a list: how many are up, or what of DKMS is installed for which kernel.
COUNTED = re.compile(r"\b\d+ (?:HCA|GPU|port|board)|: installed for ")
Verdicts = dict[str, tuple[Status, str]]


def texts(draw: Random) -> list[str]:
    ports = [
        "".join(
            form(draw, f"mlx5_{at}", *state, "InfiniBand")
            for at, state in enumerate((("ACTIVE", "LinkUp"), ("DOWN", "Polling")))
        )
        for form in (ibstatus, rdma_link)
    ]
    log = "".join(f"{stamp(draw)}{refusals(draw)[1]}\n" for _ in range(9))
    told = [
        *(mlxlink(draw, up=True), card(draw, 1, ats=True), mlnx_qos(draw, "dscp", {3})),
        *(statistics(draw, {"rx_bits_phy": 9, "rx_prio3_pause": 1}), module(draw, "alarm", "None")),
        *(form(draw, POD, status_="Pending", event="") for form in (described, written)),
        inspected(draw, rdma=True, memlock=-1, pins=True),
        *(form(draw, "nvidia-imex", "failed failed") for form in (listed, stated)),
        device_list(draw, ["mlx5_0", "rxe0"]),
        *(listed_pods(draw, ill=ill) for ill in (None, 1)),
        *(plugin_log(draw, some=some) for some in (True, False)),
        node_offers(draw, {"rdma/hca": (63, 0), "rdma/roce": (63, 63)}),
        LOOP + register(draw, "03:00.0", 0x1D) + register(draw, "04:00.0", 0),
        "".join(symbol_line(draw, each, "ib_core") for each in ("x", EXPORT, "y")),
        config_lines(draw, ["options nvidia NVreg_EnableStreamMemOPs=1", "blacklist mlx5_ib"])
        + "$ cat /proc/driver/nvidia/params\nResmanDebugLevel: 1\nEnableStreamMemOPs: 0\n"
        + 'GrdmaPciTopoCheckOverride: 2\nRmMsg: ""\n',
        listed_nodes(draw, ["uverbs0", "umad0", "rdma_cm"]),
        managed(draw, ["28.39.1002", "28.39.3560"]),
        sections(draw, [(131072, 81559), (256, 81559)], memory=True),
        step(draw, DOWN, "OK") + step(draw, UP, "FAILED") + step(draw, UP, "OK"),
        f"{MISSING}$ lspci -nn\n{SWITCH}",
    ]
    found = [*LISTS.values(), *ports, *told, log, REPORT]
    if HERE:
        captures = (decoded((CORPUS / file).read_bytes()) for file in EXPECTED)
        found += [each for each in captures if len(each) < LONG]
    return found


def judged(text: str) -> tuple[frozenset[str], Verdicts]:
    """The sources of a text and the verdicts on it; nothing where it is none that we know."""
    try:
        evidence = evidence_of(frames_of(text, "x"))
    except UsageError:
        return frozenset(), {}
    verdicts = judge_node("x", evidence, Want(), DAY).verdicts
    return frozenset(evidence.frames), {e.check.id: (e.status, e.finding.found) for e in verdicts}


def flipped(draw: Random, text: str) -> str:
    data = bytearray(text.encode("utf-8", "surrogateescape"))
    for _ in range(draw.randrange(1, 9)):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return decoded(bytes(data))


def rearranged(draw: Random, text: str) -> str:
    lines = text.split("\n")
    if draw.random() < 0.5:
        draw.shuffle(lines)
    else:
        at = draw.randrange(len(lines))
        del lines[at : at + draw.randrange(1, 9)]
    return "\n".join(lines)


def test_no_damage_to_a_text_crashes_its_judgement() -> None:
    draw = Random(9 + 2 * SEED)  # noqa: S311 # drawn again the same
    every = texts(draw)
    told = 0
    for _ in range(FAULTS_WANTED // 2):
        text, other = draw.choice(every), draw.choice(every)
        behind = text + other[draw.randrange(len(other)) :]
        told += bool(
            judged(draw.choice((flipped, rearranged))(draw, draw.choice((text, behind))))[0]
        )
    assert told > FAULTS_WANTED // 4, "most of them are still evidence"


def test_no_cut_makes_a_pass_of_what_fails_or_is_not_known() -> None:
    draw = Random(10 + 2 * SEED)  # noqa: S311 # drawn again the same
    every = [(text, judged(text)[1]) for text in texts(draw)]
    for _ in range(FAULTS_WANTED // 2):
        text, whole = draw.choice(every)
        cut = text[: draw.randrange(len(text) + 1)]
        if draw.random() < 0.5:
            cut = cut.rpartition("\n")[0]
        keys, part = judged(cut)
        left = text[len(cut.rstrip()) :].partition("\n")[0]  # of the last line with a word
        passes = {check: found for check, (status, found) in part.items() if status is Status.PASS}
        open_ = {check for check, (status, _) in whole.items() if status in OPEN}
        wrong = {check: found for check, found in passes.items() if check in open_}
        if keys & ENDLESS and not left.strip():
            assert all(map(COUNTED.search, wrong.values())), wrong
            continue
        assert not wrong, (wrong, cut[-300:])
