"""What probe.sh reads on each ready-made node."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from toolkit.demo.create import environment, make_nodes
from toolkit.demo.nodes import EVERY
from toolkit.evidence import Evidence, State
from toolkit.node.collect import probe_script

ANSWERING = [name for name in EVERY if name != "demo-hang"]  # that one takes its time


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Evidence]:
    state = tmp_path_factory.mktemp("demo")
    make_nodes(state, tuple(ANSWERING))
    return {name: probe(state / "nodes" / name) for name in ANSWERING}


@pytest.mark.parametrize(
    "name", ["demo-healthy", pytest.param("demo-rocky", marks=pytest.mark.exhaustive)]
)
def test_a_node_is_the_same_where_its_folder_has_blanks(tmp_path: Path, name: str) -> None:
    """As below a home, or an image, that is called so."""
    made = []
    for folder in ("plain", "with two blanks"):
        make_nodes(tmp_path / folder, (name,))
        frames = probe(tmp_path / folder / "nodes" / name).frames
        told = {key: (each.state, each.text) for key, each in frames.items() if key != "boot-id"}
        made.append(told)
    assert made[0] == made[1]


def probe(node: Path) -> Evidence:
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=probe_script().encode(),
        env=environment(node),
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    return Evidence.parse(done.stdout.decode())


@pytest.mark.parametrize("name", ANSWERING)
def test_every_node_gives_complete_evidence(evidence: dict[str, Evidence], name: str) -> None:
    assert evidence[name].complete
    assert evidence[name].text("hostname") == f"{name}\n"


@pytest.mark.parametrize(
    ("name", "key", "state"),
    [
        ("demo-healthy", "boot-default", State.ABSENT),
        ("demo-healthy", "reboot-required", State.ABSENT),
        ("demo-rocky", "boot-default", State.OK),
        ("demo-stub", "nvidia-smi", State.OK),
        ("demo-kernel", "nvidia-smi", State.ABSENT),  # it would load the driver
        ("demo-kernel", "nvidia-version", State.ABSENT),
        ("demo-kernel", "peermem-resolve", State.FAILED),
        ("demo-nogpu", "nvidia-smi", State.ABSENT),
        ("demo-noroot", "dmesg", State.FAILED),
        ("demo-arch", "dkms-status", State.ABSENT),
        ("demo-arch", "ofed-info", State.ABSENT),
    ],
)
def test_a_source_is_in_the_state_that_the_kind_of_node_implies(
    evidence: dict[str, Evidence], name: str, key: str, state: State
) -> None:
    assert evidence[name].frame(key).state is state


@pytest.mark.parametrize(
    ("name", "key", "words"),
    [
        ("demo-healthy", "module-state", "ib_uverbs/holder:nvidia_peermem\n"),
        ("demo-healthy", "module-state", "nvidia/holder:nvidia_peermem\n"),
        ("demo-healthy", "kallsyms", "ib_register_peer_memory_client\t[ib_uverbs]\n"),
        ("demo-healthy", "iommu-groups", "0/type:identity\n"),
        ("demo-healthy", "limits-now", "Max locked memory         unlimited"),
        ("demo-healthy", "peermem-modinfo", "depends:        nvidia,ib_uverbs\n"),
        (
            "demo-healthy",
            "nvidia-smi",
            "00000000:18:00.0, NVIDIA H100 80GB HBM3, 570.124.06, 81559 MiB",
        ),
        ("demo-healthy", "nvidia-smi-q", "GPU 00000000:18:00.0\n    Product Name "),
        ("demo-healthy", "daemons", "1811/comm:nv-fabricmanage\n"),
        ("demo-iommu", "iommu-groups", "0/type:DMA-FQ\n"),
        ("demo-stub", "peermem-modinfo", "depends:        \n"),
        ("demo-kernel", "dkms-status", "nvidia/570.124.06, 6.8.0-60-generic, x86_64: installed\n"),
        ("demo-kernel", "kernel-release", "6.8.0-64-generic\n"),
        ("demo-rocky", "ofed-info", "OFED-internal-25.10-1.7.1:\n"),
        ("demo-rocky", "boot-entries", "version 5.14.0-503.40.1.el9_5.x86_64\n"),
        ("demo-noroot", "uid", "1000\n"),
        ("demo-noroot", "kallsyms", "0000000000000000 T "),
    ],
)
def test_evidence_says_what_is_so(
    evidence: dict[str, Evidence], name: str, key: str, words: str
) -> None:
    assert words in evidence[name].text(key)


def test_the_stub_and_the_unloaded_are_not_in_the_kernel(evidence: dict[str, Evidence]) -> None:
    for name in ("demo-stub", "demo-kernel", "demo-rocky", "demo-arch"):
        assert "nvidia_peermem" not in evidence[name].text("modules")


def test_an_ordinary_user_sees_64_bytes_of_config_space(evidence: dict[str, Evidence]) -> None:
    assert "\n001000\n" in evidence["demo-healthy"].text("pci-config")
    assert "\n000040\n@" in evidence["demo-noroot"].text("pci-config")
    assert "\n001000\n" not in evidence["demo-noroot"].text("pci-config")


def test_a_node_without_gpus_has_none_on_the_bus(evidence: dict[str, Evidence]) -> None:
    assert "vendor:0x10de" not in evidence["demo-nogpu"].text("pci")
