"""The doors of gdr-toolkit: ``gdr``, the verbs for one's own tasks.py, and pytest's plugin.

Their names are nobody else's. ``toolkit`` may be the name of another's package, too, which then
comes first on the path: these say so, and the plugin imports ours only for those who ask for it.
PYTEST_DONT_REWRITE: whoever imports us before pytest is not warned of it.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

__all__ = ("foreign", "main", "namespace", "verbs")


def foreign() -> str:
    """Where a package lies that is called toolkit and comes before ours; "" where ours is first."""
    spec = getattr(sys.modules.get("toolkit"), "__spec__", None) or PathFinder.find_spec("toolkit")
    own = Path(__file__).resolve().parent.with_name("toolkit")
    found = [*(spec.submodule_search_locations or [spec.origin or ""])] if spec else []
    return "" if own in [Path(each).resolve() for each in found] else found[0] if found else "?"


def trouble() -> str:
    """The same as a sentence and a hint."""
    said = f"another package that is called toolkit comes before that of gdr-toolkit: {foreign()}"
    return f"{said}\n next: call it from another folder, or take that off PYTHONPATH, or rename it"


def refuse_foreign() -> None:
    """End where ``toolkit`` is another's: as all verbs do, with 64 and no traceback."""
    if foreign():
        print(f"error: {trouble()}", file=sys.stderr)
        raise SystemExit(64)


def __getattr__(name: str) -> object:
    """``namespace``, a collection of all verbs, and ``verbs()``, which makes one to put into it."""
    if name not in {"namespace", "verbs"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    refuse_foreign()
    from toolkit import cli  # noqa: PLC0415 only they pay for it

    if plain := sys.modules.get("invoke.main"):  # Invoke's own program, which reads our importer
        cli.answer(plain.program)
    return getattr(cli, name)


def main() -> None:
    """The command ``gdr`` in somebody's own program, which goes on after SystemExit."""
    refuse_foreign()
    from toolkit.cli import main as gdr  # noqa: PLC0415 as above

    gdr()


def script() -> None:
    """The console script ``gdr``, as all that its process is for."""
    refuse_foreign()
    from toolkit.cli import main as gdr  # noqa: PLC0415 as above
    from toolkit.cli import start  # noqa: PLC0415 as above

    start.end_after(gdr)
