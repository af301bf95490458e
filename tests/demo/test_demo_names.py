"""Which host expressions name demo nodes."""

from __future__ import annotations

import pytest

from toolkit.demo.nodes import EVERY, SMALL, fleet_names, recipe_of
from toolkit.errors import UsageError


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        pytest.param("demo", SMALL, id="the-small-fleet"),
        pytest.param("demo-all", EVERY, id="every-kind"),
        pytest.param("demo-acs", ("demo-acs",), id="one-by-name"),
        pytest.param("demo[1-3]", ("demo1", "demo2", "demo3"), id="a-range"),
        pytest.param("demo[001-003]!demo002", ("demo001", "demo003"), id="an-exclusion"),
        pytest.param("demo-acs,demo007", ("demo-acs", "demo007"), id="both-kinds"),
        pytest.param("demo-acs,demo-hang", ("demo-acs", "demo-hang"), id="a-list"),
    ],
)
def test_demo_nodes_are_recognised(expression: str, names: tuple[str, ...]) -> None:
    found = fleet_names(expression)
    assert found is not None
    assert sorted(found) == sorted(names)


def test_the_small_fleet_counts_as_a_set_within_an_expression() -> None:
    assert sorted(fleet_names("demo!demo-iommu") or ()) == sorted(set(SMALL) - {"demo-iommu"})


@pytest.mark.parametrize(
    "expression", ["gpu[01-02]", "demo.example.org", "root@demo", "demo:22", "", "gpu[", "mydemo"]
)
def test_other_hosts_are_left_alone(expression: str) -> None:
    assert fleet_names(expression) is None


def test_a_mixture_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be mixed with gpu01"):
        fleet_names("demo001,gpu01")


def test_numbered_nodes_are_mostly_healthy_and_never_beyond_healing() -> None:
    kinds = [recipe_of(f"demo{number:03}").kind for number in range(1, 201)]
    assert kinds.count("small-healthy") == 120
    assert set(kinds) == {f"small-{name.removeprefix('demo-')}" for name in SMALL}
