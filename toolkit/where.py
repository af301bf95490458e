"""Where the files are that are not Python: beside the package in a checkout, inside it in a wheel.

What lies inside the package in both is found beside the module that reads it. And where the
user has ours, who may have no home and no name: a number is enough for the kernel.
"""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from toolkit.errors import ToolkitError, UsageError

PACKAGE = Path(__file__).resolve().parent


def templates(package: Path = PACKAGE) -> Path:
    """The folder of templates for what lands on nodes.

    :raises ToolkitError: when the installation lacks it.
    """
    return _folder("templates", package)


def playbooks(package: Path = PACKAGE) -> Path:
    """The folder of Ansible playbooks over our bundles.

    :raises ToolkitError: when the installation lacks it.
    """
    return _folder("playbooks", package)


def kept(variable: str, usual: str) -> Path:
    """The user's folder of ours, by the XDG base directory specification; it need not be there.

    :param variable: names another one in the environment, such as XDG_STATE_HOME.
    :raises UsageError: it is not set, and nobody knows the user's home.
    """
    base = os.environ.get(variable) or usual
    try:
        return Path(base).expanduser() / "gdr-toolkit"
    except RuntimeError as why:  # of expanduser
        raise UsageError(
            f"{base}: this user has no home folder",
            hint=f"set {variable} to a folder that can be written",
        ) from why


def from_home(path: str) -> Path:
    """The path with the user's home for its ~, which stays where nobody knows of a home."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 # Path's own raises there


def user_name() -> str:
    """The user's name; his number where no name goes with it, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError: before Python 3.13
        return str(os.geteuid())


def _folder(name: str, package: Path) -> Path:
    # Inside first: beside an installed package lie other people's folders.
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise ToolkitError(
        f"this installation has no folder {name}",
        hint="install it again: pip install --force-reinstall, and the wheel's file",
    )
