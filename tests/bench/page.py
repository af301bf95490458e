"""A page about a thousand captured nodes: how long it takes to make, and how large it is.

    python -m tests.bench.page [--nodes 1000] [--keep FILE] [--open]

The captures are those of ``tests.bench.judge``, healthy and ill, made unlike one another as real
machines are: see ``tests.bench.compare``.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from dev.pictures import browser
from tests.bench.judge import LIKE, TODAY, captured, resident_mib, unlike
from toolkit.features.page.cli import looking
from toolkit.features.page.show.parts import html
from toolkit.features.page.show.seen import Seeing
from toolkit.features.page.show.view import make
from toolkit.verbs.each import on_saved
from toolkit.verbs.saved import read_saved
from toolkit.want import Want

LIMIT_MB, LIMIT_S = 15.0, 2.0


def fill(folder: Path, count: int) -> int:
    """``count`` captures, one in ten of them ill; their size in bytes."""
    chance = random.Random(1)  # noqa: S311 # the same noise in every run
    with tempfile.TemporaryDirectory() as place:
        texts = [captured(name, Path(place)) for name in LIKE]
    size = 0
    for number in range(count):
        text = texts[1 + number // 10 % (len(texts) - 1)] if number % 10 == 9 else texts[0]
        text = text.replace(f"|{LIKE[0]}", f"|n{number:04d}")
        size += (folder / f"gpu{number:04d}.evidence").write_text(unlike(text, number, chance))
    return size


def page(folder: Path) -> str:
    """What ``report --from FOLDER --html`` writes."""
    seeing = Seeing(Want())
    outcomes = on_saved(read_saved(folder), looking(seeing, TODAY))
    made = make(outcomes, seeing.passing, "peermem", datetime(2026, 11, 22, tzinfo=UTC))
    return "".join(html(made, "./invokew report --from evidence"))


def opened_s(file: Path) -> float:
    """How long Chromium takes until the page can be used."""
    with browser() as chromium:
        tab = chromium.new_page()
        tab.goto(file.as_uri())
        tab.locator("#shown", has_text="nodes").wait_for()
        return float(tab.evaluate("performance.now()")) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--keep", type=Path, help="write the page to this file")
    parser.add_argument("--open", action="store_true", help="and open it in Chromium")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = fill(folder, chosen.nodes)
        print(f"captures  {chosen.nodes} of {size / chosen.nodes / 1024:.0f} KiB")
        begun = time.process_time()
        text = page(folder)
        print(f"time      {time.process_time() - begun:.1f} s of one core")
    megabytes = len(text.encode()) / 1e6
    print(f"page      {megabytes:.2f} MB")
    print(f"resident  {resident_mib():.0f} MiB")
    if chosen.keep:
        chosen.keep.write_text(text)
    if megabytes > LIMIT_MB:
        sys.exit(f"more than {LIMIT_MB:.0f} MB")
    if chosen.open:
        with tempfile.NamedTemporaryFile("w", suffix=".html") as file:
            file.write(text)
            file.flush()
            taken = opened_s(Path(file.name))
        print(f"opened    after {taken:.2f} s (asked: {LIMIT_S} s)")


if __name__ == "__main__":
    main()
