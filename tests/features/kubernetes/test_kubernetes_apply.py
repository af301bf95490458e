"""Bundles as suspended Jobs: for whom there is one, what it may do, and for whom there is none."""

from __future__ import annotations

import json
import re
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.evidence.build import node
from tests.evidence.frames import MISSING
from toolkit.cli import Gdr, main, verbs
from toolkit.errors import ExitCode, Outcome, Unparsable, Unsupported, Unwritten, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.kube import Bringer, Cluster, parse_cluster
from toolkit.features.kubernetes import cli
from toolkit.features.kubernetes.plan import KubeManifest, NodeBundle, parse_terms, stream
from toolkit.features.kubernetes.run import (
    applying_manifests,
    carrying,
    cluster_of,
    plan_for_pods,
    reading_manifests,
)
from toolkit.verbs.plan import Planned
from toolkit.want import Want

IMAGE = "registry.example/busybox@sha256:" + "0123456789abcdef" * 4
TERMS = parse_terms(IMAGE, "gdr-toolkit", "", "nvidia.com/gpu")
CAPTURES = Path(__file__).parents[2] / "evidence"
STUB = Evidence.parse((CAPTURES / "stub.txt").read_text())
DRIVER_POD = (
    "run/nvidia/validations/.driver-ctr-ready:GPU_DIRECT_RDMA_ENABLED: true\n"
    "driver-root:/run/nvidia/driver\n"
)


def planned(cluster: Cluster | None = None, **nodes: Evidence) -> list[Outcome[Planned]]:
    return plan_for_pods(nodes.items(), Want.load("peermem"), date(2026, 11, 22), cluster)


def objects(manifests: tuple[KubeManifest, ...], kind: str) -> list[dict[str, Any]]:
    """Those of one kind. Any: Kubernetes' objects have no common type."""
    return [each for each in yaml.safe_load_all(stream(manifests)) if each["kind"] == kind]


MADE = applying_manifests(TERMS, carrying(planned(gpu007=STUB, gpu008=STUB, gpu009=STUB), "1,2"))


# --- who has a Job -------------------------------------------------------------------------


def test_a_node_that_is_as_wanted_has_none() -> None:
    carried = carrying(planned(gpu007=STUB, gpu008=node()), "")
    assert [each.node for each in carried] == ["gpu007"]
    assert applying_manifests(TERMS, ()) == ()


def test_jobs_are_numbered_by_batches() -> None:
    told = [
        (job["metadata"]["labels"]["gdr-toolkit/batch"], job["metadata"]["annotations"])
        for job in objects(MADE, "Job")
    ]
    assert [(batch, about["gdr-toolkit/node"]) for batch, about in told] == [
        ("1", "gpu007"), ("2", "gpu008"), ("2", "gpu009"),
    ]  # fmt: skip


def test_names_of_jobs_fit_into_labels_whatever_the_node_is_called() -> None:
    long = ".".join(["a" * 63] * 3)
    cut = "a" * 35 + ".b"
    names = {NodeBundle(name, "x\n").name for name in (long, long + "b", "gpu.7", "gpu-7", cut)}
    assert len(names) == 5
    assert not [name for name in names if "--" in name]
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9-]{0,56}[a-z0-9]", name) for name in names)


# --- what a Job does -------------------------------------------------------------------------


def test_nothing_happens_until_somebody_lets_a_job_go() -> None:
    for job in objects(MADE, "Job"):
        assert job["spec"]["suspend"] is True
        assert job["spec"]["backoffLimit"] == 0
        assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_a_job_goes_to_its_own_node_though_that_is_cordoned() -> None:
    pod = objects(MADE, "Job")[0]["spec"]["template"]["spec"]
    affinity = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert affinity["nodeSelectorTerms"] == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu007"]}]}
    ]
    assert {"key": "node.kubernetes.io/unschedulable", "operator": "Exists",
            "effect": "NoSchedule"} in pod["tolerations"]  # fmt: skip


def test_a_pod_finds_the_bundle_whole_beside_its_scripts() -> None:
    job = objects(MADE, "Job")[0]
    pod = job["spec"]["template"]["spec"]
    maps = {each["metadata"]["name"]: each["data"] for each in objects(MADE, "ConfigMap")}
    maps |= {
        e["metadata"]["name"]: e["data"] for e in objects(reading_manifests(TERMS), "ConfigMap")
    }
    (volume,) = pod["volumes"]
    files: dict[str, str] = {}
    for source in volume["projected"]["sources"]:
        files |= maps[source["configMap"]["name"]]
    bundle = "".join(files[name] for name in sorted(files) if name.startswith("bundle."))
    total = sha256(bundle.encode()).hexdigest()
    assert pod["containers"][0]["command"] == ["sh", "/gdr/pod.sh", "apply", total]
    assert job["metadata"]["annotations"]["gdr-toolkit/bundle"] == total
    assert bundle.endswith("gdr_apply apply 60 end\n")


