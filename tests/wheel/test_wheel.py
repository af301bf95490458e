"""What pip installs is whole: built, installed where no checkout is near, and used."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from dev.run import ROOT, files
from toolkit import __version__

# Folders whose every file belongs into the wheel, and where each lies there.
SHIPPED = {"toolkit": "toolkit", "templates": "toolkit/templates", "playbooks": "toolkit/playbooks"}


def _run(*words: str | Path, cwd: Path) -> str:
    """Run to the end in a folder from which no checkout is importable."""
    environ = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "XDG_STATE_HOME": str(cwd / "state")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sdist and wheel; the wheel is built from the sdist, without the network."""
    out = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    return out


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel; its dependencies are lent by ours."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home / "env", with_pip=False, symlinks=True)
    python = home / "env" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
    _run(*pip, "--no-deps", "--no-index", wheel, cwd=home)
    (site,) = (home / "env").glob("lib/python3*/site-packages")
    # Paths of a .pth file are not searched for further .pth files, so the checkout stays out.
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home


def test_every_file_of_the_package_is_inside(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        inside = set(packed.namelist())
    wanted = {
        f"{SHIPPED[path.parts[0]]}/{path.relative_to(path.parts[0])}"
        for path in (file.relative_to(ROOT) for file in files())
        if path.parts[0] in SHIPPED
    }
    assert wanted <= inside, sorted(wanted - inside)


def test_nothing_else_is_inside(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        tops = {name.split("/")[0] for name in packed.namelist()}
    assert tops == {"toolkit", f"gdr_toolkit-{__version__}.dist-info"}


def test_the_bill_of_materials_is_inside_where_pep_770_has_it(wheel: Path) -> None:
    place = f"gdr_toolkit-{__version__}.dist-info/sboms/gdr-toolkit.cdx.json"
    with zipfile.ZipFile(wheel) as packed:
        assert packed.read(place) == (ROOT / "gdr-toolkit.cdx.json").read_bytes()


def test_the_sdist_has_what_a_checkout_needs(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"invokew", "tasks.py", "requirements.lock", "LICENSE", "docs/guide.md"} <= names


def test_gdr_tells_its_version(installed: Path) -> None:
    assert __version__ in _run(installed / "env" / "bin" / "gdr", "--version", cwd=installed)


def test_gdr_has_the_verbs(installed: Path) -> None:
    listed = _run(installed / "env" / "bin" / "gdr", "--list", cwd=installed)
    for verb in ("doctor", "plan", "provision", "verify", "rollback"):
        assert f"  {verb}" in listed


def test_what_runs_is_what_was_installed(installed: Path) -> None:
    code = "import toolkit; from toolkit import package_data, want; print(toolkit.__file__);"
    code += "print(package_data.templates(), package_data.playbooks(), *want.profiles())"
    package, found = _run(
        installed / "env" / "bin" / "python", "-c", code, cwd=installed
    ).splitlines()
    home = Path(package).parent
    assert home.is_relative_to(installed)
    folders = [str(home / each) for each in ("templates", "playbooks")]
    assert found.split() == [*folders, "auto", "dmabuf", "peermem"]


def test_the_tables_of_what_goes_with_what_are_installed_too(installed: Path) -> None:
    code = "from toolkit.compat.reader import shipped; print(len(shipped().breakages))"
    assert _run(installed / "env" / "bin" / "python", "-c", code, cwd=installed).strip() == "20"


def test_a_demo_node_is_planned_from_the_installed_package(installed: Path) -> None:
    """Scripts, templates and simulated commands are found where pip puts them."""
    plan = _run(installed / "env" / "bin" / "gdr", "bundle", "--hosts", "demo", cwd=installed)
    assert plan.strip()
    assert list((installed / "bundles").glob("*/apply.sh"))


def test_a_folder_of_ones_own_has_the_verbs_for_plain_invoke(installed: Path) -> None:
    python, folder = installed / "env" / "bin" / "python", installed / "site"
    _run(python, "-m", "toolkit.cli", "init", "--folder", folder, cwd=installed)
    told = _run(python, "-m", "invoke", "doctor", "--hosts", "demo-healthy", cwd=folder)
    assert "1 of 1 node is ready for GPUDirect RDMA." in told
