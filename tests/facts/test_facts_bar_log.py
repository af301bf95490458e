"""The kernel's last word on each BAR, in its old wording and its new one."""

from __future__ import annotations

import pytest

from toolkit.facts.pci.kernel_log import homeless_bars

AT = "0000:18:00.0"
OLD_REFUSED = [
    f"[    1.9] pci {AT}: BAR 1: no space for [mem size 0x2000000000 64bit pref]",
    f"[    1.9] pci {AT}: BAR 1: failed to assign [mem size 0x2000000000 64bit pref]",
]
OLD_PLACED = [f"[    2.0] pci {AT}: BAR 1: assigned [mem 0x20000000000-0x21fffffffff 64bit pref]"]
NEW_REFUSED = [
    f"[    1.9] pci {AT}: BAR 1 [mem size 0x2000000000 64bit pref]: can't assign; no space",
    f"[    1.9] pci {AT}: BAR 1 [mem size 0x2000000000 64bit pref]: failed to assign",
]
NEW_PLACED = [f"[    2.0] pci {AT}: BAR 1 [mem 0x20000000000-0x21fffffffff 64bit pref]: assigned"]
NVRM = [f"[    9.1] NVRM: BAR1 is 0M @ 0x0 (PCI:{AT})"]


@pytest.mark.parametrize(
    ("lines", "homeless"),
    [
        pytest.param([], set(), id="says-nothing"),
        pytest.param(OLD_REFUSED, {AT}, id="old"),
        pytest.param(OLD_REFUSED + OLD_PLACED, set(), id="old-and-then-placed"),
        pytest.param(NEW_REFUSED, {AT}, id="new"),
        pytest.param(NEW_REFUSED + NEW_PLACED, set(), id="new-and-then-placed"),
        pytest.param(NEW_PLACED + NEW_REFUSED, {AT}, id="placed-and-then-lost"),
        pytest.param(
            NEW_REFUSED + [each.replace("BAR 1", "BAR 3") for each in NEW_PLACED],
            {AT},
            id="another-bar-was-placed",
        ),
        pytest.param(
            [f"pci {AT}: BAR 0 [mem 0xe0000000-0xe0ffffff]: can't claim; no compatible bridge"],
            {AT},
            id="claim",
        ),
        pytest.param([f"pci {AT}: BAR 5 [io size 0x80]: can't assign"], set(), id="ports"),
        pytest.param([f"pci {AT}: BAR 5: no space for [io  size 0x0080]"], set(), id="old-ports"),
        pytest.param(
            [f"pci {AT}: bridge window [mem size 0x100000]: can't assign; no space"],
            set(),
            id="window-of-a-bridge",
        ),
        pytest.param(
            [f"pci {AT}: VF BAR 0 [mem size 0x8000000 64bit pref]: can't assign; no space"],
            set(),
            id="virtual-functions",
        ),
        pytest.param(NVRM, {AT}, id="the-driver-says-so"),
        pytest.param(
            NEW_REFUSED + [each.replace("pci ", "nvidia ") for each in NEW_PLACED],
            set(),
            id="placed-once-its-driver-was-there",
        ),
    ],
)
def test_the_last_word_counts(lines: list[str], homeless: set[str]) -> None:
    assert set(homeless_bars(lines)) == homeless