def test_who_lets_jobs_go_can_make_none_and_reads_no_secret() -> None:
    rules = [rule for kind in ("ClusterRole", "Role") for each in objects(MADE, kind)
             for rule in each["rules"]]  # fmt: skip
    told = {res: set(rule["verbs"]) for rule in rules for res in rule["resources"]}
    assert told == {
        "nodes": {"get", "patch"},
        "pods": {"get", "list"},
        "pods/eviction": {"create"},
        "daemonsets": {"get"},
        "jobs": {"get", "list", "watch", "patch"},
        "pods/log": {"get"},
    }
    assert not [rule for rule in rules if "*" in str(rule)]
    (nodes,) = [rule for rule in rules if rule["resources"] == ["nodes"]]
    assert nodes["resourceNames"] == ["gpu007", "gpu008", "gpu009"]


def test_a_host_that_no_cluster_can_have_as_node_is_refused() -> None:
    saved = [("root@gpu007", STUB)]
    (outcome,) = plan_for_pods(saved, Want.load("peermem"), date(2026, 11, 22), None)
    assert isinstance(outcome.error, UsageError)
    assert "Kubernetes has no node of that name" in str(outcome.error)


# --- whose drivers are an operator's -----------------------------------------------------------


def daemonset(name: str, labels: dict[str, str], selector: dict[str, str]) -> dict[str, Any]:
    return {
        "kind": "DaemonSet",
        "metadata": {"namespace": "gpu-operator", "name": name, "labels": {}},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": {"nodeSelector": selector}}},
    }


def listed(*items: dict[str, Any], **labels: dict[str, str]) -> str:
    nodes = [
        {"kind": "Node", "metadata": {"name": name, "labels": each}}
        for name, each in labels.items()
    ]
    return json.dumps({"kind": "List", "items": [*nodes, *items]})


DEPLOY = "nvidia.com/gpu.deploy.driver"
OWNED = daemonset("nvidia-driver-daemonset", {"app": "nvidia-driver-daemonset"}, {DEPLOY: "true"})
BY_CR = daemonset("gpu-driver-ab", {"app.kubernetes.io/component": "nvidia-driver"}, {})
MOFED = daemonset("mofed-ubuntu22.04-ds", {"nvidia.com/ofed-driver": ""}, {"mlx": "true"})
PLUGIN = daemonset("nvidia-device-plugin-daemonset", {"app": "nvidia-device-plugin"}, {})


@pytest.mark.parametrize(
    ("items", "labels", "driver", "ofed"),
    [
        pytest.param([OWNED], {DEPLOY: "true"}, "nvidia-driver-daemonset", "", id="gpu-operator"),
        pytest.param([OWNED], {DEPLOY: "pre-installed"}, "", "", id="its-own-driver"),
        pytest.param([OWNED], {}, "", "", id="no-gpu"),
        pytest.param([BY_CR], {}, "gpu-driver-ab", "", id="of-an-nvidiadriver"),
        pytest.param([MOFED], {"mlx": "true"}, "", "mofed-ubuntu22.04-ds", id="network-operator"),
        pytest.param([PLUGIN], {DEPLOY: "true"}, "", "", id="a-device-plugin-owns-nothing"),
    ],
)
def test_the_cluster_tells_who_brings_drivers(
    items: list[dict[str, Any]], labels: dict[str, str], driver: str, ofed: str
) -> None:
    cluster = parse_cluster(listed(*items, gpu007=labels))
    assert cluster.driver_of("gpu007") == (f"gpu-operator/{driver}" if driver else "")
    assert cluster.ofed_of("gpu007") == (f"gpu-operator/{ofed}" if ofed else "")


@pytest.mark.parametrize("text", ["", "[]", '{"items": 3}', '{"items": []}', '{"items": [{}]}'])
def test_what_is_no_list_of_a_cluster_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match="kubectl get nodes"):
        parse_cluster(text)


GPU_OPERATORS = Cluster({"gpu007": {}}, drivers=(Bringer("gpu-operator/drivers", {}),))
NETWORK_OPERATORS = Cluster({"gpu007": {}}, ofeds=(Bringer("network-operator/mofed", {}),))


