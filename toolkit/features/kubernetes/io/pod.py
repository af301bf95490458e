"""What a pod of ours runs, as texts: the script that reaches its node, and those handed on."""

from __future__ import annotations

from toolkit.node.collect import probe_script
from toolkit.node.scripts import FOLDER


def pod_files() -> dict[str, str]:
    """The files that lie beside one another in every pod of ours, by name."""
    return {"pod.sh": (FOLDER / "pod.sh").read_text("utf-8"), "probe.sh": probe_script()}
