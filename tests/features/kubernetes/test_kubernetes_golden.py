"""What is rendered, as it stands in files: a change of a template is a change that a reader sees.

GDR_ACCEPT=1 pytest tests/features/kubernetes/test_kubernetes_golden.py; git diff tests/kube
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolkit.features.kubernetes import plan
from toolkit.features.kubernetes.plan import (
    KubeManifest,
    NodeBundle,
    applying,
    parse_terms,
    reading,
)

GOLDEN = Path(__file__).parents[2] / "kube" / "golden"
IMAGE = "registry.example/busybox@sha256:" + "0123456789abcdef" * 4
SCRIPTS = {"pod.sh": "#!/bin/sh\necho pod\n", "probe.sh": "#!/bin/sh\necho probe\n"}
USUAL = parse_terms(IMAGE, "gdr-toolkit", "nvidia.com/gpu.present=true", "nvidia.com/gpu")
TOLD = parse_terms(IMAGE, "ops", "rack,zone=a", "team=ml:NoExecute,spot", confined=True)


@pytest.fixture
def unversioned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new version of ours is no change of a template."""
    monkeypatch.setattr(plan, "__version__", "0.0.0")


@pytest.mark.usefixtures("unversioned")
@pytest.mark.parametrize("name", ["usual", "told"])
def test_manifests_are_those_that_were_reviewed(name: str) -> None:
    terms = USUAL if name == "usual" else TOLD
    jobs = (NodeBundle("gpu007", "echo one\n"), NodeBundle("gpu008.example", "echo two\n", 2))
    made = (*reading(terms, SCRIPTS), *applying(terms, SCRIPTS, jobs))
    folder = GOLDEN / name
    if os.environ.get("GDR_ACCEPT"):
        _accept(folder, made)
    kept = {each.name: each.read_text() for each in folder.iterdir()}
    assert {each.name: each.text for each in made} == kept


def _accept(folder: Path, made: tuple[KubeManifest, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for each in made:
        (folder / each.name).write_text(each.text)
