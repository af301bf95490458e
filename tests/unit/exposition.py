"""The text format of Prometheus, read strictly: what its collector would refuse is refused.

Source: Prometheus, Exposition formats, text format 0.0.4; node_exporter, collector/textfile.go.
"""

from __future__ import annotations

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL})(?:,{LABEL})*)\}})? (?P<value>-?[0-9]+)")
_BACK = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Key = tuple[str, tuple[tuple[str, str], ...]]


def parse(text: str) -> dict[Key, int]:
    """Every sample by metric and sorted labels.

    :raises ValueError: at what the collector would refuse: a time behind a sample, a sample
        that comes twice, a family that is not in one piece or has no HELP and TYPE before it.
    """
    if not text.endswith("\n") or "\r" in text:
        raise ValueError("lines end with one newline, the last one too")
    found: dict[Key, int] = {}
    helped: list[str] = []
    typed: list[str] = []
    for line in text.split("\n")[:-1]:
        if head := re.fullmatch(rf"# HELP ({NAME}) (?:[^\\\n]|\\[\\n])*", line):
            if head[1] in helped:
                raise ValueError(f"a second HELP: {line}")
            helped.append(head[1])
        elif head := re.fullmatch(rf"# TYPE ({NAME}) gauge", line):
            if helped[-1:] != [head[1]] or head[1] in typed:
                raise ValueError(f"TYPE not right after its HELP: {line}")
            typed.append(head[1])
        elif sample := SAMPLE.fullmatch(line):
            _take(sample, typed, found)
        else:
            raise ValueError(f"no line of the format: {line!r}")
    return found


def _take(sample: re.Match[str], typed: list[str], found: dict[Key, int]) -> None:
    if typed[-1:] != [sample[1]]:
        raise ValueError(f"outside of its family: {sample[0]}")
    pairs = [
        (name, re.sub(r"\\.", lambda one: _BACK[one[0]], value))
        for name, value in re.findall(LABEL, sample[2] or "")
    ]
    names = [name for name, _ in pairs]
    if len(names) != len(set(names)):
        raise ValueError(f"a label twice: {sample[0]}")
    key = (sample[1], tuple(sorted(pairs)))
    if key in found:
        raise ValueError(f"a sample twice: {sample[0]}")
    found[key] = int(sample["value"])
