"""The kernel's lines in every form in which journalctl tells of them, held to one verdict."""

from __future__ import annotations

import json
from random import Random

import pytest

from tests.checks.test_told_otherwise import HOSTS, TEXTS, read, status
from toolkit.checks.check import Status

BOOT_IDS = ("5d" * 16, "6e" * 16)
SYMBOL = "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err {})"
REFUSED = SYMBOL.format(-2)
Entry = dict[str, str]


def entries(draw: Random, *said: str, boot: str = BOOT_IDS[0]) -> list[Entry]:
    host, at = draw.choice(HOSTS), draw.randrange(10**15, 2 * 10**15)
    found = []
    for number, message in enumerate(said):
        fields = [
            ("__CURSOR", "s=ab;i=1"),
            ("__REALTIME_TIMESTAMP", str(at + number)),
            ("_BOOT_ID", boot),
            ("_HOSTNAME", host),
            ("_TRANSPORT", "kernel"),
            ("SYSLOG_IDENTIFIER", "kernel"),
            ("PRIORITY", "4"),
            ("MESSAGE", message),
        ]
        found.append(dict(draw.sample(fields, len(fields))))
    return found


# systemd src/shared/logs-show.c: output_json for four of them, output_export, output_verbose.
def printed(draw: Random, listed: list[Entry]) -> str:
    form = draw.choice(("json", "json-seq", "json-sse", "json-pretty", "export", "verbose"))
    if form == "json-pretty":
        return "".join(json.dumps(e, indent="\t", separators=(",", " : ")) + "\n" for e in listed)
    if form.startswith("json"):
        before, after = {"json-seq": ("\x1e", ""), "json-sse": ("data: ", "\n")}.get(form, ("", ""))
        return "".join(f"{before}{json.dumps(each)}\n{after}" for each in listed)
    if form == "export":
        return "".join("".join(f"{k}={v}\n" for k, v in each.items()) + "\n" for each in listed)
    shown = ("".join(f"    {k}={v}\n" for k, v in e.items() if k[:2] != "__") for e in listed)
    head = f"Mon 2026-11-{draw.randrange(10, 28)} 08:00:01.000000 CET [s=ab;i=1;b=cd;m=1;t=1;x=1]\n"
    return "".join(head + each for each in shown)


def test_a_refused_module_is_told_in_every_form_of_the_journal() -> None:
    draw = Random(81)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        said = draw.sample((REFUSED, "usb 1-1: new device", "mlx5_core 0000:1a:00.0: up"), 3)
        text = printed(draw, entries(draw, *said))
        text = draw.choice(("", "$ journalctl -k -o json\n")) + text
        assert status("peermem.unknown_symbol", text) is Status.FAIL, text


def test_what_an_earlier_boot_said_in_fields_is_not_of_this_one() -> None:
    draw = Random(82)  # noqa: S311 # drawn again the same
    before, now = entries(draw, REFUSED), entries(draw, "usb 1-1: new", boot=BOOT_IDS[1])
    text = "".join(json.dumps(each) + "\n" for each in (*before, *now))
    assert status("peermem.unknown_symbol", text) is Status.UNKNOWN
    assert REFUSED in read(text).text("earlier-boot")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{\n" * 20_000, id="many-that-do-not-end"),
        pytest.param('{"MESSAGE": [1, 2], "_TRANSPORT": "kernel"}\n', id="bytes"),
        pytest.param('{"MESSAGE": null, "_TRANSPORT": "kernel"}\n', id="too-long-for-it"),
        pytest.param('{"MESSAGE": "x", "other": 1}\n', id="not-the-journal's"),
        pytest.param('MESSAGE=x\n{"MESSAGE": \n', id="half-ones"),
    ],
)
def test_what_is_no_entry_is_left_as_it_is(text: str) -> None:
    log = f"[    9.123456] {REFUSED}\n"
    assert read(text + log).text("dmesg").endswith(log)
    assert status("peermem.unknown_symbol", text + log) is Status.FAIL
