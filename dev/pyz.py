"""What gdr.pyz begins with: it unpacks itself once, into a private folder of the user, and runs.

Compiled modules (cryptography's among them) cannot be loaded from inside a zip. The folder is named
by the digest of all files, and each is checked by its own as it is unpacked. It is parsed by
older Pythons, too, which are told what is amiss.
"""

import hashlib
import json
import platform
import shutil
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

ABOUT, SUMS, LIB = "about.json", "SHA256SUMS", "lib/"


def end(said: str, hint: str, code: int = 64) -> None:
    """As all verbs do: one sentence and a hint."""
    sys.stderr.write(f"error: {said}\n next: {hint}\n")
    sys.exit(code)


def main(pyz: str) -> None:
    """Run what was typed."""
    with zipfile.ZipFile(pyz) as packed:
        about = json.loads(packed.read(ABOUT).decode())
        low, high, machine = about["low"], about["high"], about["machine"]
        here, python = f"{platform.system()} on {platform.machine()}", sys.version_info[:2]
        if here != f"Linux on {machine}" or not (3, low) <= python <= (3, high):
            said = f"this file is for Linux on {machine} with Python 3.{low} to 3.{high}"
            said += f"; here are {here} and Python {python[0]}.{python[1]}"
            end(said, f"call it by such a Python: python3.{low} FILE", 6)
        folder = unpacked(packed, pyz)
    sys.path[0] = str(folder)  # in place of the zip
    from toolkit.cli import main as gdr  # noqa: PLC0415 it is there from now on
    from toolkit.cli import start  # noqa: PLC0415 likewise

    start.end_after(gdr)


def unpacked(packed: zipfile.ZipFile, pyz: str) -> Path:
    """The folder with all files: of an earlier start, or made now."""
    sys.path.insert(0, f"{pyz}/{LIB}")  # from there what is plain Python can be imported
    from toolkit.errors import ToolkitError  # noqa: PLC0415 as above
    from toolkit.package_data import kept  # noqa: PLC0415 as above
    from toolkit.safe_file import others_may_write, private_folder  # noqa: PLC0415 as above

    sums, folder = packed.read(SUMS).decode(), Path()
    try:
        base = kept("XDG_CACHE_HOME", "~/.cache") / "pyz"
        private_folder(base)
        folder = base / hashlib.sha256(sums.encode()).hexdigest()[:32]
        why = others_may_write(base)
        if why:
            end(why, "chmod 700 it, or set XDG_CACHE_HOME to a folder of your own")
        if not folder.exists():
            unpack(packed, sums, folder)
    except ToolkitError as trouble:
        end(str(trouble), trouble.hint)
    except (OSError, zipfile.BadZipFile, zlib.error) as trouble:
        end(
            f"{pyz} cannot be unpacked: {trouble}",
            "copy it again; make room, or set XDG_CACHE_HOME",
        )
    del sys.path[0]
    for name in [each for each in sys.modules if each.partition(".")[0] == "toolkit"]:
        del sys.modules[name]
    return folder


def unpack(packed: zipfile.ZipFile, sums: str, folder: Path) -> None:
    """All files or none: beside, and renamed once they are whole. Another start may be faster."""
    beside = Path(tempfile.mkdtemp(prefix=".new-", dir=str(folder.parent)))
    try:
        for line in sums.splitlines():
            digest, name = line.split("  ", 1)
            data = packed.read(LIB + name)
            if hashlib.sha256(data).hexdigest() != digest:
                raise OSError(f"{name} is not as it was packed")
            (beside / name).parent.mkdir(parents=True, exist_ok=True)
            (beside / name).write_bytes(data)
        beside.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(str(beside), ignore_errors=True)


if __name__ == "__main__":
    main(sys.path[0])
