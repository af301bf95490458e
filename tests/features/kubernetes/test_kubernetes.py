"""What the verb kubernetes renders, and what it refuses to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolkit.cli import Gdr, verbs
from toolkit.errors import UsageError
from toolkit.features.kubernetes import plan
from toolkit.features.kubernetes.io import pod_files
from toolkit.features.kubernetes.plan import (
    CAPABILITIES,
    LIMIT,
    KubeManifest,
    PodTerms,
    Selected,
    Toleration,
    config_map,
    in_parts,
    node_name,
    parse_terms,
    reading,
    rendered_map,
    stream,
)
from toolkit.features.kubernetes.run import reading_manifests, write_manifests

IMAGE = "registry.example/busybox@sha256:" + "0123456789abcdef" * 4
TERMS = parse_terms(IMAGE, "gdr-toolkit", "nvidia.com/gpu.present=true", "nvidia.com/gpu")


def documents(manifests: tuple[KubeManifest, ...]) -> list[dict[str, Any]]:
    """What a reader of YAML makes of them. Any: Kubernetes' objects have no common type."""
    return list(yaml.safe_load_all(stream(manifests)))


def of_kind(manifests: tuple[KubeManifest, ...], kind: str) -> dict[str, Any]:
    (found,) = [each for each in documents(manifests) if each["kind"] == kind]
    return found


# --- what was said ---------------------------------------------------------------------


def test_labels_and_taints_are_data() -> None:
    terms = parse_terms(IMAGE, "ops", "nvidia.com/gpu.present=true, rack", "team=ml:NoExecute,spot")
    assert terms.selected == (Selected("nvidia.com/gpu.present", "true"), Selected("rack"))
    assert terms.tolerations == (Toleration("team", "ml", "NoExecute"), Toleration("spot"))


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule", "NoExecute"])
def test_a_taint_has_one_of_the_effects_of_kubernetes(effect: str) -> None:
    terms = parse_terms(IMAGE, "ops", "", f"team:{effect}")
    assert terms.tolerations == (Toleration("team", "", effect),)


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        pytest.param({"image": ""}, "no image is named", id="no-image"),
        pytest.param({"image": "busybox"}, "'busybox' has no digest", id="no-tag"),
        pytest.param({"image": "busybox:1.37"}, "has no digest", id="a-tag-can-move"),
        pytest.param({"image": IMAGE[:-1]}, "has no digest", id="half-a-digest"),
        pytest.param({"image": IMAGE + "\nx: y"}, "has no digest", id="a-line-more"),
        pytest.param({"namespace": "Kube"}, "'Kube' is no name", id="namespace"),
        pytest.param({"select": "a b=c"}, "'a b=c' is no label", id="label"),
        pytest.param({"select": "rack==1"}, "'rack==1' is no label", id="label-value"),
        pytest.param({"tolerate": "gpu:Never"}, "'gpu:Never' is no taint", id="effect"),
        pytest.param({"tolerate": "a b:NoExecute"}, "'a b:NoExecute' is no taint", id="taint"),
        pytest.param({"tolerate": "gpu=b=c"}, "'gpu=b=c' is no taint", id="taint-value"),
    ],
)
def test_what_kubernetes_would_not_take_is_refused(said: dict[str, str], refused: str) -> None:
    usual = {"image": IMAGE, "namespace": "gdr", "select": "", "tolerate": "", **said}
    with pytest.raises(UsageError, match=refused):
        parse_terms(*usual.values())


@pytest.mark.parametrize("name", ["gpu007", "ip-10-0-0-1.eu-west-1.compute.internal"])
def test_a_node_has_a_name_of_dns(name: str) -> None:
    assert node_name(name) == name


@pytest.mark.parametrize("name", ["root@gpu007", "gpu007:22", "GPU007", "", "a..b", "x" * 254])
def test_what_is_no_name_of_a_node_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="has no node of that name"):
        node_name(name)


# --- scripts in ConfigMaps ---------------------------------------------------------------


def test_yaml_gives_the_scripts_back_byte_for_byte() -> None:
    files = pod_files() | {"odd": "\n\n  begins with blanks\n\n\tand a tab: {x}\n\n\n"}
    read = yaml.safe_load(rendered_map(TERMS, config_map("gdr-probe", files)))
    assert read["data"] == files
    assert read["immutable"] is True


def test_another_content_has_another_name() -> None:
    one, other = (config_map("gdr-probe", {"a": text}).name for text in ("x\n", "y\n"))
    assert one != other
    assert config_map("gdr-probe", {"a": "x\n"}).name == one


