"""A demo node gets a passport by the scripts that images get theirs by, and is held to it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.scripts.engine import LIMITS, MODPROBE_D, SHELLS, STATE, Tree, bundle_of, digest, sent
from tests.scripts.shells import parts
from toolkit.checks.check import Status, Verdict
from toolkit.checks.image import passport as check
from toolkit.demo.create import SYSTEM_PATH, environment, make_nodes
from toolkit.demo.nodes import UBUNTU_KERNEL
from toolkit.demo.tree import clone
from toolkit.errors import NoEvidence
from toolkit.evidence import Evidence, State
from toolkit.facts.node.builds import Left
from toolkit.facts.node.node import Node
from toolkit.facts.passport import (
    PLACE,
    SIGNATURE,
    FileEntry,
    KernelEntry,
    ModuleEntry,
    Passport,
    parse,
)
from toolkit.features.image.run import Image, give_passport, has_passport
from toolkit.features.image.run_passport import make_passport, place_passport, read_passport
from toolkit.node.collect import collect
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.want import Want

pytestmark = pytest.mark.shell
PEERMEM = f"/lib/modules/{UBUNTU_KERNEL}/updates/dkms/nvidia-peermem.ko"
ASKED = Want(passport=True)
PART = f"{parts('frames.sh', 'probe_passport.sh')}\nbegin_frames\nprobe_passport\nend_frames\n"


@dataclass(frozen=True)
class Here:
    """A node's folder as a transport: its scripts are run by one shell."""

    place: Path
    shell: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def tree(self) -> Path:
        return self.place / "tree"

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        del sink
        # What is the node's own comes first; od, grep and their kin are this machine's.
        path = {"PATH": f"{self.place / 'bin'}:{SYSTEM_PATH}", "GDR_UID": "0"}
        done = subprocess.run(
            [*self.shell, "-s"],
            input=script,
            env=environment(self.place) | path,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def close(self) -> None:
        """There is nothing to let go of."""

    def node(self) -> Node:
        return Node(collect(self))

    def verdict(self, want: Want = ASKED) -> Verdict:
        return check(self.node(), want)


def alone(here: Here) -> Node:
    """The node by this part of the probe alone."""
    return Node(Evidence.parse(here.run(PART).stdout))


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("passport")
    make_nodes(folder, ("demo1",))  # healthy, and small
    return folder / "nodes/demo1"


def _clone(state: Path, place: Path, shell: str) -> Here:
    place.mkdir()
    clone(state / "tree", place / "tree")
    (place / "bin").symlink_to((state / "bin").resolve())
    return Here(place, SHELLS[shell])


@pytest.fixture(params=sorted(SHELLS))
def here(request: pytest.FixtureRequest, state: Path, tmp_path: Path) -> Here:
    return _clone(state, tmp_path / "node", request.param)


@pytest.fixture
def plain(state: Path, tmp_path: Path) -> Here:
    """Under dash alone, for what no shell does differently."""
    return _clone(state, tmp_path / "node", "dash")


def test_a_node_that_got_its_passport_matches_and_a_replaced_module_does_not(here: Here) -> None:
    before = here.node()
    assert before.passport is None
    assert check(before, ASKED).status is Status.FAIL  # none, and one is demanded
    made = make_passport(here, before)
    place_passport(here, made, "-----BEGIN SSH SIGNATURE-----\n")
    after = here.node()
    assert after.passport == made == parse((here.tree / PLACE.lstrip("/")).read_text())
    assert after.passport_text == made.json()
    assert (here.tree / PLACE.lstrip("/")).stat().st_mode & 0o777 == 0o644
    assert (here.tree / SIGNATURE.lstrip("/")).read_text().startswith("-----BEGIN")
    assert check(after, ASKED).status is Status.PASS, check(after, ASKED).finding

    module = here.tree / PEERMEM.lstrip("/")
    whole = module.read_bytes()
    module.unlink()
    module.write_bytes(whole[:-1] + b"\1")
    found = here.verdict().finding
    assert found.status is Status.FAIL
    assert [line.split(":")[0] for line in found.details] == [PEERMEM]


def test_what_it_tells_of_the_modules_is_what_they_are(plain: Here) -> None:
    made = make_passport(plain, plain.node())
    assert (made.system, made.arch) == ("ubuntu 22.04", "x86_64")
    assert made.default == UBUNTU_KERNEL
    assert made.arguments is not None
    assert "iommu=pt" in made.arguments
    (kernel,) = made.kernels
    assert kernel.image is not None
    peermem = kernel.named("nvidia_peermem")
    assert peermem is not None
    assert peermem.file.path == PEERMEM
    assert "module_layout" in dict(peermem.needs)
    assert "nvidia_p2p_get_pages" in dict(peermem.needs)
    driver = kernel.named("nvidia")
    assert driver is not None
    # What the one needs is what the other offers, which is why it can be loaded.
    assert (
        dict(driver.offers).items()
        >= {name: crc for name, crc in peermem.needs if name.startswith("nvidia_p2p")}.items()
    )
    assert {"mlx5_core", "ib_uverbs", "mlx_compat"} <= {each.name for each in kernel.modules}
    assert make_passport(plain, plain.node()).json() == made.json()


def test_a_module_that_the_kernel_took_from_elsewhere_is_found(plain: Here) -> None:
    place_passport(plain, make_passport(plain, plain.node()))
    held = plain.tree / "sys/module/mlx5_core/srcversion"
    held.unlink()
    held.write_text("0123456789ABCDEF0123456\n")
    found = plain.verdict().finding
    assert "loaded mlx5_core: srcversion 0123456789ABCDEF0123456" in found.found


def test_the_build_id_of_what_is_loaded_is_read_from_the_kernels_notes(here: Here) -> None:
    module = FileEntry(PEERMEM, "0" * 64)
    entries = tuple(ModuleEntry(name, module, "") for name in ("ib_core", "mlx5_core", "nvidia"))
    kernel = KernelEntry(UBUNTU_KERNEL, None, entries)
    place_passport(here, Passport("0.1", "debian 12", "x86_64", (kernel,)))
    build = bytes(range(20))
    for name in ("ib_core", "nvidia"):
        notes = here.tree / f"sys/module/{name}/notes"
        notes.mkdir()
        head = b"\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0"
        (notes / ".note.gnu.build-id").write_bytes(head + build)
    loaded = alone(here).passport_loaded
    assert loaded["nvidia"].build_id == loaded["ib_core"].build_id == build.hex()
    assert loaded["mlx5_core"].build_id == ""


def test_what_is_no_plain_file_is_no_match_and_is_not_waited_for(here: Here) -> None:
    """Who replaced a passport may name a pipe in it, or a device that never ends."""
    paths = ("/etc/pipe", "/dev/zero", "/etc", PEERMEM)
    names = tuple(FileEntry(path, "0" * 64, "644") for path in paths)
    place_passport(here, Passport("0.1", "debian 12", "x86_64", (), files=names))
    os.mkfifo(here.tree / "etc/pipe")
    (here.tree / "dev").mkdir(exist_ok=True)
    (here.tree / "dev/zero").unlink(missing_ok=True)
    (here.tree / "dev/zero").symlink_to("/dev/zero")
    assert list(alone(here).passport_hashes) == [PEERMEM]


def test_a_node_without_modules_dep_gets_no_passport(plain: Here) -> None:
    (plain.tree / f"lib/modules/{UBUNTU_KERNEL}/modules.dep").unlink()
    with pytest.raises(NoEvidence, match=r"lacks modules\.dep"):
        make_passport(plain, plain.node())


def test_an_unreadable_passport_is_unknown_and_never_well(plain: Here) -> None:
    (plain.tree / PLACE.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
    (plain.tree / PLACE.lstrip("/")).write_text('{"format": \n')
    assert plain.verdict().status is Status.UNKNOWN
    assert plain.verdict(Want()).status is Status.UNKNOWN


def test_its_frames_are_absent_where_there_is_none(plain: Here) -> None:
    frames = Evidence.parse(collect(plain).dump()).frames
    told = {key: frame.state for key, frame in frames.items() if key.startswith("passport")}
    assert set(told.values()) == {State.ABSENT}
    assert len(told) == 5


def test_an_image_has_its_passport_once_and_a_signature_over_another_goes(
    plain: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "reader", lambda _: plain)
    image, made = Image(plain.tree), make_passport(plain, plain.node())
    assert not has_passport(image, made)
    give_passport(plain, made, "one\n")
    assert has_passport(image, made)
    assert has_passport(image, made, "one\n")
    assert not has_passport(image, made, "another\n")
    later = replace(made, toolkit="later")
    assert not has_passport(image, later)
    give_passport(plain, later)
    assert has_passport(image, later)
    assert not (plain.tree / SIGNATURE.lstrip("/")).exists()


def test_it_is_found_in_a_file_below_a_root_and_in_a_tar(plain: Here, tmp_path: Path) -> None:
    made = make_passport(plain, plain.node())
    place_passport(plain, made)
    subprocess.run(["tar", "-C", plain.tree, "-cf", tmp_path / "root.tar", "./usr"], check=True)
    for source in (plain.tree, plain.tree / PLACE.lstrip("/"), tmp_path / "root.tar"):
        assert read_passport(source) == made


def test_what_runs_of_ours_left_since_is_told_by_their_names(tree: Tree) -> None:
    names = [FileEntry(path, "0" * 64, "644") for path in (LIMITS, MODPROBE_D, PEERMEM)]
    born = Passport("0.1", "debian 12", "x86_64", (), files=tuple(names))
    tree.write(PLACE, born.json())
    assert tree.run(sent(bundle_of({MODPROBE_D: "a\n", LIMITS: "b\n"}))).exit == 0
    assert tree.run(sent(bundle_of({MODPROBE_D: "c\n"}, remove=(LIMITS,)))).exit == 0
    tree.write(f"/{STATE}/rebuild/made", f"{'1' * 64}  {PEERMEM}\n{'2' * 64}  {PEERMEM}\n")
    ran = tree.run(PART)
    assert (ran.exit, ran.stderr) == (0, "")
    since = Node(Evidence.parse(ran.stdout)).passport_since
    runs = tree.read(f"/{STATE}/journal").split("\n")[:-1]
    second = runs[-1].split(" ")[0]
    assert since == {
        LIMITS: (Left(second, "absent"),),
        MODPROBE_D: (Left(second, digest("c\n")),),
        PEERMEM: (Left("rebuild", "2" * 64),),
    }