@pytest.mark.parametrize(
    ("evidence", "cluster", "said"),
    [
        pytest.param(STUB, GPU_OPERATORS, r"GPU Operator owns the driver \(gpu-operator/drivers\)",
                     id="the-cluster-says-driver"),
        pytest.param(STUB, NETWORK_OPERATORS, r"Network Operator owns OFED \(network-operator/mof",
                     id="the-cluster-says-ofed"),
        pytest.param(node({"containers": DRIVER_POD}), None, "GPU Operator owns the driver: its",
                     id="the-node-says-driver"),
        pytest.param(node({"containers": "ofed:ready\n"}), None, "Network Operator owns OFED: its",
                     id="the-node-says-ofed"),
    ],
)  # fmt: skip
def test_where_an_operator_owns_a_driver_no_bundle_is_made(
    evidence: Evidence, cluster: Cluster | None, said: str
) -> None:
    outcomes = planned(cluster, gpu007=evidence)
    assert isinstance(outcomes[0].error, Unsupported)
    assert re.search(f"gpu007: the {said}", str(outcomes[0].error))
    assert outcomes[0].error.exit_code is ExitCode.UNSUPPORTED
    assert carrying(outcomes, "") == ()


def test_where_nobody_can_tell_who_owns_the_driver_no_bundle_is_made() -> None:
    (outcome,) = planned(gpu007=node({"containers": MISSING}))
    assert outcome.error is not None
    assert outcome.error.exit_code is ExitCode.UNKNOWN


def test_a_node_that_the_named_cluster_does_not_have_is_not_taken_for_nobodys() -> None:
    (outcome,) = planned(Cluster({"other": {}}), gpu007=STUB)
    assert "gpu007: that cluster has no such node" in str(outcome.error)
    assert outcome.error is not None
    assert outcome.error.exit_code is ExitCode.UNKNOWN


def test_a_cluster_that_is_silent_leaves_it_to_the_node() -> None:
    assert cluster_of("", None) is None
    (outcome,) = planned(Cluster({"gpu007": {}}), gpu007=STUB)
    assert outcome.get().bundle is not None


# --- the verb --------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A log of two pods, and beside it what the cluster says: gpu008's driver is an operator's."""
    log = "".join(
        f"gdr-toolkit: node {name}: probe\n{STUB.dump()}" for name in ("gpu007", "gpu008")
    )
    (tmp_path / "pods.log").write_text(log)
    cluster = listed(OWNED, gpu007={DEPLOY: "pre-installed"}, gpu008={DEPLOY: "true"})
    (tmp_path / "cluster.json").write_text(cluster)
    return tmp_path


def run(saved: Path, *words: str) -> None:
    log, cluster = str(saved / "pods.log"), str(saved / "cluster.json")
    path = ("--profile", "peermem")  # whose plan mends the stub
    argv = ["gdr", "kubernetes", "--from", log, "--cluster", cluster, *path, *words]
    Gdr(namespace=verbs()).run(argv, exit=False)


def test_apply_writes_bundles_and_says_whose_there_is_none(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(saved, "--apply", "--image", IMAGE, "--out", str(saved / "made"))
    told = " ".join(capsys.readouterr().out.split())
    assert "the GPU Operator owns the driver (gpu-operator/nvidia-driver-daemonset)" in told
    made = sorted(each.name.partition("-gdr")[0] for each in (saved / "made").iterdir())
    assert made == ["50-roller.yaml", "60-0001"]


def test_manifests_that_found_no_room_are_told_in_the_code(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise Unwritten("made", OSError(28, "No space left on device"))

    monkeypatch.setattr(cli, "write_manifests", full)
    log = str(saved / "pods.log")
    words = ["--from", log, "--apply", "--image", IMAGE, "--out", str(saved / "made"), "--json"]
    monkeypatch.setattr("sys.argv", ["gdr", "kubernetes", *words, "--profile", "peermem"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == ExitCode.UNKNOWN
    told = capsys.readouterr()
    assert "--out was not written: made: cannot be written: No space left" in told.err
    document = json.loads(told.out)
    assert document["manifests"] == []
    assert [each["node"] for each in document["jobs"]] == ["gpu007", "gpu008"]


def test_check_plans_and_renders_nothing(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(saved, "--check")
    told = " ".join(capsys.readouterr().out.split())
    assert "place /etc/dkms/nvidia.conf" in told
    assert "the GPU Operator owns the driver" in told
    assert "kind:" not in told


def test_standard_output_holds_manifests_alone(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(saved, "--apply", "--image", IMAGE)
    told = capsys.readouterr()
    kinds = {each["kind"] for each in yaml.safe_load_all(told.out)}
    assert {"Job", "ConfigMap", "ClusterRole"} <= kinds
    assert "the GPU Operator owns the driver" in " ".join(told.err.split())


def test_bundles_are_not_planned_from_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Gdr(namespace=verbs()).run(["gdr", "kubernetes", "--apply", "--image", IMAGE], exit=False)
    assert "no evidence to plan from" in capsys.readouterr().err
