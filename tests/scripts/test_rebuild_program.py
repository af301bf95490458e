"""What the program that nodes rebuild with concludes, by each shell, with stand-ins for tools."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from tests.scripts.engine import SHELLS
from tests.scripts.swapping import ARCH, KERNEL, MODULE, PACKAGE, VERSION, Node, below, node
from tests.scripts.swapping import DKMS as INSTALL
from toolkit.plan.templates import render_text

pytestmark = pytest.mark.shell

MAGIC = f"vermagic={KERNEL} SMP modversions \n"
STUB = f"{MAGIC}version={VERSION}\n"
NVIDIA = f"{MAGIC}version={VERSION}\nname=nvidia\n"
# The driver is installed by its packages; "dkms build" leaves what $HOME/made holds.
MODPROBE = """#!/bin/sh
case $1 in
    -S) [ "$4" != symbol:nvidia_p2p_get_pages ] || echo nvidia ;;
    --dump-modversions) printf '0x1\\tmodule_layout\\n' ;;
esac
"""
DKMS = """#!/bin/sh
echo "$*" >>"$HOME/said"
case $1 in build) ;; install) exec dkms-install "$@" ;; *) exit 0 ;; esac
while [ $# -gt 0 ]; do
    case $1 in
        --dkmstree) tree=$2 ;; -a) arch=$2 ;;
        -m) name=$2 ;; -v) version=$2 ;; -k) kernel=$2 ;;
    esac
    shift
