"""What mail, web pages and shells put around a text that somebody pastes, taken off again.

    > root@gpu01:~# nvidia-smi topo -m
    > ```
    >         GPU0    NIC0    CPU Affinity

It comes off before anything is recognised: no reader of a tool's text knows of it. What only
dresses letters, as colours do, stays in the evidence (``imports.plain``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from itertools import groupby
from textwrap import dedent

from toolkit.facts.kinds import recognise
from toolkit.untrusted import read_json

_QUOTED = re.compile(r"^[ \t]{0,3}>(?: |(?=\t)|(?=>)|$)")
_FENCE = re.compile(r"^\s{0,3}(?:```|~~~)[\w+-]*\s*$")
_CODE = re.compile(r"^`(?=[^`]+`$)|(?<=[^`])`$")  # a line that is code, within its text
EDGE = "\x1e"  # a line of its own where code among prose begins or ends
_NUMBERS = re.compile(r" *\d{1,9}\t")
_BARS = re.compile(r"\|(?: |$)")
# What stands before each line where a tool numbered it, or said when and by which stream it came:
# coreutils src/cat.c; kubernetes pkg/kubelet/kuberuntime/logs, whose times have nine decimals.
_MARGINS = (
    re.compile(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?"
    ),
    _NUMBERS,
    _BARS,
)
_ENTITY = re.compile(r"&(?:#\d{2,4}|#x[0-9a-fA-F]{2,4}|lt|gt|amp|quot|apos|nbsp);")
_LINES_SHOWN = re.compile(r"(?:\\r)?\\n")  # of a string in JSON or in a program's listing
_ESCAPE_SHOWN = re.compile(r"\\(?:x1[bB]|u001[bB]|033)")
_INDENT = " " * 4  # of a block of code in Markdown
_MANY = 3
_SHOWN_ESCAPE = re.compile(r"\^\[\[[0-9;?]*[A-Za-z]")  # as cat -v and some pagers print it
_ENDS = re.compile(r"\r+\n")
_STRAIGHT = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")
_DEEP = 3  # quotes within quotes
_ROUND = 3  # lines of a mail around what it quotes


def undressed(text: str) -> str:
    """The text as the tool printed it, as far as one can tell; its lines end with ``\\n``."""
    text = _ENDS.sub("\n", text.removeprefix("\ufeff")).translate(_STRAIGHT)
    if "^[[" in text:
        text = _SHOWN_ESCAPE.sub("", text)
    text = _without_margin(_as_typed(text))
    for _ in range(_DEEP):
        lines = text.split("\n")
        quoted = [bool(_QUOTED.match(line)) for line in lines]
        if not any(quoted):
            break
        first, last = quoted.index(True), len(quoted) - quoted[::-1].index(True)
        before, behind = lines[:first], lines[last:]
        span = lines[first:last] if _few(before) and _few(behind) else lines
        if 2 * sum(quoted) <= sum(bool(line.strip()) for line in span):
            break
        # Without the few lines of the mail before the quote and behind it.
        kept = [*([] if _few(before) else before), *lines[first:last]]
        kept += [""] if _few(behind) else behind
        text = "\n".join(_QUOTED.sub("", line, count=1) for line in kept)
    text = _without_fences(text) if "```" in text or "~~~" in text else text
    return as_lines(text) if "MESSAGE" in text else text


def _few(lines: list[str]) -> bool:
    """Whether they are a mail's own: a greeting, and no tool's answer below a ">" that prompts."""
    said = sum(bool(line.strip()) for line in lines)
    return said <= _ROUND and (not said or recognise("\n".join(lines)) is None)


def _without_fences(text: str) -> str:
    """The text with EDGE where code begins and ends; what is glued to a fence stays."""
    lines = []
    for line in text.split("\n"):
        if _FENCE.match(line):
            lines.append(EDGE)
        elif line.startswith("```"):
            lines += [EDGE, line.lstrip("`")]
        elif line.rstrip().endswith("```"):
            lines += [line.rstrip().rstrip("`"), EDGE]
        else:
            lines.append(_CODE.sub("", line))
    return "\n".join(lines)


def _as_typed(text: str) -> str:
    """The text of a page's source, or of one string that a program listed."""
    if _ENTITY.search(text) and not text.lstrip().startswith("<"):
        text = unescape(text)
    bare = text.strip()
    ends = len(_LINES_SHOWN.findall(bare)) if "\n" not in bare else 0
    if ends >= _MANY or (ends and bare[0] == bare[-1] and bare[0] in "\"'"):
        text = _LINES_SHOWN.sub("\n", bare.strip("\"'")).replace("\\t", "\t") + "\n"
        text = _ESCAPE_SHOWN.sub("\x1b", text)
    return text


def _without_margin(text: str) -> str:
    """Without what stands before every line, and without the indent of code among prose."""
    lines = [line for line in text.split("\n") if line.strip()]
    for margin in _MARGINS:
        if lines and all(map(margin.match, lines)) and _is_margin(margin, lines):
            return "\n".join(margin.sub("", line, count=1) for line in text.split("\n"))
    if lines and all(line[0] == " " for line in lines) and not recognise("\n".join(lines)):
        shifted = dedent(text)  # as a whole, by however much
        if recognise(shifted):
            return shifted
    indented = any(line.startswith(_INDENT) for line in lines)
    return "\n".join(_unindented(text.split("\n"))) if indented else text


def _is_margin(margin: re.Pattern[str], lines: list[str]) -> bool:
    """Whether numbers are those of lines, and bars no table's."""
    if margin is _NUMBERS:
        return [int(line.split()[0]) for line in lines[:_MANY]] == [1, 2, 3][: len(lines)]
    return margin is not _BARS or not all(line.rstrip().endswith("|") for line in lines)


def _unindented(lines: list[str]) -> list[str]:
    """The lines, with what is indented as a whole between blank lines brought back.

    Heads of some tools are indented themselves: what is then no tool's stays as it is.
    """
    if all(map(_shifted, lines)) and recognise("\n".join(lines)):
        return lines
    found: list[str] = []
    for inner, group in groupby(range(len(lines)), key=lambda at: _shifted(lines[at])):
        at = list(group)
        told = lines[at[0] : at[-1] + 1]
        alone = not at[0] or not told[0].strip()
        ended = at[-1] + 1 == len(lines) or not told[-1].strip()
        code = inner and alone and ended and any(map(str.strip, told))
        found += _brought_back(told) if code else told
    return found


def _shifted(line: str) -> bool:
    return not line.strip() or line.startswith(_INDENT)


def _brought_back(told: list[str]) -> list[str]:
    """Lines without the indent that all have, where that makes them a tool's."""
    least = min(len(line) - len(line.lstrip(" ")) for line in told if line.strip())
    lines = [line[least:] for line in told]
    return [EDGE, *lines, EDGE] if recognise("\n".join(lines)) else told


# Entries of the journal as fields, made into the lines that journalctl prints without ``-o``.
# Sources, as read: systemd src/shared/logs-show.c (output_json, output_export, output_verbose,
# output_short) and man/journalctl.xml, -o: json, json-pretty, json-seq, json-sse, export, verbose.
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
