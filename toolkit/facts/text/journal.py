"""Entries of the journal as fields, made into the lines that journalctl prints without ``-o``.

Sources, as read: systemd src/shared/logs-show.c (output_json, output_export, output_verbose,
output_short) and man/journalctl.xml, -o: json, json-pretty, json-seq, json-sse, export, verbose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolkit.untrusted import read_json

_FIELD = re.compile(r"\s*([A-Z_][A-Z0-9_]*)=(.*)")
_HEAD = re.compile(r"(\w{3} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \S+) \[s=[^]]*\]\s*")
_OF_JSON = re.compile(r"(?:\x1e|data: )?(\{.*\})\s*")
_SAYS, _WHEN, _MICROSECONDS = "MESSAGE", "__REALTIME_TIMESTAMP", 1_000_000
_MOST = 500  # lines of one entry
Fields = dict[str, object]


def as_lines(text: str) -> str:
    """The text with each entry as one line; between two boots stands what journalctl says there.

    What is no entry, or one without a message that can be read, is left as it is.
    """
    lines: list[str] = []
    boot = ""
    for part in _entries(text.split("\n")):
        if isinstance(part, str):
            lines.append(part)
            continue
        now = str(part.get("_BOOT_ID", ""))
        if boot and now and now != boot:
            lines.append(f"-- Boot {now} --")
        boot = now or boot
        lines += _line(part)
    return "\n".join(lines)


def _line(entry: Fields) -> list[str]:
    message = entry[_SAYS]
    at = str(entry.get(_WHEN, ""))
    stamp = str(entry.get("at", ""))
    if at.isdecimal():
        stamp = f"{int(at) // _MICROSECONDS}.{int(at) % _MICROSECONDS:06}"
    who = str(entry.get("SYSLOG_IDENTIFIER") or entry.get("_COMM") or entry["_TRANSPORT"])
    host = str(entry.get("_HOSTNAME", ""))
    before = " ".join(filter(None, (stamp or "[    0.000000]", host, f"{who}:")))
    return [f"{before} {each}" for each in str(message).split("\n")]


def _entries(lines: list[str]) -> Iterator[str | Fields]:
    at = 0
    while at < len(lines):
        taken, entry = _entry(lines, at)
        if entry and isinstance(entry.get(_SAYS), str) and {_WHEN, "_TRANSPORT"} & entry.keys():
            yield {"_TRANSPORT": "unknown", **entry}
        else:
            yield from lines[at : at + taken]
        at += taken


def _entry(lines: list[str], at: int) -> tuple[int, Fields]:
    """How many lines from here are one entry, and its fields; (1, {}) where none begins."""
    if found := _OF_JSON.fullmatch(lines[at]):
        return 1, _of_json(found[1])
    if lines[at].strip() == "{":
        end = next(
            (n for n in range(at, min(at + _MOST, len(lines))) if lines[n].rstrip() == "}"), at
        )
        return end - at + 1, _of_json("\n".join(lines[at : end + 1]))
    head = _HEAD.fullmatch(lines[at])
    fields: Fields = {"at": head[1]} if head else {}
    end = at + bool(head)
    while end < len(lines) and (each := _FIELD.fullmatch(lines[end])):
        fields[each[1]] = each[2]
        end += 1
    return max(end - at, 1), fields


def _of_json(text: str) -> Fields:
    try:
        entry = read_json(text)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}
