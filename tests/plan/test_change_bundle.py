"""The bytes that travel: the same every time, whole, and readable before they run."""

from __future__ import annotations

import io
import json
import os
import shlex
import tarfile
from pathlib import Path

import pytest

from tests.evidence.build import DRIVER, KERNEL, node
from tests.evidence.frames import Override
from tests.plan.bridging import BARE, NEW, REDIRECTED, rhel, runs
from tests.unit.planning import (
    LITTLE_MEMLOCK,
    NO_AUTOLOAD,
    NO_PT,
    STUBBED,
    TRANSLATED,
    frames,
    placed,
    plan_for,
    rocky,
)
from toolkit.facts.node.node import Node
from toolkit.node.deliver import engine
from toolkit.plan.bundle import Bundle, render, script, tar_bytes
from toolkit.plan.plan import diff
from toolkit.want import PeerPath, Want

GOLDEN = Path(__file__).parents[1] / "golden"
OLD = "/etc/modules-load.d/gdr-toolkit.conf"

# To accept what a change of ours makes of these, and then to read the difference:
#     GDR_ACCEPT=1 pytest tests/plan/test_change_bundle.py && git diff tests/golden
CASES: dict[str, tuple[dict[str, Override], Want]] = {
    "debian-stub": (
        frames(STUBBED, NO_AUTOLOAD, TRANSLATED, LITTLE_MEMLOCK, placed({OLD: "nvidia\n"})),
        Want(),
    ),
    "debian-own-package": (
        STUBBED
        | {
            "dkms-confs": f'nvidia-{DRIVER}/dkms.conf:PACKAGE_VERSION="{DRIVER}"\n'
            f'nvidia-{DRIVER}/dkms.conf:BUILT_MODULE_NAME[0]="nvidia"\n'
        },
        Want(),
    ),
    "debian-to-dmabuf": (placed({OLD: "nvidia-peermem\n"}), Want(path=PeerPath.DMABUF)),
    "rhel": (frames(NO_AUTOLOAD, TRANSLATED, rocky(NO_PT)), Want()),
    "debian-acs": ({**runs(NEW), **REDIRECTED.frames()}, BARE),
    "rhel-acs-argument": (rhel("5.14.0-427.13.1.el9_4.x86_64"), BARE),
    "rhel-acs": (rhel("5.14.0-503.11.1.el9_5.x86_64"), BARE),
    "suse": (
        frames(STUBBED, NO_AUTOLOAD) | {"os-release": 'ID="sles"\nVERSION_ID="15.6"\n'}, Want(),
    ),
}  # fmt: skip


def bundle_for(case: str) -> Bundle:
    changed, want = CASES[case]
    return render(plan_for(changed, want), Node(node(changed)), engine())


def files_of(case: str) -> dict[str, bytes]:
    """The bundle as it is kept: without the engine, which has tests of its own."""
    files = bundle_for(case).files()
    del files["apply.sh"]
    changed, want = CASES[case]
    return files | {"diff": diff(plan_for(changed, want)).encode()}


@pytest.mark.parametrize("case", sorted(CASES))
def test_bundles_are_what_was_accepted(case: str) -> None:
    folder, made = GOLDEN / case, files_of(case)
    if os.environ.get("GDR_ACCEPT"):
        for path, data in made.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
    kept = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert made == kept


def test_no_accepted_bundle_is_without_its_case() -> None:
    assert {path.name for path in GOLDEN.iterdir() if path.is_dir()} == set(CASES)


@pytest.mark.parametrize("case", sorted(CASES))
def test_steps_are_quoted_calls_and_counted(case: str) -> None:
    steps = bundle_for(case).steps
    verbs = [shlex.split(step)[0] for step in steps]
    assert set(verbs) <= {"expect", "keep", "place", "remove", "undo", "trigger", "prove"} | {
        "finish",
        "temps",
    }
    assert steps[-1] == f"finish {len(steps) - 1} 5"
    # All is expected before anything is touched, and all files are there before triggers.
    assert "expect" not in verbs[verbs.count("expect") :]
    if "place" in verbs:
        assert not {"undo", "trigger"} & set(verbs[: verbs.index("place")])
    assert "REBOOT" not in "".join(steps)


def test_a_plan_is_bound_to_kernel_and_boot() -> None:
    steps = bundle_for("rhel").steps
    assert steps[0] == f"expect kernel {KERNEL}"
    assert steps[1].startswith("expect boot-id 0b5c7f0e-")


def test_a_file_is_replaced_only_as_it_was_seen() -> None:
    assert f"expect file {OLD} {placed({OLD: 'nvidia' + chr(10)})['placed']!s}".split(" 644")[
        0
    ] in ("\n".join(bundle_for("debian-stub").steps))


def test_the_tar_is_the_same_bytes_every_time() -> None:
    first, second = tar_bytes(bundle_for("debian-stub")), tar_bytes(bundle_for("debian-stub"))
    assert first == second
    with tarfile.open(fileobj=io.BytesIO(first)) as tar:
        entries = tar.getmembers()
        assert [each.name for each in entries] == sorted(each.name for each in entries)
        assert {(each.mtime, each.uid, each.gid) for each in entries} == {(0, 0, 0)}
        apply = tar.extractfile("apply.sh")
        assert apply is not None
        assert apply.read().decode() == engine()


def test_the_manifest_is_versioned_json() -> None:
    document = json.loads(bundle_for("debian-stub").manifest)
    assert document["format"] == 1
    assert document["reboot"] is True
    assert document["kernel"] == KERNEL
    assert {each["action"] for each in document["changes"]} == {"place"}


def test_a_script_ends_with_its_only_call() -> None:
    text = script(bundle_for("rhel"), wait_s=7)
    assert text.endswith("\ngdr_apply apply 7 end\n")
    assert text.count("\ngdr_apply ") == 1


def test_a_diff_shows_what_changes() -> None:
    text = diff(plan_for(*CASES["debian-stub"]))
    assert f"--- a{OLD}\n+++ b{OLD}\n" in text
    assert "-nvidia\n" in text
    assert "+nvidia-peermem\n" in text
    assert "--- /dev/null\n+++ b/etc/dkms/nvidia.conf\n" in text


def test_a_diff_of_a_removal_ends_in_nothing() -> None:
    text = diff(plan_for(*CASES["debian-to-dmabuf"]))
    assert text == f"--- a{OLD}\n+++ /dev/null\n@@ -1 +0,0 @@\n-nvidia-peermem\n"


def test_a_diff_says_where_the_old_text_is_not_known() -> None:
    changed = frames(NO_AUTOLOAD, placed({OLD: "nvidia\n"})) | {"ours": ""}
    assert "(its present text is not part of the evidence)" in diff(plan_for(changed))


def test_nothing_to_change_is_no_diff() -> None:
    assert diff(plan_for({})) == ""
