"""Bundles are signed where the site has a key, on their way out and by every way out."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from datetime import date
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

import toolkit
from tests.evidence.build import node
from tests.unit.planning import NOT_LOADED
from toolkit.errors import ApplyError, ExitCode, UsageError
from toolkit.evidence import Evidence
from toolkit.node import text_signature
from toolkit.node.deliver import _read
from toolkit.plan.bundle import Bundle, script
from toolkit.verbs.plan import bundle_files, plan_node, sealed
from toolkit.want import Bundles, PeerPath, Want

pytestmark = pytest.mark.shell  # by the real ssh-keygen

TOOLKIT = Path(toolkit.__file__).parent
LIST, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(file))
    subprocess.run(words, check=True)
    return file


def want(sign_key: str = "") -> Want:
    return Want(path=PeerPath.PEERMEM, bundles=Bundles(sign_key))


def bundle(sign_key: str = "") -> Bundle:
    made = plan_node("gpu1", node(NOT_LOADED), want(sign_key), date(2026, 1, 1)).bundle
    assert made is not None
    return made


def test_without_a_key_a_bundle_is_what_it_was() -> None:
    made = bundle()
    assert sealed(made) is made
    assert not {LIST, SIGNATURE} & made.files().keys()
    assert LIST not in script(made).rpartition("gdr_unpack() {")[2]


def test_planning_does_not_need_the_key(tmp_path: Path) -> None:
    made = bundle(str(tmp_path / "none"))
    assert (made.signature, made.sign_key) == ("", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="none: No such file"):
        sealed(made)


def test_the_list_that_is_signed_has_every_file(key: Path) -> None:
    files = sealed(bundle(str(key))).files()
    rows = [line.split("  ") for line in files[LIST].decode().split("\n")[:-1]]
    assert [path for _, path in rows] == sorted(files.keys() - {LIST, SIGNATURE})
    assert {path: told for told, path in rows} == {
        path: sha256(files[path]).hexdigest() for _, path in rows
    }
    assert {"apply.sh", "steps", "manifest.json"} < files.keys()


def test_it_is_signed_for_this_purpose_alone(key: Path) -> None:
    made = sealed(bundle(str(key)))
    good, _ = text_signature.check(key.with_suffix(".pub"), made.sums(), made.signature)
    assert not good, "a passport's signature is another's"
    words = ("ssh-keygen", "-Y", "check-novalidate", "-n", "gdr-toolkit-bundle", "-s")
    seal = key.with_name("sig")
    seal.write_text(made.signature)
    subprocess.run((*words, seal), input=made.sums(), text=True, check=True, capture_output=True)


def test_the_key_may_be_at_home(key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(key.parent))
    assert sealed(bundle("~/key")).signature


def test_a_key_of_minisign_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("untrusted comment: minisign\n")
    with pytest.raises(UsageError, match="nodes check bundles by ssh-keygen"):
        sealed(bundle(str(tmp_path / "key")))


def test_a_folder_that_is_written_is_signed_and_so_is_its_script(key: Path) -> None:
    planned = plan_node("gpu1", node(NOT_LOADED), want(str(key)), date(2026, 1, 1))
    files = bundle_files(planned)
    assert files[SIGNATURE].startswith(b"-----BEGIN SSH SIGNATURE-----")
    assert files[SIGNATURE] in files["run.sh"]
    with tarfile.open(fileobj=io.BytesIO(files["bundle.tar"])) as tar:
        assert {SIGNATURE, LIST, "apply.sh", "steps", "manifest.json"} < set(tar.getnames())
    planned = plan_node("gpu1", node(NOT_LOADED), want(), date(2026, 1, 1))
    assert "bundle.tar" not in bundle_files(planned)


def test_no_way_out_forgets_the_signature() -> None:
    """Whatever makes a script of a bundle makes it of a sealed one."""
    ways = {}
    for file in TOOLKIT.rglob("*.py"):
        text = file.read_text()
        if re.search(r"^from toolkit\.plan\.bundle import .*\b(script|runner)\b", text, re.M):
            ways[f"{file.parent.name}/{file.stem}"] = re.findall(
                r"(?<![\w.])(?:script|runner)\((\w+)", text
            )
    assert ways.keys() == {
        "image/run",
        "kubernetes/run",
        *(f"verbs/{each}" for each in ("provision", "trial", "plan")),
    }
    assert ways.pop("verbs/plan") == ["bundle"]  # see the test above
    assert set(map(tuple, ways.values())) == {("sealed",)}


def test_a_node_that_refuses_says_so_once(key: Path) -> None:
    said = "= begin ok gdr-toolkit/1\n= signature failed:1 /etc/x\n|not signed\n= end ok 1\n"
    with pytest.raises(ApplyError) as told:
        _read("gpu1", Evidence.parse(said), "")
    assert (str(told.value), told.value.exit_code) == ("gpu1: not signed", ExitCode.STOPPED)
    assert told.value.hint.startswith("nothing was touched; sign_key")
    assert replace(bundle(str(key)), sign_key="") == bundle()