def test_a_config_map_is_never_larger_than_kubernetes_takes() -> None:
    config_map("x", {"a": "y\n" * (LIMIT // 2)})
    with pytest.raises(UsageError, match=r"x: 1048578 bytes, and a ConfigMap holds 1048576"):
        config_map("x", {"a": "y\n" * (LIMIT // 2), "b": "\n\n"})


def test_a_large_script_is_cut_at_ends_of_lines_and_joined_again() -> None:
    text = "".join(f"{number:>70}\n" for number in range(40_000))
    parts = in_parts("bundle", text)
    files = {name: part for each in parts for name, part in each.files.items()}
    assert list(files) == ["bundle.000", "bundle.001", "bundle.002", "bundle.003"]
    assert "".join(files[name] for name in sorted(files)) == text
    assert [len(part) for part in files.values()] == [921580, 921580, 921580, 75260]
    assert all(len(part) <= plan.PART and part.endswith("\n") for part in files.values())


def test_what_is_too_large_for_a_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "PARTS", 2)
    with pytest.raises(UsageError, match="a bundle of 2 MiB is no load for a cluster's API server"):
        in_parts("bundle", ("x" * 99 + "\n") * 30_000)
    assert len(in_parts("bundle", ("x" * 99 + "\n") * 18_000)) == 2


def test_bytes_that_yaml_would_change_are_refused() -> None:
    with pytest.raises(UsageError, match="x, a: holds bytes that YAML cannot carry"):
        config_map("x", {"a": "carriage\r\n"})


# --- the probe -----------------------------------------------------------------------------


def test_no_pod_of_ours_asks_the_api_server_anything() -> None:
    made = documents(reading_manifests(TERMS))
    assert not [each for each in made if each["kind"].endswith(("Role", "RoleBinding"))]
    pod = of_kind(reading_manifests(TERMS), "DaemonSet")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    account = of_kind(reading_manifests(TERMS), "ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    assert account["metadata"]["name"] == pod["serviceAccountName"]


def test_the_probe_mounts_nothing_of_the_node_and_writes_nothing_of_its_own() -> None:
    pod = of_kind(reading_manifests(TERMS), "DaemonSet")["spec"]["template"]["spec"]
    assert pod["hostPID"] is True
    assert not {"hostNetwork", "hostIPC"} & set(pod)
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["image"] == IMAGE


def test_a_confined_probe_has_capabilities_and_no_privilege() -> None:
    terms = PodTerms(IMAGE, confined=True)
    pod = of_kind(reading_manifests(terms), "DaemonSet")["spec"]["template"]["spec"]
    allowed = pod["containers"][0]["securityContext"]
    assert allowed["capabilities"] == {"drop": ["ALL"], "add": list(CAPABILITIES)}
    assert "privileged" not in allowed


def test_pods_go_where_labels_and_taints_allow() -> None:
    terms = parse_terms(IMAGE, "ops", "nvidia.com/gpu.present=true,rack", "team=ml:NoExecute,spot")
    made = of_kind(reading_manifests(terms), "DaemonSet")
    assert made["metadata"]["namespace"] == "ops"
    pod = made["spec"]["template"]["spec"]
    affinity = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert affinity["nodeSelectorTerms"][0]["matchExpressions"] == [
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]},
        {"key": "rack", "operator": "Exists"},
    ]
    assert pod["tolerations"] == [
        {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoExecute"},
        {"key": "spot", "operator": "Exists"},
    ]


def test_the_namespace_says_that_its_pods_are_privileged() -> None:
    labels = of_kind(reading_manifests(TERMS), "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"


def test_the_pods_scripts_are_those_that_it_names() -> None:
    made = reading(TERMS, {"pod.sh": "a\n", "probe.sh": "b\n"})
    pod = of_kind(made, "DaemonSet")["spec"]["template"]["spec"]
    scripts = next(each for each in pod["volumes"] if each["name"] == "scripts")
    assert scripts["configMap"]["name"] == of_kind(made, "ConfigMap")["metadata"]["name"]


# --- the verb ------------------------------------------------------------------------------


def kubernetes(*words: str) -> None:
    """The verb as a user calls it."""
    Gdr(namespace=verbs()).run(["gdr", "kubernetes", *words], exit=False)


def test_manifests_go_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    kubernetes("--image", IMAGE)
    kinds = [each["kind"] for each in yaml.safe_load_all(capsys.readouterr().out)]
    assert kinds == ["Namespace", "ServiceAccount", "ConfigMap", "DaemonSet"]


def test_a_folder_with_others_manifests_is_left_alone(tmp_path: Path) -> None:
    for name in ("mine.yml", "more.yaml", "also.yaml"):
        (tmp_path / name).write_text("kind: Pod\n")
    with pytest.raises(UsageError, match=r"holds also\.yaml already"):
        write_manifests(reading_manifests(TERMS), tmp_path)
    assert len([*tmp_path.iterdir()]) == 3


def test_manifests_go_into_a_folder_in_the_order_in_which_they_are_applied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubernetes("--image", IMAGE, "--out", f"{tmp_path / 'made'}")
    names = [Path(line).name for line in capsys.readouterr().out.split()]
    assert names == sorted(each.name for each in (tmp_path / "made").iterdir())
    assert names[0] == "10-namespace.yaml"


def test_a_document_holds_the_manifests_and_nothing_stands_beside_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kubernetes("--image", IMAGE, "--json")
    told = json.loads(capsys.readouterr().out)["manifests"]
    assert [each["path"] for each in told] == [None] * 4
    assert yaml.safe_load(told[0]["text"])["kind"] == "Namespace"


@pytest.mark.parametrize("option", ["from", "serial", "cluster", "kubeconfig", "context"])
def test_what_is_about_bundles_is_nothing_to_the_probe(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kubernetes("--image", IMAGE, f"--{option}", "1")
    told = capsys.readouterr()
    assert told.out == ""
    assert f"--{option} is about bundles, and the probe needs none" in told.err


def test_without_an_image_nothing_is_rendered(capsys: pytest.CaptureFixture[str]) -> None:
    kubernetes()
    told = capsys.readouterr()
    assert told.out == ""
    assert "no image is named for the pods" in told.err
