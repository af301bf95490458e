"""A ground is read from its survey; what was not read is not made up."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.unit.grounds import CRCS, DRIVER, KERNEL, MLNX, NVIDIA, OTHER, Survey, sha
from toolkit.errors import NoEvidence, Unparsable, Unsupported
from toolkit.evidence import Evidence
from toolkit.facts.modules.build_env import Ground, GroundKernel, parse_ground

BOTH = Survey(kernels=(KERNEL, OTHER), folders=(f"x86_64/{KERNEL}",), driver=DRIVER)


def kernel_of(ground: Ground, release: str = KERNEL) -> GroundKernel:
    found = ground.kernel(release)
    assert found is not None
    return found


def test_the_machine() -> None:
    ground = BOTH.ground
    assert (ground.arch, ground.dkms) == ("x86_64", "3.0.10")
    assert ground.distro.pretty == "Debian GNU/Linux 12 (bookworm)"
    assert {"dkms", "g++"} <= ground.tools
    assert ground.room_mb == 50_000_000 // 1024
    assert ground.releases == (KERNEL, OTHER)


def test_a_kernel() -> None:
    kernel = kernel_of(BOTH.ground)
    assert kernel.headers == sha("headers" + KERNEL)
    assert kernel.compiler == "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"
    assert kernel.config["CONFIG_PREEMPT_RT"] == "n"
    assert kernel.symvers["module_layout"].crc == 0x9060323F
    assert not kernel.inbox_peers
    assert kernel_of(Survey(inbox=True).ground).inbox_peers


def test_the_driver_that_is_installed_under_debians_name() -> None:
    found = kernel_of(BOTH.ground).provider("nvidia_p2p_get_pages")
    assert found is not None
    assert (found.module, found.version, found.licence) == ("nvidia", DRIVER, "Dual MIT/GPL")
    assert found.crcs["nvidia_p2p_put_pages"] == 0xE40FCF46
    assert kernel_of(BOTH.ground).provider("ib_register_peer_memory_client") is None


def test_the_sources() -> None:
    ofed, driver = BOTH.ground.sources
    assert (driver.folder, driver.name, driver.version) == (NVIDIA.folder, NVIDIA.name, DRIVER)
    assert driver.builds == NVIDIA.builds
    assert (driver.licence, driver.peermem_licence) == ("Dual MIT/GPL", "Dual BSD/GPL")
    assert driver.peermem
    assert driver.digest == sha(NVIDIA.folder)
    assert (ofed.licence, ofed.peermem) == ("", False)


def test_what_ofed_exports_and_to_whom() -> None:
    ground = BOTH.ground
    path = f"/usr/src/ofa_kernel/x86_64/{KERNEL}/Module.symvers"
    assert {f"0x{row.crc:08x}" for row in ground.peers[path].values()} == set(CRCS)
    assert ground.ofed.search(KERNEL, "x86_64").kbuild_symbol
    assert not ground.ofed.search(OTHER, "x86_64").conftest


def test_headers_that_are_not_whole_have_no_hash() -> None:
    kernel = kernel_of(Survey(missing=("Module.symvers",)).ground)
    assert (kernel.headers, kernel.missing) == ("", ("Module.symvers",))


def test_a_ground_without_dkms_or_kmod() -> None:
    ground = Survey(drop=("dkms-version", "exports", "installed"), driver=DRIVER).ground
    assert ground.dkms == ""
    assert kernel_of(ground).providers == ()


@pytest.mark.parametrize("cut", range(30, len(BOTH.text) - 1, 61))
def test_a_survey_that_was_cut_off_is_none(cut: int) -> None:
    with pytest.raises(NoEvidence, match="cut off"):
        parse_ground(Evidence.parse(BOTH.text[:cut]))


@pytest.mark.parametrize(
    ("key", "line", "named"),
    [
        pytest.param("kernels", "frobnicates", "/lib/modules/6.12.117", id="a-word-of-a-kernel"),
        pytest.param("trees", "nonsense", "dkms.conf", id="a-tree-without-folder"),
        pytest.param("trees", "abc folder-1", "hash of folder-1", id="a-hash"),
        pytest.param("room", "?", "df -Pk", id="room"),
        pytest.param("symvers", "0xzz\tname\tvmlinux\tEXPORT_SYMBOL\t", "symvers", id="symvers"),
    ],
)
def test_an_unknown_shape_is_refused(key: str, line: str, named: str) -> None:
    evidence = BOTH.evidence
    frame = evidence.frames[key]
    broken = evidence.plus([replace(frame, text=f"{frame.text}{line}\n")])
    with pytest.raises(Unparsable, match=named):
        parse_ground(broken)


def test_a_ground_without_var_tmp_has_no_room() -> None:
    evidence = BOTH.evidence
    silent = evidence.plus([replace(evidence.frames["room"], text="")])
    assert parse_ground(silent).room_mb == 0


def test_a_source_that_could_not_be_read_is_no_ground() -> None:
    with pytest.raises(NoEvidence, match="somewhere: not there"):
        _ = Survey(drop=("trees",), packages=(MLNX,)).ground


def test_a_ground_that_cannot_be_entered_says_why() -> None:
    """As enter.sh tells it: a container without namespaces, a tree without /mnt."""
    why = "this machine gives no namespace to build in: unshare: Operation not permitted"
    told = f"= prepare.output ok the ground\n|{why}\n= prepare failed:1 the ground\n= end ok 2\n"
    with pytest.raises(Unsupported, match=f"^no build can be made there: {why}$"):
        parse_ground(Evidence.parse(f"= begin ok gdr-toolkit/1\n{told}"))
