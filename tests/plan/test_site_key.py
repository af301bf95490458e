"""DKMS is told to sign with the site's key where it could, and never where it would make one."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.evidence.build import HEALTHY, KERNEL, node
from tests.evidence.frames import ABSENT, Override
from tests.unit.planning import frames, placed, plan_for
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Status
from toolkit.errors import Unparsable, UsageError
from toolkit.facts.firmware.secureboot import parse_key_files
from toolkit.facts.modules.placed_files import REBUILD
from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Change
from toolkit.plan.templates import render_text
from toolkit.want import PeerPath, SigningPaths, Want

KEY, CERTIFICATE = "/etc/dkms/keys/site.key", "/etc/dkms/keys/site.der"
SITE = Want(signing=SigningPaths(KEY, CERTIFICATE))
PATH = "/etc/dkms/framework.conf.d/gdr-toolkit-signing.conf"
DEMANDED: dict[str, Override] = {
    "sig-enforce": "Y\n",
    "signing-files": f"600 0 {KEY}\n644 0 {CERTIFICATE}\n",
    "dkms-version": "dkms-3.0.11\n",
}
TOLD = (
    f"/etc/dkms/framework.conf.d/site.conf:mok_signing_key={KEY}\n"
    f'/etc/dkms/framework.conf.d/site.conf:mok_certificate="{CERTIFICATE}"\n'
)


def verdict(changed: dict[str, Override], want: Want = SITE) -> tuple[Status, str]:
    finding = BY_ID["secureboot.site_key"](Node(node(changed)), want).finding
    return finding.status, finding.found


def signing_change(changed: dict[str, Override], want: Want = SITE) -> Change | None:
    plan = plan_for(frames(changed), want)
    return next((each for each in plan.changes if each.artefact == "dkms.signing"), None)


def blocked(changed: dict[str, Override]) -> list[tuple[str, str]]:
    plan = plan_for(frames(changed), SITE)
    return [(each.reason, each.hint) for each in plan.blocked if each.artefact == "dkms.signing"]


@pytest.mark.parametrize(
    ("changed", "want", "status", "found"),
    [
        pytest.param(DEMANDED, Want(), Status.NA, "the site names no key", id="no-key"),
        pytest.param({}, SITE, Status.NA, "demands no signatures", id="not-demanded"),
        pytest.param(DEMANDED | {"dkms-version": ABSENT}, SITE, Status.NA, "no DKMS", id="no-dkms"),
        pytest.param(DEMANDED, SITE, Status.FAIL, "its own key and its own certificate", id="own"),
        pytest.param(DEMANDED | {"dkms-fragments": TOLD}, SITE, Status.PASS, KEY, id="told"),
        pytest.param(
            DEMANDED | {"dkms-fragments": TOLD.replace("site.key", "old.key")}, SITE, Status.FAIL,
            "/etc/dkms/keys/old.key", id="another-key",
        ),
        pytest.param(
            DEMANDED | {"dkms-fragments": TOLD.partition("\n")[0] + "\n"}, SITE, Status.FAIL,
            "its own certificate", id="half-told",
        ),
    ],
)  # fmt: skip
def test_whose_key_dkms_signs_with(
    changed: dict[str, Override], want: Want, status: Status, found: str
) -> None:
    told = verdict(changed, want)
    assert told[0] is status
    assert found in told[1]


def test_dkms_is_told_once() -> None:
    change = signing_change(DEMANDED)
    assert change is not None
    assert change.path == PATH
    assert f'mok_signing_key="{KEY}"' in change.text
    assert f'mok_certificate="{CERTIFICATE}"' in change.text
    after = (
        DEMANDED
        | placed({change.path: change.text})
        | {"dkms-fragments": "".join(f"{PATH}:{line}\n" for line in change.text.splitlines())}
    )
    assert verdict(after)[0] is Status.PASS
    assert signing_change(after) is None


@pytest.mark.parametrize("before", ["", "/etc/dkms/keys/old.der"], ids=["first", "another"])
def test_what_was_signed_otherwise_is_built_again_aside(before: str) -> None:
    """By the program that is there already: it looks by itself which modules these are."""
    texts = {REBUILD: render_text("dkms/rebuild.sh.j2", {})}
    if before:
        old = {"key": before.replace(".der", ".key"), "certificate": before}
        texts[PATH] = render_text("dkms/signing.conf.j2", old)
    told = "".join(f"{PATH}:{line}\n" for line in texts.get(PATH, "").splitlines())
    there = DEMANDED | placed(texts) | {"dkms-fragments": told}
    plan = plan_for(frames(there), SITE)
    assert [each.artefact for each in plan.changes if each.path == PATH] == ["dkms.signing"]
    calls = [act.call for act in plan.acts if act.trigger is Trigger.BUILD_DKMS]
    assert calls == [f"BUILD_DKMS rebuild --kernel {KERNEL} --peermem"]
    assert not plan.blocked


@pytest.mark.parametrize(("path", "comes"), [(PeerPath.PEERMEM, True), (PeerPath.DMABUF, False)])
def test_what_builds_again_is_called_only_where_it_is_or_comes(path: PeerPath, comes: bool) -> None:
    plan = plan_for(frames(DEMANDED), replace(SITE, path=path))
    assert "dkms.signing" in [each.artefact for each in plan.changes]
    assert (REBUILD in [each.path for each in plan.changes]) is comes
    calls = [act.call for act in plan.acts if act.trigger is Trigger.BUILD_DKMS]
    assert calls == ([f"BUILD_DKMS rebuild --kernel {KERNEL} --peermem"] if comes else [])


def test_where_another_file_has_the_last_word_it_is_said_and_nothing_is_built() -> None:
    text = render_text("dkms/signing.conf.j2", {"key": KEY, "certificate": CERTIFICATE})
    told = "".join(f"{PATH}:{line}\n" for line in text.splitlines())
    other = TOLD.replace("site.conf", "zz.conf").replace("keys/site", "keys/other")
    changed = DEMANDED | placed({PATH: text}) | {"dkms-fragments": told + other}
    assert signing_change(changed) is None
    [(why, way_out)] = blocked(changed)
    assert "signs with /etc/dkms/keys/other.key" in why
    assert way_out == "something else overrides it"


@pytest.mark.parametrize(
    ("changed", "reason", "hint"),
    [
        pytest.param({"signing-files": f"644 0 {CERTIFICATE}\n"}, f"{KEY} is not among",
                     "DKMS would make a new key", id="no-key"),
        pytest.param({"signing-files": f"600 0 {KEY}\n"}, f"{CERTIFICATE} is not among",
                     "DKMS would make a new key", id="no-certificate"),
        pytest.param({"signing-files": f"640 0 {KEY}\n644 0 {CERTIFICATE}\n"},
                     "has mode 0640", "chmod 600", id="others-may-read"),
        pytest.param({"signing-files": f"600 1000 {KEY}\n644 0 {CERTIFICATE}\n"},
                     "belongs to user 1000", "chown root", id="somebody-elses"),
        pytest.param({"dkms-version": "dkms: 2.8.4\n"}, "DKMS 2.8.4 reads no", "sign_tool",
                     id="old-dkms"),
    ],
)  # fmt: skip
def test_where_dkms_would_make_a_key_or_show_one_nothing_is_placed(
    changed: dict[str, Override], reason: str, hint: str
) -> None:
    assert signing_change(DEMANDED | changed) is None
    [(why, way_out)] = blocked(DEMANDED | changed)
    assert reason in why
    assert hint in way_out


def test_a_healthy_node_without_signatures_is_left_alone() -> None:
    assert signing_change({}) is None


@pytest.mark.parametrize("text", ["600 0\n", "rw------- 0 /x\n", "600 root /x\n"])
def test_another_shape_of_the_list_is_refused(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_key_files(text)


@pytest.mark.parametrize(
    "table",
    [
        pytest.param('key = "/k"', id="half"),
        pytest.param('key = "/k"\ncertificate = "/c"\npin = "1"', id="too-much"),
        pytest.param('key = "k"\ncertificate = "/c"', id="relative"),
        pytest.param('key = "/k$(id)"\ncertificate = "/c"', id="a-shell-would-read-it"),
        pytest.param('key = "/k\\n"\ncertificate = "/c"', id="two-lines"),
    ],
)
def test_paths_that_are_none_are_refused(table: str, tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text(f"[signing]\n{table}\n")
    with pytest.raises(UsageError, match="signing"):
        Want.load("peermem", site=site)


def test_the_site_names_its_key(tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text(f'[signing]\nkey = "{KEY}"\ncertificate = "{CERTIFICATE}"\n')
    assert Want.load("peermem", site=site).signing == SITE.signing


def test_the_healthy_node_was_asked_for_its_keys() -> None:
    assert "signing-files" in HEALTHY
