"""What is published: wheel and sdist, and the tool with all it needs as gdr.pyz, deb and rpm.

The last three hold the same folder: the wheel and each package of requirements.lock, by its hash,
for every Python of ``PYTHONS``. Compiled modules of several Pythons lie there side by side, for
their names tell them apart. Equal files give equal bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from dev import pyz
from dev.run import ROOT, say
from toolkit import __version__
from toolkit.errors import ExitCode, ToolkitError, Unsupported
from toolkit.features.builds.io.package_tools import pack_deb, pack_rpm
from toolkit.features.builds.plan import deb, rpm
from toolkit.features.builds.plan.packages import Making, PackedFile

Tree = Mapping[str, bytes]  # each file of the folder, by its path
PYTHONS = (11, 14)  # the first and the last, 3.x
MACHINES = ("x86_64", "aarch64")
HOME = "usr/lib/gdr-toolkit"
_GLIBC = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
_LEFT_OUT = ("setuptools",)  # pbr names it, which needs it to build others
_OF_ITS_PYTHON = ("/WHEEL", "/RECORD")  # these differ by Python, and nobody reads them here
_ABOUT = "diagnose, fix and verify GPUDirect RDMA on fleets of GPU nodes"
_DESCRIPTION = (
    "Over SSH; nothing is installed on the nodes. With all Python packages that it needs."
)
_START = f"""\
#!/bin/sh
# Isolated (-I): neither PYTHONPATH nor packages of the user take the place of what lies there.
for minor in {" ".join(str(each) for each in range(PYTHONS[1], PYTHONS[0] - 1, -1))}; do
    [ ! -x /usr/bin/python3.$minor ] || exec /usr/bin/python3.$minor -I /{HOME} "$@"
done
echo 'error: no Python 3.{PYTHONS[0]} to 3.{PYTHONS[1]} in /usr/bin' >&2
echo ' next: install one, such as python3.{PYTHONS[0]}' >&2
exit 6
"""
_MAIN = b"""\
import sys

sys.argv[0] = "gdr"
from toolkit.cli import main, start

start.end_after(main)
"""
# Compiled once, for no user may write there; a Python that comes later compiles in memory.
_AFTER = f"""\
#!/bin/sh
for python in /usr/bin/python3.1[{str(PYTHONS[0])[1]}-{str(PYTHONS[1])[1]}]; do
    [ ! -x "$python" ] || "$python" -m compileall -q /{HOME} >/dev/null 2>&1 || :