done
[ -e "$HOME/made" ] || { echo 'cc: error: No space left on device'; exit 10; }
mkdir -p "$tree/$name/$version/$kernel/$arch/module"
cp "$HOME/made"/* "$tree/$name/$version/$kernel/$arch/module/"
"""

# Rows of a Module.symvers: OFED's interface of now and of before, and the driver's.
NEW, OLD, PAGES = (
    f"0x{crc}\t{symbol}\t{module}\tEXPORT_SYMBOL\n"
    for crc, symbol, module in (
        ("2222", "ib_register_peer_memory_client", "ib_uverbs"),
        ("1111", "ib_register_peer_memory_client", "ib_uverbs"),
        ("3333", "nvidia_p2p_get_pages", "nvidia"),
    )
)

# There is room for folders that are asked for by name alone.
NO_ROOM = """#!/bin/sh
[ "$*" != -d ] || exit 1
exec /usr/bin/mktemp "$@"
"""


@pytest.fixture(params=sorted(SHELLS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    """A good nvidia-peermem is installed by our package."""
    made = node(tmp_path, SHELLS[request.param])
    made.write(made.root / f"lib/modules/{KERNEL}/build/include/x.h", "")
    made.write(made.root / f"lib/modules/{KERNEL}/kernel/nvidia.ko", NVIDIA)
    made.install(VERSION, STUB)
    for name, text in (("modprobe", MODPROBE), ("dkms", DKMS), ("dkms-install", INSTALL)):
        made.command(name, text)
    return made


def test_a_stub_that_is_installed_is_found_and_the_one_built_instead_is_refused(
    place: Node,
) -> None:
    place.write(place.root / "made" / MODULE, STUB + "other=1\n")
    before = place.state()
    done = place.program("--kernel", KERNEL)
    assert done.returncode == 1
    assert f"{PACKAGE}/{VERSION} for {KERNEL}: not rebuilt (nvidia-peermem.ko: stub" in done.stdout
    assert place.state() == before


def test_what_cannot_be_judged_is_not_put_in_place(place: Node) -> None:
    """A gate that found no room for its own work has let nothing through."""
    place.write(place.root / "made" / MODULE, STUB + "other=1\n")
    place.command("mktemp", NO_ROOM)
    before = place.state()
    done = place.program("--kernel", KERNEL)
    assert done.returncode == 1
    assert "unknown: " in done.stdout
    assert place.state() == before


def test_a_build_that_dkms_has_lost_is_made_again(place: Node) -> None:
    place.write(place.root / "made" / MODULE, STUB)
    (place.tree / VERSION / KERNEL).rename(place.root / "lost")
    done = place.program("--kernel", KERNEL)
    assert done.returncode == 1
    assert "not rebuilt (what DKMS built is gone)" in done.stdout


def test_a_disk_that_was_full_is_no_reason_not_to_try_again(place: Node) -> None:
    for _ in range(2):
        said = place.program("--hook").stdout
        assert "No space left on device" in said
        assert "failed before" not in said
    place.write(place.root / "made" / MODULE, STUB)
    assert "not rebuilt" in place.program("--hook").stdout
    assert "failed before, and nothing has changed since" in place.program("--hook").stdout


@pytest.mark.parametrize("where", ["var/lib/gdr-toolkit/rebuild/lock", "var/lib/gdr-toolkit"])
def test_a_hook_never_fails(where: str, place: Node) -> None:
    at = place.root / where
    if where.endswith("lock"):
        at.mkdir(parents=True)
    else:
        place.write(at, "")
    assert place.program("--hook").returncode == 0
    assert place.program().returncode != 0


def test_ofed_is_told_for_which_kernel_it_is_built(place: Node) -> None:
    """Its configure asks which one runs, unless KVERSION names another."""
    place.write(place.root / "var/lib/dkms/mlnx-ofed-kernel/24.10/source/dkms.conf", "")
    place.command("dkms-install", '#!/bin/sh\necho "$* for ${KVERSION-any}" >>"$HOME/told"\n')
    place.program("--kernel", KERNEL)
    told = (place.root / "told").read_text()
    assert told == f"install -m mlnx-ofed-kernel -v 24.10 -k {KERNEL} -a {ARCH} for {KERNEL}\n"


def test_a_driver_that_would_not_work_is_not_excused_by_its_nvidia_peermem(place: Node) -> None:
    """A new kernel gets a driver without a good nvidia-peermem, and no other driver."""
    (place.root / f"lib/modules/{KERNEL}/kernel/nvidia.ko").unlink()
    place.command("modprobe", MODPROBE.replace("|| echo nvidia", "|| :"))
    source = place.root / f"var/lib/dkms/nvidia/{VERSION}/source"
    conf = 'BUILT_MODULE_NAME[0]="nvidia"\nBUILT_MODULE_NAME[1]="nvidia-peermem"\n'
    place.write(source / "dkms.conf", conf)
    place.write(place.root / "made" / MODULE, STUB)
    other = NVIDIA.replace(KERNEL, "6.8.0-51-generic")
    place.write(place.root / "made/nvidia.ko", other)
    done = place.program("--kernel", KERNEL)
    assert done.returncode == 1
    assert "not rebuilt (not built for this kernel): nvidia.ko: other-kernel" in done.stdout
    place.write(place.root / "made/nvidia.ko", NVIDIA)
    done = place.program("--kernel", KERNEL)
    assert done.returncode == 1
    assert "nvidia-peermem.ko: stub" in done.stdout
    assert f"nvidia/{VERSION} for {KERNEL}: rebuilt and installed" in done.stdout
    assert ARCH in str((source.parent.parent / f"kernel-{KERNEL}-{ARCH}").readlink())
    # What is laid beside an image's passport finds whose work it was.
    made = (place.root / "var/lib/gdr-toolkit/rebuild/made").read_text()
    installed = {path.rpartition("/")[2]: sum_ for sum_, path in map(str.split, made.splitlines())}
    assert installed["nvidia.ko"] == sha256(NVIDIA.encode()).hexdigest()


def test_what_could_not_be_put_in_place_is_not_called_installed(place: Node) -> None:
    (place.root / f"lib/modules/{KERNEL}/kernel/nvidia.ko").unlink()
    place.command("modprobe", MODPROBE.replace("|| echo nvidia", "|| :"))
    conf = place.root / f"var/lib/dkms/nvidia/{VERSION}/source/dkms.conf"
    place.write(conf, 'BUILT_MODULE_NAME[0]="nvidia"\n')
    place.write(place.root / "made/nvidia.ko", NVIDIA)
    place.write(place.journals, "no folder\n")
    done = place.program("--kernel", KERNEL)
    assert done.returncode == 1
    assert "installed:" not in done.stdout
    assert "not rebuilt (not built for this kernel): it could not be put in place" in done.stdout


def prepared(place: Node, driver: str) -> Path:
    """The build folder after before-build.sh, where DKMS has kept what the driver exports."""
    build = place.root / "build"
    script = below(place.root, render_text("dkms/before-build.sh.j2", {}))
    place.write(build / "before-build.sh", script)
    source = place.root / f"usr/src/nvidia-{VERSION}/kernel-open"
    for name in ("common/x.h", "nvidia-peermem/nvidia-peermem.c"):
        place.write(source / name, "")
    tree = place.root / "var/lib/dkms"
    place.write(tree / f"nvidia/{VERSION}/{KERNEL}/{ARCH}/module/Module.symvers", driver)
    words = ("-c", 'cd "$1" && shift && . ./before-build.sh', "-", str(build))
    done = place.run(*place.shell, *words, KERNEL, VERSION, str(tree))
    assert (build / "extra.symvers").exists(), done.stderr
    return build


def test_the_symbols_of_ofed_are_those_of_ofed_alone(place: Node) -> None:
    """The driver's Module.symvers may tell of the OFED that it was built against, long gone."""
    for folder in (f"{ARCH}/{KERNEL}", KERNEL):
        place.write(place.root / f"usr/src/ofa_kernel/{folder}/Module.symvers", NEW)
    # What the kernel brings of the interface itself is not what will be loaded beside OFED.
    place.write(place.root / f"lib/modules/{KERNEL}/build/Module.symvers", OLD)
    build = prepared(place, OLD + PAGES)
    assert (build / "extra.symvers").read_text() == NEW + PAGES
    assert not (build / "borrowed").exists()


def test_the_symbols_of_another_kernels_ofed_vouch_for_nothing(place: Node) -> None:
    """DKMS builds in the order of the alphabet: OFED's for a new kernel may be yet to come."""
    ofed = place.root / "usr/src/ofa_kernel"
    place.write(ofed / f"{ARCH}/5.4.0-1-other/Module.symvers", NEW)
    (ofed / "default").symlink_to(f"{ARCH}/5.4.0-1-other")
    assert (prepared(place, PAGES) / "borrowed").exists()


@pytest.mark.parametrize(("marks", "says"), [((), ""), (("borrowed",), "no-provider")])
def test_a_build_in_dkms_own_tree_rests_on_no_other_kernels_ofed(
    place: Node, marks: tuple[str, ...], says: str
) -> None:
    """Nothing is installed yet that exports the interface, so its symbols alone could vouch."""
    build = place.root / "build"
    for mark in marks:
        place.write(build / mark, "")
    place.write(build / "extra.symvers", NEW + PAGES)
    module = f"{MAGIC}license=Dual BSD/GPL\ndepends=nvidia,ib_uverbs\n"
    place.write(build / "kernel-open/nvidia-peermem.ko", module)
    rows = "0x2222\\tib_register_peer_memory_client\\n0x3333\\tnvidia_p2p_get_pages\\n"
    words = f"[ $1 != --dump-modversions ] || printf '{rows}'\n"
    place.command("modprobe", f"#!/bin/sh\n{words}")
    after = below(place.root, render_text("dkms/after-build.sh.j2", {}))
    place.write(build / "after-build.sh", after)
    call = ("-c", 'cd "$1" && shift && . ./after-build.sh', "-", str(build), "make", KERNEL)
    done = place.run(*place.shell, *call, f"{place.root}/var/lib/dkms", "true")
    assert (done.returncode != 0) is bool(says), done.stdout + done.stderr
    assert says in done.stdout


def test_a_call_that_is_refused_does_nothing_though_nobody_can_hear_of_it(place: Node) -> None:
    place.write(place.root / "made" / MODULE, STUB)
    call = ("-c", 'exec "$@" --no-such-option >/dev/full 2>&1', "-", *place.shell)
    done = place.run("sh", *call, str(place.root / "rebuild"))
    assert done.returncode == 64
    assert not (place.root / "said").exists()


def test_packages_of_others_are_not_retired(place: Node) -> None:
    place.add(place.tree, "570.9")
    place.program("--dry-run")
    place.program()
    assert "remove" not in (place.root / "said").read_text()
    own = place.root / f"usr/src/{PACKAGE}-570.9/dkms.conf"
    own.write_text("# Placed by gdr-toolkit; see dkms(8).\n")
    place.program()
    assert f"remove {PACKAGE}/570.9 --all" in (place.root / "said").read_text()
