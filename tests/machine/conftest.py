"""Guests for tests: whole machines that boot Debian by GRUB from a disk, under emulation.

What a test file writes (every one says in its docstring how many boots it makes):

    pytestmark = pytest.mark.machine
    BOOTS = 4   # boots and reboots that the file makes: those with most begin first

    def test_something(guests: Guests, tmp_path: Path) -> None:
        guest = guests.shared(AMD)   # others may have used it: leave it as it was found
        guest = guests.fresh(INTEL)  # one of your own, to be changed at will

Specs that are shared lie in specs.py: INTEL, AMD, NEWER (6.12), peermem(). Each other one costs
the first to ask for it a boot, and a disk if its kernel or layers differ; afterwards a guest, but
for AMD, goes on where that boot came to rest, in seconds. Asking for another ends the one before.

Spec (dev/lab/qemu.py): kernel "6.1"|"6.12", iommu "intel"|"amd"|"none", pci (text of a table, see
dev/lab/pcitree.py; functions lie in domain 0001), layers (overlay layers over the system, see
stack.py), memory_mb, cpus, extra (further words for QEMU).

Guest (dev/lab/machine.py), all over real SSH:
    run(script, check=True, limit_s=60, text="") -> Done(status, out, err)
    put(path, content, mode)    boot_id    cmdline    groups() -> {"0": "DMA-FQ"}
    reboot() -> new boot id     reset()    wait(limit_s, other_than=boot_id) -> boot id
    console (text so far)       control(verb, **arguments) (QMP)    ssh_config, name
    stop(), then start() and wait(): a power failure; the disk is as it was left
Deadlines are those of an idle machine, multiplied by GDR_LAB_FACTOR (3).

    gdr(guest, "provision", "--reboot", "--yes", site=text) -> Ran(status, out, err)
runs our command line against the guest as an operator would: --hosts and --ssh-config are added,
the state lies in a folder of the guest's own, and a site file from ``site`` (TOML) if given.

At most one guest runs per worker of pytest; with -n 2 that makes two.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from dev.tools import in_ci
from tests.builds.mirrors import NotToBeHad
from tests.laws import NIGHT
from tests.machine.pool import Guests

# Eight nodes that move bytes in one emulated guest take minutes.
collect_ignore = [] if NIGHT else ["test_fabric.py", "test_appliance.py"]


def _told() -> Generator[None, None, None]:
    try:
        return (yield)
    except NotToBeHad as why:
        if in_ci():
            raise
        pytest.skip(str(why))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with many boots first: else one of them is what all wait for in the end."""
    items.sort(key=lambda item: -getattr(getattr(item, "module", None), "BOOTS", 0))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """Skip where a guest could not be had; in CI that is an error."""
    return (yield from _told())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """The same for what the test itself asks for."""
    return (yield from _told())


@pytest.fixture(scope="session")
def _pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guests]:
    pool = Guests(tmp_path_factory.mktemp("guests"))
    yield pool
    pool.close()


@pytest.fixture
def guests(_pool: Guests, request: pytest.FixtureRequest) -> Guests:
    """The machines that a test may have."""
    return _pool
