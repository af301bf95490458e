"""The healthy box as an appliance: its disk boots by what its descriptor names.

By GDR_NIGHT alone, for it takes minutes. QEMU has VirtualBox's controllers of the same standard; of
VirtualBox itself only the reader's source was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.lab.exported import virtualbox_disk
from dev.lab.qemu import Spec
from dev.lab.rows import rows
from tests.machine.boxes import Boxed, suites
from tests.machine.pool import Guests

pytestmark = pytest.mark.machine
BOOTS = 1


@pytest.fixture
def guest(_pool: Guests, tmp_path: Path) -> Iterator[Boxed]:
    """A machine of it, at rest."""
    _pool.close()
    made = Boxed("healthy", tmp_path / "healthy", Spec(iommu="none", virtualbox=True))
    made.prepare(virtualbox_disk("healthy"))
    try:
        made.start()
        made.wait()
        made.run("systemctl is-system-running --wait", check=False)
        yield made
    finally:
        made.remove()


def test_it_shows_all_as_soon_as_it_is_told_to_be_a_node(guest: Boxed, tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text('role = "bare-metal"\n')
    cases = suites(guest, rows()["healthy"]["profile"], f"--gdr-site={site}")
    assert cases.failed == {"host.virt"}, cases.said  # it is a guest, and says so
    assert len(cases.passed) >= 100
