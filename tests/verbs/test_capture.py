"""What capture writes of each node, and what it says of evidence that was cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evidence.build import node
from tests.replay import ReplayTransport
from toolkit.evidence import Evidence
from toolkit.hosts.host import Host
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.cli.capture import capture_nodes

CUT = Evidence(dict(list(node().frames.items())[:20]), complete=False)


def fleet(**nodes: Evidence) -> Fleet:
    """A fleet whose nodes answer with this evidence."""
    hosts = tuple(Host(name) for name in nodes)
    return Fleet(hosts, lambda host: ReplayTransport(host.name, nodes[host.name]), Access())


@pytest.mark.parametrize("scrubbed", [False, True])
def test_evidence_that_was_cut_off_is_kept_and_told_from_whole(
    tmp_path: Path, scrubbed: bool
) -> None:
    outcomes = capture_nodes(fleet(whole=node(), cut=CUT), tmp_path / "out", scrubbed=scrubbed)
    told = {each.host: each.get() for each in outcomes}
    assert {name: each.complete for name, each in told.items()} == {"whole": True, "cut": False}
    for each in told.values():
        assert Evidence.parse(each.file.read_text()).complete is each.complete