done
"""
_BEFORE = f"#!/bin/sh\nfind /{HOME} -depth -name __pycache__ -type d -exec rm -rf {{}} +\n"
_PYTHON = " or ".join(f"python(abi) = 3.{n}" for n in range(PYTHONS[0], PYTHONS[1] + 1))


def release(out: Path, machines: Iterable[str] = ()) -> ExitCode:
    """Make all of it, and SHA256SUMS.

    :raises ToolkitError: a program fails, see above it; or the commit's tag is another version's.
    """
    words = ("git", "-C", str(ROOT), "tag", "--points-at", "HEAD", "v*")
    if note := untagged(subprocess.run(words, capture_output=True, text=True, check=False).stdout):
        say(note)
    out.mkdir(parents=True, exist_ok=True)
    _run("build", "--no-isolation", "--outdir", out, ROOT)
    wheel = out / f"gdr_toolkit-{__version__}-py3-none-any.whl"
    made, code = [wheel, out / f"gdr_toolkit-{__version__}.tar.gz"], ExitCode.OK
    for machine in machines or (platform.machine(),):
        with tempfile.TemporaryDirectory(prefix="gdr-wheels-") as folder:
            files = merged([wheel, *fetched(machine, Path(folder))])
        made.append(pyz_file(files, machine, out))
        for pack in (deb_file, rpm_file):
            try:
                made.append(pack(files, machine, out))
            except Unsupported as why:
                say(f"not made: {why}; {why.hint}")
                code = ExitCode.UNSUPPORTED
    sums = (f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in made)
    (out / "SHA256SUMS").write_text("".join(sums))
    for each in made:
        print(f"{each.stat().st_size / 1e6:6.1f} MB  {each}")
    return code


def untagged(tags: str) -> str:
    """What is to be said of a commit without a tag; "" of one that has the version's.

    :raises ToolkitError: it has another version's.
    """
    if f"v{__version__}" in tags.split():
        return ""
    if tags.strip():
        said = f"this commit is tagged {tags.strip()}, and toolkit/__init__.py has {__version__}"
        raise ToolkitError(said, hint="both are to say the same")
    return f"note: this commit is no release: git tag v{__version__}"


def _run(module: str, *words: str | Path) -> None:
    done = subprocess.run([sys.executable, "-m", module, *map(str, words)], check=False)
    if done.returncode:
        raise ToolkitError(f"python -m {module} failed", hint="see above for what it said")


def fetched(machine: str, folder: Path) -> tuple[Path, ...]:
    """The wheels of requirements.lock for all Pythons, by pip, into the folder."""
    platforms = [f"--platform={each}_{machine}" for each in _GLIBC]
    for minor in range(PYTHONS[0], PYTHONS[1] + 1):
        words = ("--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:", *platforms)
        words += ("--implementation=cp", f"--python-version=3.{minor}", f"--dest={folder}")
        _run("pip", "download", *words, f"--requirement={ROOT / 'requirements.lock'}")
    return tuple(sorted(folder.iterdir()))


def merged(wheels: Iterable[Path]) -> Tree:
    """The folder that these wheels make. :raises ToolkitError: two differ in a file of one name."""
    files: dict[str, bytes] = {}
    for wheel in wheels:
        if wheel.name.startswith(_LEFT_OUT):
            continue
        with zipfile.ZipFile(wheel) as packed:
            for name in packed.namelist():
                if name.endswith(("/", *_OF_ITS_PYTHON)) or ".data/" in name:
                    continue
                data = packed.read(name)
                if files.setdefault(name, data) != data:
                    raise ToolkitError(f"{name} differs by Python", hint="pack one Python alone")
    return dict(sorted(files.items()))


def pyz_file(files: Tree, machine: str, out: Path, *, level: int = 9) -> Path:
    """One file that any of ``PYTHONS`` runs; see dev/pyz.py.

    :param level: of its compression; less is quicker.
    """
    about = {"low": PYTHONS[0], "high": PYTHONS[1], "machine": machine}
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    inside = {
        "__main__.py": Path(pyz.__file__).read_bytes(),
        pyz.ABOUT: json.dumps(about).encode(),
        pyz.SUMS: sums.encode(),
        **{pyz.LIB + name: data for name, data in files.items()},
    }
    raw = io.BytesIO(b"#!/usr/bin/env python3\n")
    raw.seek(0, io.SEEK_END)
    with zipfile.ZipFile(raw, "a") as packed:
        for name, data in inside.items():
            packed.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, level)
    target = out / f"gdr-{__version__}-{machine}.pyz"
    target.write_bytes(raw.getvalue())
    target.chmod(0o755)
    return target


def _placed(files: Tree) -> tuple[PackedFile, ...]:
    lib = [PackedFile(f"{HOME}/{name}", data) for name, data in files.items()]
    start = PackedFile("usr/bin/gdr", _START.encode(), 0o755)
    return (*lib, PackedFile(f"{HOME}/__main__.py", _MAIN), start)


def deb_file(files: Tree, machine: str, out: Path) -> Path:
    """A package for Debian and Ubuntu. :raises Unsupported: without dpkg-deb."""
    making, licence = Making(), (ROOT / "LICENSE").read_bytes()
    note = b"The packages below /usr/lib/gdr-toolkit have their licences in *.dist-info.\n\n"
    placed = (*_placed(files), PackedFile("usr/share/doc/gdr-toolkit/copyright", note + licence))
    pythons = [f"python3.{each}" for each in range(PYTHONS[0], PYTHONS[1] + 1)]
    control = [
        ("Package", "gdr-toolkit"),
        ("Version", __version__),
        ("Architecture", deb.arch(machine)),
        ("Maintainer", making.maintainer),
        ("Installed-Size", deb.size(placed)),
        ("Depends", f"libc6 (>= 2.28), {' | '.join(pythons)}"),
        ("Recommends", "openssh-client"),
        ("Section", "admin"),
        ("Priority", "optional"),
        ("Description", f"{_ABOUT}\n {_DESCRIPTION}"),
    ]
    tree = deb.whole(placed, control, {"postinst": _AFTER, "prerm": _BEFORE})
    return pack_deb(tree, out / f"gdr-toolkit_{__version__}_{deb.arch(machine)}.deb", making.epoch)


def rpm_file(files: Tree, machine: str, out: Path) -> Path:
    """A package for RHEL, Fedora and SUSE. :raises Unsupported: without rpmbuild."""
    script = {"post": _AFTER, "preun": _BEFORE}
    parts = [f"%{key} -p /bin/sh\n{text.partition(chr(10))[2]}" for key, text in script.items()]
    spec = f"""{rpm.HEAD}
Name: gdr-toolkit
Version: {__version__}
Release: 1
Summary: {_ABOUT.capitalize()}
License: Apache-2.0
AutoReqProv: no
Requires: ({_PYTHON})
Recommends: openssh-clients

%description
{_DESCRIPTION}

%install
mkdir -p "%{{buildroot}}"
cp -a "%{{_sourcedir}}/usr" "%{{buildroot}}/"

{"".join(parts)}
%files
%defattr(-,root,root,0755)
/{HOME}
/usr/bin/gdr
"""
    (made,) = pack_rpm(spec, _placed(files), out, Making().epoch, machine)
    return made
