"""A kernel that demands signatures: what it takes, what it refuses, and what we say of it.

The guest runs once for this file and test_mok.py; see secure_guest.py.
"""

from __future__ import annotations

import pytest

from tests.builds.secure_guest import NAME, Story
from tests.evidence.build import node as healthy
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Finding, Status
from toolkit.facts.boot.kernel import module_name
from toolkit.facts.firmware.secureboot import SecureBoot
from toolkit.facts.node.node import Node
from toolkit.want import Want

pytestmark = [pytest.mark.builds, pytest.mark.uefi]
REJECTED = (
    "modprobe: ERROR: could not insert 'nvidia_peermem': Key was rejected by service\nstatus 1"
)


def found(story: Story, name: str, check: str) -> Finding:
    # It has no GPU, without which nothing is judged; the bus is a healthy node's.
    evidence = story.evidence(name).plus([healthy().frame("pci")])
    return BY_ID[check](Node(evidence), Want()).finding


def loaded(story: Story, name: str) -> dict[str, str]:
    """Users by module, as /proc/modules has them."""
    rows = [line.split() for line in story.parts[f"modules {name}"].split("\n") if line.strip()]
    return {module_name(row[0]): row[3] for row in rows if len(row) == 4}


def test_the_guest_is_what_it_is_meant_to_be(story: Story) -> None:
    node = Node(story.evidence("unsigned"))
    assert node.secure_boot is SecureBoot.ON
    assert node.lockdown == "integrity"
    assert node.signatures_demanded == "module.sig_enforce"
    assert story.evidence("unsigned").complete


def test_a_key_that_is_not_enrolled_does_not_help(story: Story) -> None:
    assert "Key was rejected by service" in story.parts["modprobe before"]
    assert "Loading of module with unavailable key is rejected" in story.parts["dmesg before"]
    assert "nvidia_peermem" not in loaded(story, "before")


def test_an_unsigned_peermem_beside_a_signed_driver_is_refused(story: Story) -> None:
    assert story.parts["modprobe unsigned"].strip().startswith(REJECTED)
    assert "Loading of unsigned module is rejected" in story.parts["dmesg unsigned"]
    assert {"nvidia", "ib_uverbs"} <= loaded(story, "unsigned").keys()
    assert "nvidia_peermem" not in loaded(story, "unsigned")
    signed = found(story, "unsigned", "module.signed")
    assert (signed.status, signed.found) == (
        Status.FAIL,
        "nvidia_peermem is not signed, under module.sig_enforce",
    )
    state = found(story, "unsigned", "secureboot.state")
    assert (state.status, state.found) == (Status.FAIL, "on, and not signed: nvidia_peermem")


def test_a_foreign_key_is_refused_by_name(story: Story) -> None:
    assert story.parts["modprobe foreign"].strip().startswith(REJECTED)
    assert "Loading of module with unavailable key is rejected" in story.parts["dmesg foreign"]
    signed = found(story, "foreign", "module.signed")
    assert (signed.status, signed.found) == (
        Status.FAIL,
        "nvidia_peermem is signed by Somebody else, whom the kernel does not trust",
    )


def test_a_module_that_was_changed_after_signing_is_refused(story: Story) -> None:
    assert story.parts["modprobe tampered"].strip().startswith(REJECTED)
    assert "nvidia_peermem" not in loaded(story, "tampered")
    # The kernel says nothing more; the key is a good one, and only the bytes tell.
    assert story.parts["dmesg tampered"].partition("%%")[0].strip() == ""
    signed = found(story, "tampered", "module.signed")
    assert (signed.status, signed.found) == (
        Status.FAIL,
        "nvidia_peermem was changed after it was signed: its signature is of other bytes",
    )


def test_what_is_signed_by_the_enrolled_key_loads(story: Story) -> None:
    assert story.parts["modprobe ours"].strip().startswith("status 0")
    users = loaded(story, "ours")
    assert {"nvidia_peermem"} <= set(users["nvidia"].split(",")) & set(
        users["ib_uverbs"].split(",")
    )
    signed = found(story, "ours", "module.signed")
    assert signed.status is Status.PASS
    assert NAME in signed.found
    assert story.evidence("ours").text("peermem-verified").startswith("good /")
    assert found(story, "ours", "peermem.loaded").status is Status.PASS
    assert found(story, "ours", "peermem.bound").status is Status.PASS


def test_each_refusal_is_explained_before_anybody_loads_it(story: Story) -> None:
    for name, why in (
        ("unsigned", "is not signed"),
        ("foreign", "whom the kernel does not trust"),
        ("tampered", "was changed after it was signed"),
    ):
        loadable = found(story, name, "peermem.loadable")
        assert loadable.status is Status.FAIL, name
        assert why in loadable.found, name
    assert found(story, "ours", "peermem.loadable").status is Status.PASS


def test_it_unloads_in_order(story: Story) -> None:
    assert "in use" in story.parts["unload nvidia"]
    left = story.parts["unload nvidia-peermem"]
    assert "nvidia_peermem" not in left
