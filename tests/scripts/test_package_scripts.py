"""What packages run where they land: checked by shellcheck, and killed at every step."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.features.builds.test_builds_packages import DRIVER, KERNEL, MAKING, OFED, built, module
from tests.scripts.engine import SHELLS
from toolkit.built.plan.model import Built
from toolkit.features.builds.plan.packages import Format
from toolkit.features.builds.run.packages import make_packages
from toolkit.plan.templates import TEMPLATES, render_text

pytestmark = pytest.mark.shell

VALUES = {
    "package": "gdr-modules-6.1.0-56-amd64",
    "title": "kernel modules 535.261.03-1 for Linux 6.1.0-56-amd64",
    "kernel": KERNEL,
    "arch": os.uname().machine,
    "names": "nvidia nvidia-peermem",
    "modules": "nvidia.ko nvidia-peermem.ko",
    "needs": "nvidia ib_uverbs",
    "early": "yes",
}
SCRIPTS = sorted(path.name for path in (TEMPLATES / "package").glob("*.j2"))
PEERMEM = f"lib/modules/{KERNEL}/updates/gdr-toolkit/nvidia-peermem.ko"
LOADING = "usr/lib/modules-load.d/gdr-toolkit.conf"


@pytest.mark.parametrize("needs", ["", "nvidia ib_uverbs"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_is_clean_under_shellcheck(name: str, needs: str, tmp_path: Path) -> None:
    text = render_text(f"package/{name}", {**VALUES, "needs": needs, "early": needs and "yes"})
    assert text.startswith("#!/bin/sh\n")
    script = tmp_path / "script"
    script.write_text(text)
    # Some share functions of which they call a few.
    said = subprocess.run(
        ["shellcheck", "--exclude=SC2317,SC2329", str(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A system with one kernel, and with files of others where ours will go."""
    tree = tmp_path / "a root"
    (tree / "var/lib").mkdir(parents=True)
    for path, text in {
        f"lib/modules/{KERNEL}/modules.order": "",
        f"lib/modules/{KERNEL}/modules.builtin": "",
        f"lib/modules/{KERNEL}/modules.builtin.modinfo": "",
        PEERMEM: "an older module, placed by hand",
        LOADING: "something-else\n",
    }.items():
        file = tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tree / PEERMEM).chmod(0o600)
    return tree


def unpacked(folder: Path, *builts: Built) -> Path:
    [made] = make_packages(builts, Format.TAR, folder, MAKING)
    subprocess.run(["tar", "-xf", str(made.path), "-C", str(folder)], check=True)
    return folder / made.path.name.removesuffix(".tar.gz")


