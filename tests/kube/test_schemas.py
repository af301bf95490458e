"""What is rendered holds to the schemas that Kubernetes publishes, from old versions to new."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kube.schemas import linted, validated
from toolkit.features.kubernetes.plan import NodeBundle, PodTerms, parse_terms
from toolkit.features.kubernetes.run import (
    applying_manifests,
    reading_manifests,
    write_manifests,
)

pytestmark = pytest.mark.kube

IMAGE = "registry.example/busybox@sha256:" + "0123456789abcdef" * 4
# The first in which suspended Jobs are settled, what is widely run, and the newest at hand.
VERSIONS = ("1.25", "1.29", "1.33", "1.37")
USUAL = parse_terms(IMAGE, "gdr-toolkit", "nvidia.com/gpu.present=true", "nvidia.com/gpu")
TOLD = parse_terms(IMAGE, "ops", "rack,zone=a", "team=ml:NoExecute,spot", confined=True)
BARE = PodTerms(IMAGE)
LARGE = "".join(f"echo {number:>70}\n" for number in range(20_000))  # of more than one part


def rendered(folder: Path, terms: PodTerms) -> Path:
    """A folder with all that can be rendered."""
    carried = (NodeBundle("gpu007", "echo\n"), NodeBundle("gpu.8.example", LARGE, 2))
    made = (*reading_manifests(terms), *applying_manifests(terms, carried))
    write_manifests(made, folder)
    return folder


@pytest.mark.parametrize(
    ("terms", "version"),
    [
        *(pytest.param(USUAL, version, id=version) for version in VERSIONS),
        pytest.param(TOLD, VERSIONS[-1], id="all-that-can-be-said"),
        pytest.param(BARE, VERSIONS[0], id="nothing-said"),
    ],
)
def test_all_that_is_rendered_is_valid(tmp_path: Path, terms: PodTerms, version: str) -> None:
    status, said = validated(rendered(tmp_path, terms), version)
    assert status == 0, said
    # A namespace, an account, scripts, the probe; who rolls out, 5; two Jobs with three parts.
    assert said.count("passed for resource") == 4 + 5 + 2 + 3, said


@pytest.mark.parametrize("terms", [USUAL, TOLD], ids=["usual", "told"])
def test_all_that_is_rendered_is_clean_yaml(tmp_path: Path, terms: PodTerms) -> None:
    assert linted(rendered(tmp_path, terms)) == (0, "")


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        pytest.param("hostPID: true", "hostPid: true", "hostPid", id="a-field-that-is-none"),
        pytest.param("hostPID: true", "hostPID: sure", "sure", id="a-value-of-another-type"),
    ],
)
def test_the_schemas_see_what_is_wrong(tmp_path: Path, right: str, wrong: str, said: str) -> None:
    write_manifests(reading_manifests(USUAL), tmp_path)
    probe = tmp_path / "40-probe.yaml"
    text = probe.read_text()
    probe.write_text(text.replace(right, wrong))
    assert probe.read_text() != text
    status, told = validated(tmp_path, VERSIONS[-1])
    assert status != 0
    assert said in told


def test_yamllint_sees_what_is_unclean(tmp_path: Path) -> None:
    (tmp_path / "unclean.yaml").write_text("a:   1\n")
    status, _ = linted(tmp_path)
    assert status != 0
