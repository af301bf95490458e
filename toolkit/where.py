"""Where the files are that are not Python: beside the package in a checkout, inside it in a wheel.

What lies inside the package in both is found beside the module that reads it.
"""

from __future__ import annotations

from pathlib import Path

from toolkit.errors import ToolkitError

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


def _folder(name: str, package: Path) -> Path:
    # Inside first: beside an installed package lie other people's folders.
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise ToolkitError(
        f"this installation has no folder {name}",
        hint="install it again: pip install --force-reinstall gdr-toolkit",
    )
