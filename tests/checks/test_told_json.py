"""mlxlink --json and mlxconfig -j say what both print without: the verdicts are the same."""

from __future__ import annotations

import json
import re
from random import Random

from tests.checks.test_told_cards import TOLD_OF, card
from tests.checks.test_told_otherwise import CHECKS, TEXTS, read
from tests.checks.test_told_ports import mlxlink
from toolkit.checks.check import Status
from toolkit.facts.node.node import Node
from toolkit.want import Want

LINK_CHECKS = ("rdma.port", "rdma.rate", "port.errors")


# mstflint mlxlink/modules/printutil/mlxlink_cmd_print.cpp, toJsonFormat; jsoncpp sorts the keys.
def linked(draw: Random, text: str) -> str:
    sections: dict[str, dict[str, object]] = {}
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    for block in re.split(r"\n(?=[^\n]+\n-+\n)", plain):
        title, _, rows = block.strip("\n").partition("\n")
        pairs = (line.partition(":") for line in rows.split("\n") if ":" in line)
        if has := {key.strip(): value.strip() for key, _, value in pairs}:
            sections[title] = {
                key: {"mask": found[1], "values": found[2].split(",")}
                if (found := re.fullmatch(r"(0x\w+) ?\((.*)\)", value)) and title[0] == "S"
                else value
                for key, value in has.items()
            }
    root = {"result": {"output": sections}, "status": {"code": 0, "message": "success"}}
    return printed(draw, root)


# The same, mlxconfig/mlxcfg_ui.cpp: WriteSingleParam and writeParamToJson.
def carded(draw: Random, text: str) -> str:
    keyed = dict(re.findall(r"^(Device(?: type)?|Name|Description): +(.*?) *$", text, re.MULTILINE))
    heads = re.split(r" {2,}", text.partition("Configurations:")[2].partition("\n")[0].strip())
    configuration = {}
    for line in text.partition("Configurations:")[2].split("\n")[1:]:
        if found := re.match(r"[ *]*(RO)? +([A-Z]\w+) +(\S.*)", line):
            said = (int(e) if e.isdecimal() else e for e in found[3].split())
            values = dict(zip(heads, said, strict=True))
            named = {"Default": "default_value", "Current": "current_value"}
            configuration[found[2]] = {"read_only": bool(found[1])} | {
                named.get(head, "next_value"): value for head, value in values.items()
            }
    number = text.partition("Device #")[2].partition(":")[0]
    root = {
        f"Device #{number}": {
            "device_type": keyed["Device type"],
            "name": keyed["Name"],
            "device": keyed["Device"],
            "tlv_configuration": configuration,
        }
    }
    return printed(draw, root)


def printed(draw: Random, root: object) -> str:
    indent = draw.choice(("\t", 3, None))
    return json.dumps(root, indent=indent, sort_keys=True, separators=(",", " : ")) + "\n"


def judged(text: str, checks: tuple[str, ...]) -> list[tuple[Status, str]]:
    node = Node(read(text))
    found = (CHECKS[each](node, Want()).finding for each in checks)
    return [(each.status, each.found) for each in found]


def test_a_link_is_judged_alike_in_both_forms() -> None:
    draw = Random(91)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        up, lost, ill = (draw.random() < 0.6 for _ in range(3))
        text = mlxlink(draw, up=up, lost=up and lost, ill=not up and ill)
        shown = linked(draw, text)
        before = draw.choice(("", "$ mlxlink -d mlx5_0 -m -c --json\n"))
        assert judged(before + shown, LINK_CHECKS) == judged(before + text, LINK_CHECKS), shown


def test_two_links_behind_their_commands_are_two() -> None:
    draw = Random(92)  # noqa: S311 # drawn again the same
    texts = [mlxlink(draw, up=up) for up in (True, False)]
    asked = [f"$ mlxlink -d mlx5_{at} --json\n{linked(draw, e)}" for at, e in enumerate(texts)]
    ((port, found),) = judged("".join(asked), ("rdma.port",))
    assert (port, "mlx5_1" in found, "mlx5_0" in found) == (Status.FAIL, True, False)


def test_settings_of_a_card_are_judged_alike_in_both_forms() -> None:
    draw = Random(93)  # noqa: S311 # drawn again the same
    for number in range(TEXTS):
        text = card(draw, number, ats=draw.random() < 0.5)
        if not text.rstrip().endswith(")"):
            continue  # a number in the last row may be cut, and tells nothing
        shown = carded(draw, text)
        assert judged(shown, tuple(TOLD_OF)) == judged(text, tuple(TOLD_OF)), shown


def test_what_is_cut_tells_nothing() -> None:
    draw = Random(94)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        shown = linked(draw, mlxlink(draw, up=True))
        cut = shown[: draw.randrange(1, len(shown) - 1)]
        assert all(s is Status.UNKNOWN for s, _ in judged(f"$ mlxlink --json\n{cut}", LINK_CHECKS))
