"""One self-contained page about a fleet, for a browser; see ``toolkit.report.pages``."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.features.page.show.parts import Page
from toolkit.plural import counted
from toolkit.report.pages import render


def html(page: Page, command: str) -> Iterator[str]:
    """The page, part by part.

    :param command: what made it, as an operator would type it.
    """
    ready = sum(count for state, _, count in page.states if state == "ready")
    total = counted(len(page.nodes), "node")
    title = f"{ready:,} of {len(page.nodes):,} nodes are ready for GPUDirect RDMA"
    if len(page.nodes) == 1:
        title = f"{page.nodes[0].name} is {page.nodes[0].state}"
    return render(
        "fleet.html",
        {"page": page, "title": title, "total": total, "command": command},
        styles=("base.css", "fleet.css"),
        scripts=("fleet.js",),
    )
