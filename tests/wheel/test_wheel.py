"""What pip installs is whole: built, installed where no checkout is near, and used."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from dev import release
from dev.run import ROOT, files
from toolkit import __version__
from toolkit.errors import ToolkitError

# Folders whose every file belongs into the wheel, and where each lies there.
_DATA = {"templates": "toolkit/templates", "playbooks": "toolkit/playbooks"}
SHIPPED = {"toolkit": "toolkit", "gdr_toolkit": "gdr_toolkit", **_DATA}


def _refused(*words: str | Path, cwd: Path) -> str:
    """What a command says that does nothing and ends with a code of ours."""
    done = _done(*words, cwd=cwd)
    assert done.returncode in {6, 64}, done
    return done.stderr


def _run(*words: str | Path, cwd: Path) -> str:
    done = _done(*words, cwd=cwd)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def _done(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run to the end in a folder from which no checkout is importable."""
    environ = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    kept = {"XDG_STATE_HOME": str(cwd / "state"), "XDG_CACHE_HOME": str(cwd / "cache")}
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"} | kept,
        capture_output=True,
        text=True,
        check=False,
    )


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
    assert tops == {"toolkit", "gdr_toolkit", f"gdr_toolkit-{__version__}.dist-info"}


def test_the_bill_of_materials_is_inside_where_pep_770_has_it(wheel: Path) -> None:
    place = f"gdr_toolkit-{__version__}.dist-info/sboms/gdr-toolkit.cdx.json"
    with zipfile.ZipFile(wheel) as packed:
        assert packed.read(place) == (ROOT / "gdr-toolkit.cdx.json").read_bytes()


def test_the_sdist_has_what_a_checkout_needs(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"invokew", "tasks.py", "requirements.lock", "LICENSE", "docs/guide.md"} <= names


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


# What a verb imports that reads nodes by SSH; compiled modules among it.
NEEDED = (
    "bcrypt cffi clustershell cryptography invoke jinja2 markdown-it-py markupsafe mdurl msgspec"
    " paramiko pyelftools pygments pynacl pyyaml rich"
)


@pytest.fixture(scope="session")
def tree(wheel: Path) -> release.Tree:
    """The wheel with packages of this environment, in place of those that pip would fetch."""
    files = dict(release.merged([wheel]))
    for name in NEEDED.split():
        for each in metadata.files(name) or ():
            if ".." not in each.parts and each.suffix != ".pyc":
                files[str(each)] = Path(str(each.locate())).read_bytes()
    return files


@pytest.fixture(scope="session")
def pyz(tree: release.Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release.pyz_file(tree, platform.machine(), tmp_path_factory.mktemp("pyz"), level=1)


def test_one_file_judges_nodes_over_ssh_from_a_private_folder(pyz: Path, tmp_path: Path) -> None:
    """Twice: the first start unpacks it, the second finds it."""
    python = (sys.executable, "-I", "-S", pyz)  # of this environment it sees no package
    for _ in range(2):
        told = _run(*python, "doctor", "--hosts", "demo-healthy", cwd=tmp_path)
        assert "1 of 1 node is ready for GPUDirect RDMA." in told
    (base,) = tmp_path.glob("cache/gdr-toolkit/pyz")
    assert (base.stat().st_mode & 0o777, len([*base.iterdir()])) == (0o700, 1)


def test_its_hints_call_it_as_it_was_called(pyz: Path, tmp_path: Path) -> None:
    told = _refused(sys.executable, "-I", "-S", pyz, "doctr", cwd=tmp_path)
    assert f" next: did you mean doctor? {pyz} --list" in told


def test_one_file_that_was_changed_unpacks_nothing(pyz: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.pyz"
    with zipfile.ZipFile(pyz) as packed, zipfile.ZipFile(changed, "w") as other:
        for name in packed.namelist():
            data = packed.read(name)
            other.writestr(name, data + b"#" * (name == "lib/invoke/__init__.py"))
    told = _refused(sys.executable, changed, "--list", cwd=tmp_path)
    assert "cannot be unpacked: invoke/__init__.py is not as it was packed" in told
    assert not [*tmp_path.glob("cache/gdr-toolkit/pyz/*")]


def test_a_folder_that_others_may_write_is_not_run_from(pyz: Path, tmp_path: Path) -> None:
    base = tmp_path / "cache" / "gdr-toolkit" / "pyz"
    base.mkdir(parents=True)
    base.chmod(0o777)
    told = _refused(sys.executable, pyz, "--list", cwd=tmp_path)
    assert f"error: {base} may be written by others\n next: " in told


def test_one_file_on_another_machine_says_for_which_it_is(
    tree: release.Tree, tmp_path: Path
) -> None:
    other = release.pyz_file({}, "riscv64", tmp_path)
    told = _refused(sys.executable, other, cwd=tmp_path)
    assert "this file is for Linux on riscv64 with Python 3.11 to 3.14; here are Linux on" in told


def test_packages_for_two_pythons_lie_side_by_side_or_are_refused(tmp_path: Path) -> None:
    for minor, same in ((11, b"same"), (12, b"same"), (13, b"other")):
        with zipfile.ZipFile(tmp_path / f"a-1-cp3{minor}.whl", "w") as packed:
            packed.writestr("a/__init__.py", same)
            packed.writestr(f"a/_c.cpython-3{minor}.so", str(minor))
            packed.writestr("a-1.dist-info/WHEEL", f"Tag: cp3{minor}")
    wheels = sorted(tmp_path.iterdir())
    assert [*release.merged(wheels[:2])] == [
        *("a/__init__.py", "a/_c.cpython-311.so", "a/_c.cpython-312.so")
    ]
    with pytest.raises(ToolkitError, match=r"a/__init__\.py differs"):
        release.merged(wheels)


def test_a_version_is_that_of_its_tag() -> None:
    assert not release.untagged(f"v{__version__}\n")
    assert f"git tag v{__version__}" in release.untagged("")
    with pytest.raises(ToolkitError, match=r"tagged v9\.9\.9, and"):
        release.untagged("v9.9.9\n")


def test_the_version_names_the_commit_that_the_wheel_was_made_of(installed: Path) -> None:
    git = ("git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*")
    commit = _run(*git, cwd=installed).strip()
    told = _run(installed / "env" / "bin" / "gdr", "--version", cwd=installed)
    assert told == f"gdr-toolkit {__version__} (commit {commit})\n"
