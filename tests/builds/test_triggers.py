"""What changed on the node, and exactly what is rebuilt for it: by real DKMS 3.0 and 3.2."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builds.nodeside import (
    AFTER,
    DRIVER,
    OFED,
    TREES,
    VERSION,
    exports,
    installed,
    kernel_of,
    loadable,
    module,
    new_driver,
    new_ofed,
    node,
    rebuild,
    spent_s,
)
from tests.builds.sandbox import Sandbox

pytestmark = pytest.mark.builds
LONG = True

OTHERS = (DRIVER, "ib_core", "ib_uverbs", "gdrdrv")
NEW = "550.144.03"


OLD = pytest.mark.parametrize("base", ["bookworm"], indirect=True)  # DKMS 3.0: enough for these
BOTH = pytest.mark.parametrize("base", TREES, indirect=True)


@pytest.fixture(scope="module")
def base(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with node(request.param) as box:
        yield box


@pytest.fixture
def box(base: Sandbox) -> Iterator[Sandbox]:
    with base.branch() as copy:
        yield copy


@BOTH
def test_where_nothing_has_changed_nothing_is_built_and_that_is_quick(box: Sandbox) -> None:
    kernel = kernel_of(box)
    before = [module(box, kernel, name) for name in (*OTHERS, "nvidia-peermem")]
    before_s = spent_s()
    assert rebuild(box, "--hook") == (0, [])
    assert spent_s() - before_s < 5  # 0.6 s alone on the machine
    assert [module(box, kernel, name) for name in (*OTHERS, "nvidia-peermem")] == before


@BOTH
def test_a_new_ofed_has_nvidia_peermem_rebuilt_and_nothing_else(box: Sandbox) -> None:
    kernel = kernel_of(box)
    before = {name: module(box, kernel, name) for name in (DRIVER, "gdrdrv", "nvidia-peermem")}
    new_ofed(box, "26.01", kernel)
    rebuild(box, "--hook")
    after = {name: module(box, kernel, name) for name in before}
    register = "ib_register_peer_memory_client"
    assert before["nvidia-peermem"].crcs[register] != after["nvidia-peermem"].crcs[register]
    assert after["nvidia-peermem"].crcs[register] == exports(box, kernel, "ib_uverbs")[register]
    # The same source: what it is built against is not part of that.
    assert before["nvidia-peermem"].srcversion == after["nvidia-peermem"].srcversion
    assert before["nvidia-peermem"].sha256 != after["nvidia-peermem"].sha256
    assert (before[DRIVER], before["gdrdrv"]) == (after[DRIVER], after["gdrdrv"])
    assert loadable(box, kernel)


@OLD
def test_a_new_ofed_with_the_same_symbols_calls_for_nothing(box: Sandbox) -> None:
    kernel = kernel_of(box)
    before = module(box, kernel, "nvidia-peermem")
    new_ofed(box, "25.02", kernel, other=False)
    assert rebuild(box, "--hook") == (0, [])
    assert module(box, kernel, "nvidia-peermem") == before


@BOTH
def test_a_new_driver_has_nvidia_peermem_and_gdrdrv_rebuilt_in_that_order(box: Sandbox) -> None:
    kernel = kernel_of(box)
    before = {name: module(box, kernel, name) for name in ("ib_uverbs", "gdrdrv", "nvidia-peermem")}
    new_driver(box, NEW, kernel)
    rebuild(box, "--hook")
    after = {name: module(box, kernel, name) for name in before}
    shared = exports(box, kernel, DRIVER)
    for name in ("nvidia-peermem", "gdrdrv"):
        assert before[name].crcs != after[name].crcs
        for symbol, crc in after[name].crcs.items():
            assert symbol.startswith("ib_") or crc == shared[symbol]
    assert before["ib_uverbs"] == after["ib_uverbs"]
    assert after["nvidia-peermem"].changed < after["gdrdrv"].changed
    # Another version in the source: another module, also to modinfo.
    assert box.run("modinfo", "-k", kernel, "-F", "version", "nvidia-peermem").out.strip() == NEW
    assert ("nvidia-peermem", NEW, kernel) in installed(box)
    assert "nvidia-peermem/535" not in box.run("dkms", "status").out  # no kernel has it any more
    assert loadable(box, kernel)
    assert rebuild(box) == (0, [])


def test_a_new_kernel_gets_all_of_them_from_its_own_hooks() -> None:
    with node("bookworm") as box:
        kernel, added = kernel_of(box), box.kernel("6.1.*-cloud-amd64")
        before = [module(box, kernel, name) for name in (*OTHERS, "nvidia-peermem")]
        # DKMS 3.0 builds gdrdrv first, by the alphabet, and that fails without the driver.
        box.run("run-parts", f"--arg={added}", "/etc/kernel/postinst.d", check=False)
        assert {each for each in installed(box) if each[2] == added} == {
            (DRIVER, VERSION, added),
            (OFED, "25.10", added),
            ("nvidia-peermem", VERSION, added),
            ("gdrdrv", "2.4.4", added),
        }
        built = [module(box, added, name) for name in ("ib_uverbs", DRIVER, "nvidia-peermem")]
        assert max(built[0].changed, built[1].changed) < built[2].changed
        assert loadable(box, added)
        assert [module(box, kernel, name) for name in (*OTHERS, "nvidia-peermem")] == before


@BOTH
def test_a_kernel_without_ofed_gets_its_driver_all_the_same(box: Sandbox) -> None:
    """DKMS waits for OFED for ever; a node that loses its GPUs over that is no better off."""
    kernel = kernel_of(box)
    box.run("rm", "-f", AFTER)  # it would build nvidia-peermem again at once
    for package, version in (("nvidia-peermem", VERSION), (OFED, "25.10"), (DRIVER, VERSION)):
        box.run("dkms", "unbuild", f"{package}/{version}", "-k", kernel)
    box.write(f"/etc/dkms/{DRIVER}.conf", f'BUILD_DEPENDS+=("{OFED}")\n')
    box.write(
        f"/usr/src/{OFED}-25.10/drivers/infiniband/core/ib_core.c",
        "#error this kernel is too new\n",
    )
    box.run("rm", "-rf", "/usr/src/ofa_kernel")
    assert box.run("dkms", "autoinstall", "-k", kernel, check=False).status == 11
    # DKMS 3.0 reads no file of /etc/dkms before it decides on the order, so it does not wait.
    waits = box.run("dkms", "--version").out >= "dkms-3.2"
    assert ((DRIVER, VERSION, kernel) not in installed(box)) is waits
    _, said = rebuild(box, "--hook", "--kernel", kernel)
    built = f"{DRIVER}/{VERSION} for {kernel}: rebuilt and installed: not built for this kernel"
    assert (built in said) is waits
    causes = ("OFED has no symbols for kernel", f"missing BUILD_DEPENDS: {OFED}")
    assert any(cause in line for line in said for cause in causes)
    assert (DRIVER, VERSION, kernel) in installed(box)
    assert not {each for each in installed(box) if each[0] == "nvidia-peermem"}


@OLD
def test_no_autoinstall_is_heeded_by_hooks_alone(box: Sandbox) -> None:
    kernel = kernel_of(box)
    box.write("/etc/dkms/no-autoinstall", "")
    box.run("rm", "-f", AFTER)
    new_ofed(box, "26.01", kernel)
    assert rebuild(box, "--hook") == (0, [])
    status, said = rebuild(box, "--dry-run")
    assert status == 0
    assert "would be built: nvidia-peermem.ko" in said[0]
