"""Which kernel sets ACS by which argument."""

from __future__ import annotations

import pytest

from toolkit.facts.pci.acs import AcsArgument, acs_argument, mistakes_arguments

REDIRECT, CONFIG, NONE = AcsArgument.REDIRECT, AcsArgument.CONFIG, None


@pytest.mark.parametrize(
    ("release", "argument"),
    [
        ("4.18.0-553.el8_10.x86_64", NONE),
        ("4.18.20-041820-generic", NONE),
        ("4.19.0-27-amd64", REDIRECT),
        ("5.10.0-46-amd64", REDIRECT),
        ("5.14.0-427.13.1.el9_4.x86_64", REDIRECT),
        ("5.14.0-503.11.1.el9_5.x86_64", NONE),
        ("5.14.21-150500.55.7-default", REDIRECT),
        ("5.15.0-208.159.3.2.el9uek.x86_64", NONE),
        ("6.1.0-56-amd64", REDIRECT),
        ("6.4.0-150600.23.17-default", NONE),
        ("6.8.0-45-generic", REDIRECT),
        ("6.8.0-1013-nvidia", NONE),
        ("6.10.14-200.fc40.x86_64", REDIRECT),
        ("6.11.0-29-generic", NONE),
        ("6.12.0-55.9.1.el10_0.x86_64", NONE),
        ("6.12.22+deb13-amd64", NONE),
        ("6.12.23+deb13-amd64", CONFIG),
        ("6.12.117+deb12-amd64", CONFIG),
        ("6.13.10", NONE),
        ("6.13.11-1-default", CONFIG),
        ("6.14.0-27-generic", NONE),
        ("6.14.2-300.fc42.x86_64", CONFIG),
        ("6.15.0", CONFIG),
        ("6.17.0-1004-azure", CONFIG),
        ("7.0.1", CONFIG),
    ],
)
def test_an_argument_is_named_only_where_it_is_known_to_work(
    release: str, argument: AcsArgument | None
) -> None:
    assert acs_argument(release) is argument


@pytest.mark.parametrize(
    ("release", "sure"),
    [
        ("6.10.14", False),
        ("6.11.3-amd64", True),
        ("6.12.22+deb13-amd64", True),
        ("6.12.23+deb13-amd64", False),
        ("6.14.1", True),
        ("6.14.0-27-generic", False),
        ("6.12.0-55.9.1.el10_0.x86_64", False),
        ("6.15.1", False),
    ],
)
def test_a_kernel_is_blamed_only_where_its_point_release_tells(release: str, *, sure: bool) -> None:
    assert mistakes_arguments(release) is sure
