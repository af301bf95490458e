"""The command ``gdr``, and ``python -m toolkit``."""

from __future__ import annotations

from toolkit.start import unheard


def main() -> None:
    """The console script."""
    unheard()
    from toolkit.cli import main as verbs  # noqa: PLC0415 a second of work

    verbs()


if __name__ == "__main__":
    main()
