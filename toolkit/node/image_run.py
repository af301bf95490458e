"""An image's bundle as one file for a builder that has no toolkit; see image_run.sh."""

from __future__ import annotations

from toolkit.node.scripts import FOLDER


def image_runner(runner: str) -> str:
    """The file. Cut off at any byte, it runs nothing.

    :param runner: of ``change.bundle.runner``, plain text.
    """
    parts = [
        "#!/bin/sh",
        _printing("gdr_view", (FOLDER / "media.sh").read_text("utf-8")),
        _printing("gdr_runner", runner),
        (FOLDER / "image_run.sh").read_text("utf-8"),
        'in_image "$@"\n',
    ]
    return "\n".join(parts)


def _printing(name: str, text: str) -> str:
    end = f"{name.upper()}_ENDS"
    return f"{name}() {{\ncat <<'{end}'\n{text}{end}\n}}"
