"""Invoke itself, as ``invokew`` runs it: for users, too, whose HOME may not be entered."""

from __future__ import annotations

import sys

from toolkit.start import unheard


def main() -> None:
    """Run what was typed."""
    unheard()
    from invoke import __version__  # noqa: PLC0415 Ctrl-C may come meanwhile
    from invoke.program import Program  # noqa: PLC0415 as above

    from toolkit.cli import Settings  # noqa: PLC0415 as above

    sys.argv[0] = "invoke"  # as which it is told of
    names = ["invoke", "inv"]
    Program(
        name="Invoke",
        binary="inv[oke]",
        binary_names=names,
        version=__version__,
        config_class=Settings,
    ).run()


if __name__ == "__main__":
    main()
