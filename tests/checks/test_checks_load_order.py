"""Is nvidia-peermem there before slurmd and kubelet begin? By the journal, or by units' times."""

from __future__ import annotations

import pytest

from tests.evidence.build import node
from tests.evidence.frames import ABSENT, Override, failed
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, name
from toolkit.errors import Unparsable
from toolkit.facts.modules.load_order import Inserted, parse_inserted, parse_unit_times
from toolkit.facts.node.node import Node
from toolkit.plan.artefacts_modules import ORDER
from toolkit.want import Want


def unit(
    name: str, began: float = 0, done: float = 0, *, state: str = "active", result: str = "success"
) -> str:
    """One block of ``systemctl show``, as systemd 252 prints it."""
    return (
        f"Result={result}\nId={name}.service\nLoadState=loaded\nActiveState={state}\n"
        f"InactiveExitTimestampMonotonic={began * 1e6:.0f}\n"
        f"ActiveEnterTimestampMonotonic={done * 1e6:.0f}\n"
    )


def units(
    modules_load: str | None = None,
    ours: str | None = None,
    slurmd: str | None = None,
    kubelet: str | None = None,
) -> str:
    def none(name: str) -> str:
        blank = unit(name, state="inactive").replace("LoadState=loaded", "LoadState=not-found")
        return blank.replace("Result=success\n", "")

    return "\n".join(
        [
            modules_load or unit("systemd-modules-load", 3.0, 4.0),
            ours or none("gdr-toolkit-peermem"),
            slurmd or none("slurmd"),
            kubelet or none("kubelet"),
        ]
    )


SLURMD = unit("slurmd", 20.5, 20.9)
NOTED = "[    3.700000] systemd-modules-load[211]: Inserted module 'nvidia_peermem'\n"
REFUSED = (
    "[    3.700000] systemd-modules-load[211]: Failed to insert module 'nvidia_peermem': "
    "No such device\n"
)
NOT_FOUND = "[    3.700000] systemd-modules-load[211]: Failed to find module 'nvidia-peermem'\n"
LOADED_ALREADY = (
    "[    3.700000] systemd-modules-load[211]: Module 'nvidia_peermem' is already loaded\n"
)


def says(order: str, log: Override = "") -> dict[str, Override]:
    return {"boot-order": order, "boot-order-log": log}


ROWS = [
    Row("nothing-starts-jobs", "peermem.order", NA, "neither slurmd nor kubelet is started"),
    Row("not-started-yet", "peermem.order", NA, "has been started",
        says(units(slurmd=unit("slurmd", state="inactive")), NOTED)),
    Row("noted-by-the-journal", "peermem.order", PASS,
        "inserted 3.7 s after the boot, slurmd.service began at 20.5 s",
        says(units(slurmd=SLURMD), NOTED)),
    # systemd-modules-load ends well where it finds no such module.
    Row("the-journal-has-forgotten", "peermem.order", UNKNOWN, "the journal does not tell",
        says(units(slurmd=SLURMD))),
    Row("no-journal", "peermem.order", UNKNOWN, "the journal does not tell",
        says(units(slurmd=SLURMD), failed(1, "No journal files were opened\n"))),
    Row("noted-too-late", "peermem.order", FAIL, "inserted 30.0 s after the boot",
        says(units(unit("systemd-modules-load", 29, 31), slurmd=SLURMD),
             NOTED.replace(" 3.7", "30.0"))),
    Row("the-first-of-two-counts", "peermem.order", FAIL, "inserted 3.7 s",
        says(units(slurmd=SLURMD, kubelet=unit("kubelet", 2.5, 3)), NOTED)),
    Row("refused-at-boot", "peermem.order", FAIL, "Failed to insert module 'nvidia_peermem'",
        says(units(unit("systemd-modules-load", 3, 0, state="failed", result="exit-code"),
                   slurmd=SLURMD), REFUSED)),
    Row("refused-at-boot-and-loaded-by-our-unit", "peermem.order", PASS,
        "gdr-toolkit-peermem.service was up 12.0 s",
        says(units(unit("systemd-modules-load", 3, 0, state="failed", result="exit-code"),
                   unit("gdr-toolkit-peermem", 11, 12), SLURMD), REFUSED)),
    Row("our-unit-failed-too", "peermem.order", FAIL, "Failed to insert",
        says(units(None, unit("gdr-toolkit-peermem", 11, 0, state="failed", result="exit-code"),
                   SLURMD), REFUSED)),
    Row("another-module-failed", "peermem.order", PASS, "inserted 3.7 s",
        says(units(unit("systemd-modules-load", 3, 0, state="failed", result="exit-code"),
                   slurmd=SLURMD), NOTED + REFUSED.replace("nvidia_peermem", "gdrdrv"))),
    Row("nothing-loads-it", "peermem.order", NA, "see peermem.autoload",
        says(units(slurmd=SLURMD)) | {"modules-load": ""}),
    Row("not-found-at-boot", "peermem.order", FAIL, "Failed to find module 'nvidia-peermem'",
        says(units(slurmd=SLURMD), NOT_FOUND)),
    Row("with-the-driver-at-a-time-that-nobody-tells", "peermem.order", UNKNOWN, "does not tell",
        says(units(slurmd=SLURMD))
        | {"modules-load": "", "modprobe-config": "softdep nvidia post: nvidia-peermem\n"}),
    Row("no-systemctl", "peermem.order", NA, "neither", says("") | {"boot-order": ABSENT}),
    Row("systemctl-failed", "peermem.order", UNKNOWN, "ended with status 1",
        {"boot-order": failed(1, "Failed to connect to bus\n")}),
    Row("dma-buf-has-no-use-for-it", "peermem.order", NA, "not part of the dmabuf path",
        says(units(slurmd=SLURMD)), want=DMABUF),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_loading_before_jobs(row: Row) -> None:
    holds(row)


@pytest.mark.parametrize("text", ["Id", "LoadState=loaded\n", "Id=a\nInactiveExit", "x\n\nId=a"])
def test_another_shape_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match="systemctl show"):
        parse_unit_times(text)


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(Unparsable, match="infinity"):
        parse_unit_times("Id=a\nActiveEnterTimestampMonotonic=infinity\n")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (NOTED, Inserted(3.7)),
        (NOTED.replace("systemd", "gpu07 systemd"), Inserted(3.7)),
        (NOTED.replace("nvidia_peermem", "nvidia-peermem"), Inserted(3.7)),
        (NOTED.replace("nvidia_peermem", "nvidia"), Inserted()),
        (REFUSED + NOTED, Inserted(3.7)),
        (LOADED_ALREADY, Inserted(3.7)),
        (NOTED.replace("Inserted module", "Module"), Inserted()),
        ("-- No entries --\n", Inserted()),
    ],
)
def test_the_journals_note(line: str, found: Inserted) -> None:
    assert parse_inserted(line, "nvidia_peermem") == found


@pytest.mark.parametrize(
    ("services", "wanted"),
    [
        ({}, []),
        ({"slurmd": SLURMD}, ["order.unit", "order.slurmd"]),
        ({"kubelet": unit("kubelet", 9, 10)}, ["order.unit", "order.kubelet"]),
    ],
)
def test_files_are_for_services_that_are_there(services: dict[str, str], wanted: list[str]) -> None:
    there = Node(node(says(units(**services)) if services else {}))
    assert [each.id for each in ORDER if each.values(there, Want()) is not None] == wanted
    assert not [each.id for each in ORDER if each.values(there, DMABUF) is not None]
