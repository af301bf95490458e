"""Ctrl-C while the program starts: it ends as later, with 130 and without a traceback.

What a start imports stays to the end, and is not looked through for garbage, then or later, nor
taken apart. Imported before all else; the first verb that runs puts Python's own way back.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

_PROGRAMS = frozenset({"gdr", "invoke", "inv", "-m"})  # "-m": while python -m toolkit.cli begins

_YAML = "invoke.vendor.yaml"
_MAINS = frozenset({("cli", "__main__.py"), ("gdr_toolkit", "__main__.py")})


def _end(*_: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)  # nothing is open yet, and an exception would show where we were


def _ours() -> bool:
    """Whether this process is our program, rather than somebody's who imports us."""
    own = Path(sys.argv[0]) if sys.argv else Path()
    return own.name in _PROGRAMS or own.suffix == ".pyz" or own.parts[-2:] in _MAINS


def begin() -> None:
    """From now on Ctrl-C ends the process at once."""
    here = threading.current_thread() is threading.main_thread() and _ours()
    if here and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
        gc.disable()
        _import_lean()


def _import_lean() -> None:
    """Invoke and msgspec without what they have for others: a third of a start before any verb.

    A class for tests of tasks brings asyncio and TLS, YAML is for settings that hardly anybody has,
    the version of Invoke, of the metadata of packages, is nobody's question, and what older Pythons
    lack stands in typing: 15, 12, 9 and 2 ms. Who imports one of them later has it.
    """
    aside: dict[str, dict[str, object]] = {
        "unittest.mock": {"Mock": object},
        "importlib.metadata": {"version": lambda _: ""},
        _YAML: {"__getattr__": lambda name: getattr(import_module(_YAML), name)},  # PEP 562
    }
    if {"invoke", "typing_extensions", *aside} & sys.modules.keys():
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment] # it is not to be found
    for name, holds in aside.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(holds)
    try:
        import invoke.context  # noqa: F401, PLC0415 see above
        import msgspec  # noqa: F401, PLC0415 likewise
    finally:
        for name in ("typing_extensions", *aside):
            del sys.modules[name]


def over() -> None:
    """From now on Ctrl-C is KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.freeze()
        gc.enable()


def _watched() -> bool:
    """Whether somebody looks on, a profiler for one, who tells what they saw at the very end."""
    since_3_12 = getattr(sys, "monitoring", None)  # by which cProfile looks since then
    return bool(
        sys.gettrace()
        or sys.getprofile()
        or (since_3_12 and any(map(since_3_12.get_tool, range(6))))
    )


def end_after(main: Callable[[], None]) -> None:
    """Run ``main`` as all that this process is for, and end as Python would.

    What Python takes apart first, module by module, the kernel takes back at once: that is 45 ms
    of the 560 that ``doctor`` has of the processor for one node.
    """
    code: str | int | None = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    others = [each for each in threading.enumerate() if not each.daemon]
    if isinstance(code, int) and len(others) == 1 and not _watched():
        with suppress(OSError, ValueError):  # Python has its own word for what it cannot flush
            atexit._run_exitfuncs()  # no other name runs them
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
            os._exit(code)
    sys.exit(code)


begin()
