"""An image's bundle by Ansible, in the image's tree on a build host without Python."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.fleet.ansible import Ansible, Played, without_python
from tests.fleet.sshd import Keys, Sshd
from tests.scripts.engine import MODPROBE_D, bundle_of, trigger
from toolkit.features.ansible.io import Manners, aliases, inventory
from toolkit.hosts.host import Host
from toolkit.node.deliver import image_runner
from toolkit.package_data import playbooks
from toolkit.plan.bundle import Bundle, runner

pytestmark = [pytest.mark.sshd, pytest.mark.builds]

FOLDERS = "bin dev etc/modprobe.d lib64 proc root run sys tmp var/log var/tmp"
DEPMOD = "#!/bin/sh\nuname -n >/etc/made\nls /sys >>/etc/made\necho x >/var/log/depmod.log\n"
BUNDLE = bundle_of({MODPROBE_D: "softdep x pre: y\n"}, *trigger("DEPMOD depmod -a"), expect=())


def image(folder: Path) -> Path:
    """The smallest tree that is a system: busybox, and what it needs."""
    for each in FOLDERS.split():
        (folder / each).mkdir(parents=True)
    busybox = shutil.which("busybox")
    assert busybox
    shutil.copy(busybox, folder / "bin/busybox")
    needed = subprocess.run(("ldd", busybox), capture_output=True, text=True, check=False).stdout
    for library in (word for word in needed.split() if word.startswith("/")):
        place = folder / library.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
    listed = subprocess.run((busybox, "--list"), capture_output=True, text=True, check=True).stdout
    for applet in listed.split():
        if applet not in {"busybox", "depmod"}:
            (folder / "bin" / applet).symlink_to("busybox")
    (folder / "bin/depmod").write_text(DEPMOD)
    (folder / "bin/depmod").chmod(0o755)
    (folder / "etc/hostname").write_text("golden\n")
    return folder


@dataclass(frozen=True, slots=True)
class Builder:
    """A host, an image's tree on it, and the controller."""

    tree: Path
    stages: Path  # where its scratch folders are made
    ansible: Ansible
    bundle: Path

    def play(self, *words: str, bundle: Bundle | None = None) -> Played:
        self.bundle.mkdir(exist_ok=True)
        text = runner(bundle or BUNDLE)
        (self.bundle / "run.sh").write_text(text)
        (self.bundle / "image.sh").write_text(image_runner(text))
        values = {"root": str(self.tree), "bundle": str(self.bundle), "wait_s": "5"}
        return self.ansible.play("image", *words, **values)

    def files(self) -> dict[str, bytes]:
        files = [path for path in sorted(self.tree.rglob("*")) if path.is_file()]
        return {str(path.relative_to(self.tree)): path.read_bytes() for path in files}


@pytest.fixture
def builder(tmp_path: Path, keys: Keys) -> Iterator[Builder]:
    stages = tmp_path / "stages"
    stages.mkdir()
    env = {"PATH": without_python(tmp_path / "commands"), "TMPDIR": str(stages)}
    with Sshd(tmp_path / "sshd", keys=keys, env=env) as server:
        host = server.host("builder")
        site = tmp_path / "site"
        shutil.copytree(playbooks(), site / "playbooks")
        text = yaml.safe_load(inventory([host], aliases(["builder"]), Manners(become=False)))
        text["all"]["hosts"]["builder"]["ansible_python_interpreter"] = "/nowhere/python"
        (site / "inventory.yml").write_text(yaml.safe_dump(text))
        scratch = tmp_path / "controller"
        scratch.mkdir()
        tree = image(tmp_path / "image")
        yield Builder(tree, stages, Ansible(scratch, site), tmp_path / "bundle")


def test_a_bundle_is_carried_out_in_an_image_and_nothing_of_the_builder_gets_in(
    builder: Builder,
) -> None:
    before = builder.files()
    looked = builder.play("--check")
    assert (looked.exit, looked.changed) == (0, {"builder": 1}), looked.text
    assert builder.files() == before, "--check changed something"

    done = builder.play()
    assert (done.exit, done.changed) == (0, {"builder": 1}), done.text
    after = {k: v for k, v in builder.files().items() if not k.startswith("var/lib/gdr-toolkit")}
    made = {MODPROBE_D.lstrip("/"): b"softdep x pre: y\n", "etc/made": b"golden\n"}
    assert after == before | made

    again = builder.play()
    assert (again.exit, again.changed) == (0, {"builder": 0}), again.text
    assert list(builder.stages.iterdir()) == []
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(builder.stages) not in mounts
    assert str(builder.tree) not in mounts


def test_what_fails_in_an_image_fails_the_builder_with_our_sentence(builder: Builder) -> None:
    failing = bundle_of({}, *trigger("DEPMOD nothing-of-the-kind"), expect=())
    failed = builder.play(bundle=failing)
    assert failed.failed == {"builder"}
    sentence = "builder: DEPMOD nothing-of-the-kind ended with status 127; nothing was touched"
    assert sentence in failed.text, failed.text
    assert list(builder.stages.iterdir()) == []


def test_this_machine_is_no_image(builder: Builder) -> None:
    (builder.tree / "bin/sh").unlink()
    empty = builder.play()
    assert empty.failed == {"builder"}
    assert "bin/sh: is not there: no system is in it" in empty.text
    assert Host("builder").name in empty.text


def test_an_image_runner_that_is_cut_at_any_byte_runs_nothing(builder: Builder) -> None:
    before, text = builder.files(), image_runner(runner(BUNDLE))
    file = builder.stages / "image.sh"
    for cut in [*range(0, len(text), 4999), *range(len(text) - 12, len(text) - 1)]:
        file.write_text(text[:cut])
        words = ("sh", str(file), str(builder.tree), "apply", "5", "end")
        done = subprocess.run(words, capture_output=True, check=False)
        assert done.stdout == b"", f"cut at {cut}"
    assert builder.files() == before
