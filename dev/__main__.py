"""Invoke, as ``invokew`` runs it: it ends as ``gdr`` does, also where HOME may not be entered."""

from __future__ import annotations

import sys


def main() -> None:
    """Run what was typed."""
    sys.argv[0] = "invoke"  # as which it is told of, and by which toolkit.cli.start knows it
    from toolkit.cli import Gdr, Settings  # noqa: I001, PLC0415 first: Ctrl-C may come meanwhile
    from importlib.metadata import version  # noqa: PLC0415 as above
    from toolkit.package_data import program  # noqa: PLC0415 as above

    names = ["invoke", "inv"]
    Gdr(
        name="Invoke",
        binary=program(),
        binary_names=names,
        version=version("invoke"),
        config_class=Settings,
    ).run()


if __name__ == "__main__":
    main()