def call(
    shell: tuple[str, ...], script: Path, *words: str | Path, path: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*shell, str(script), *map(str, words)],
        env={"PATH": f"{path}/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def state(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file with mode and content, and every folder; depmod's own lists left out."""
    return {
        str(each.relative_to(root)): (
            each.stat().st_mode,
            each.read_bytes() if each.is_file() else b"",
        )
        for each in sorted(root.rglob("*"))
        if not re.search(r"modules\.(?!order)", each.name)
    }


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_install_and_uninstall_leave_a_system_as_it_was(
    shell: str, root: Path, tmp_path: Path
) -> None:
    words, before = SHELLS[shell], state(root)
    tar = unpacked(tmp_path, built(), DRIVER, OFED)
    done = call(words, tar / "install.sh", "--root", root)
    assert done.returncode == 0, done.stderr
    file = built().file("nvidia-peermem.ko")
    assert file is not None
    assert (root / PEERMEM).read_bytes() == file.data
    dep = (root / f"lib/modules/{KERNEL}/modules.dep").read_text()
    assert "updates/gdr-toolkit/nvidia-peermem.ko" in dep
    again = call(words, tar / "install.sh", "--root", root)
    assert again.returncode == 0, again.stderr
    done = call(words, tar / "uninstall.sh", "--root", root)
    assert done.returncode == 0, done.stderr
    assert state(root) == before


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_a_package_goes_although_depmod_went_before_it(
    shell: str, root: Path, tmp_path: Path
) -> None:
    script = tmp_path / "postrm"
    script.write_text(render_text("package/deb-postrm.j2", {"kernel": KERNEL, "early": ""}))
    for path in ("/nowhere", "/usr/sbin:/usr/bin:/sbin:/bin"):
        done = subprocess.run(
            [shutil.which(SHELLS[shell][0]) or "sh", *SHELLS[shell][1:], str(script), "remove"],
            env={"PATH": path, "DPKG_ROOT": str(root)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        there = (root / f"lib/modules/{KERNEL}/modules.dep").exists()
        assert there is (path != "/nowhere")


def test_who_became_root_without_a_login_leaves_no_stale_lists(root: Path, tmp_path: Path) -> None:
    tar = unpacked(tmp_path, built())
    for script in ("install.sh", "uninstall.sh"):
        done = subprocess.run(
            ["/bin/sh", str(tar / script), "--root", str(root)],
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


KILLER = """\
#!/bin/sh
count=$(($(cat {counter}) + 1))
echo $count >{counter}
if [ $count = {at} ]; then kill -9 $PPID; exit 1; fi
exec {real} "$@"
"""


def armed(folder: Path, at: int) -> str:
    """A PATH in whose front stand commands that kill their caller at the Nth call."""
    folder.mkdir()
    counter = folder / "counter"
    counter.write_text("0")
    for name in ("cp", "mv", "mkdir", "chmod", "rm", "depmod"):
        real = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
        (folder / name).write_text(KILLER.format(counter=counter, at=at, real=real))
        (folder / name).chmod(0o755)
    return f"{folder}:"


def test_an_installation_killed_at_any_step_can_be_taken_back_or_finished(
    root: Path, tmp_path: Path
) -> None:
    before, tar = state(root), unpacked(tmp_path, built(), DRIVER)
    shell, kills = SHELLS["dash"], 0
    for at in range(1, 200):
        path = armed(tmp_path / f"bin{at}", at)
        done = call(shell, tar / "install.sh", "--root", root, path=path)
        if done.returncode == 0:
            break
        kills += 1
        if at % 2:
            finished = call(shell, tar / "install.sh", "--root", root)
            assert finished.returncode == 0, (at, finished.stderr)
        back = call(shell, tar / "uninstall.sh", "--root", root)
        # Killed before anything was noted, there is nothing to take back.
        assert back.returncode == 0 or "nothing of ours" in back.stderr, (at, back.stderr)
        assert state(root) == before, at
    assert kills > 15


def test_an_uninstallation_killed_at_any_step_can_be_finished(root: Path, tmp_path: Path) -> None:
    before, tar = state(root), unpacked(tmp_path, built(), DRIVER)
    shell, kills = SHELLS["dash"], 0
    for at in range(1, 200):
        assert call(shell, tar / "install.sh", "--root", root).returncode == 0
        path = armed(tmp_path / f"bin{at}", at)
        done = call(shell, tar / "uninstall.sh", "--root", root, path=path)
        if done.returncode == 0:
            break
        kills += 1
        back = call(shell, tar / "uninstall.sh", "--root", root)
        assert back.returncode == 0 or "nothing of ours" in back.stderr, (at, back.stderr)
        assert state(root) == before, at
    assert kills > 8


def test_a_newer_tarball_takes_the_place_of_an_older_and_the_first_files_come_back(
    root: Path, tmp_path: Path
) -> None:
    before, shell = state(root), SHELLS["dash"]
    first = unpacked(tmp_path / "1", built(), DRIVER)
    newer = built(nvidia_peermem=module("nvidia_peermem", depends="nvidia", version="9"))
    second = unpacked(tmp_path / "2", newer)
    for tar in (first, second):
        assert call(shell, tar / "install.sh", "--root", root).returncode == 0
    assert not (root / PEERMEM).with_name("nvidia.ko").exists()
    file = newer.file("nvidia-peermem.ko")
    assert file is not None
    assert (root / PEERMEM).read_bytes() == file.data
    assert call(shell, second / "uninstall.sh", "--root", root).returncode == 0
    assert state(root) == before


def test_what_somebody_changed_since_is_left_and_named(root: Path, tmp_path: Path) -> None:
    shell, tar = SHELLS["dash"], unpacked(tmp_path, built())
    assert call(shell, tar / "install.sh", "--root", root).returncode == 0
    (root / PEERMEM).write_text("rebuilt by hand since")
    done = call(shell, tar / "uninstall.sh", "--root", root)
    assert f"left as it is, changed since: {root / PEERMEM}" in done.stderr
    assert (root / PEERMEM).read_text() == "rebuilt by hand since"
    assert (root / LOADING).read_text() == "something-else\n"
    kept = [each for each in root.rglob("nvidia-peermem.ko") if "kept." in str(each)]
    assert kept[0].read_text() == "an older module, placed by hand"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param("damage", "damaged or missing", id="damaged"),
        pytest.param("kernel", f"kernel {KERNEL} is not installed", id="no-such-kernel"),
        pytest.param("rival", "holds a module of this tarball", id="second-owner"),
    ],
)
def test_nothing_is_touched_where_it_cannot_end_well(
    spoil: str, words: str, root: Path, tmp_path: Path
) -> None:
    tar = unpacked(tmp_path, built())
    if spoil == "damage":
        file = tar / "files" / PEERMEM
        file.write_bytes(file.read_bytes()[:-1])
    elif spoil == "kernel":
        shutil.rmtree(root / f"lib/modules/{KERNEL}")
    else:
        rival = root / f"lib/modules/{KERNEL}/updates/dkms/nvidia-current-peermem.ko.zst"
        rival.parent.mkdir()
        rival.touch()
    before = state(root)
    done = call(SHELLS["dash"], tar / "install.sh", "--root", root)
    assert done.returncode == 1
    assert words in done.stderr
    assert "\n  next: " in done.stderr
    assert state(root) == before


@pytest.mark.parametrize("words", [("--rot", "/"), ("x",), ("--root", "/no/such"), ("--root",)])
def test_a_slip_of_the_pen_installs_nothing(words: tuple[str, ...], tmp_path: Path) -> None:
    done = call(SHELLS["dash"], unpacked(tmp_path, built()) / "install.sh", *words)
    assert done.returncode == 1
    assert "next: " in done.stderr
