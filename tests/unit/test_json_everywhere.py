"""Every verb speaks to machines: --json is there, and prints one document of a written schema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from invoke.collection import Collection

from toolkit.built.delivery_cache import to_entry
from toolkit.built.io.store import Store
from toolkit.built.plan.model import Built, BuiltFile, Inputs, Part
from toolkit.checks.all import ALL
from toolkit.cli import Gdr, verbs
from toolkit.cli.options import VerbTask
from toolkit.errors import ExitCode, Outcome
from toolkit.report.document import Told, document_parts
from toolkit.verbs.access import demo_folder

ROOT = Path(__file__).parents[2]
SCHEMA = re.compile(r"docs/([a-z-]+)\.schema\.json")
EXCEPTIONS: dict[str, str] = {}  # a verb, and why no machine would ask it


def tasks(collection: Collection) -> dict[str, VerbTask]:
    """Each verb by the name that an operator gives it."""
    return {
        name.removesuffix(".image").replace("runs.list", "runs"): task
        for name in collection.task_names
        if isinstance(task := collection[name], VerbTask)
    }


def without(collection: Collection) -> set[str]:
    """The verbs that have no --json."""
    return {
        name
        for name, task in tasks(collection).items()
        if not any(option.name == "json" for option in task.options)
    }


def schemas_of(task: VerbTask) -> set[str]:
    """The schemas that the help of a verb's --json names."""
    told = [option.help for option in task.options if option.name == "json"]
    return set(SCHEMA.findall(" ".join(told)))


def test_every_verb_has_json_but_for_those_with_a_reason() -> None:
    assert without(verbs()) == EXCEPTIONS.keys()
    assert all(EXCEPTIONS.values())


def test_the_help_of_json_names_a_schema_that_is_there() -> None:
    for name in tasks(verbs()).keys() - EXCEPTIONS.keys():
        named = schemas_of(tasks(verbs())[name])
        assert named, f"{name}: --json says of no schema"
        for schema in named:
            assert (ROOT / f"docs/{schema}.schema.json").exists(), name


def test_the_guide_tells_the_schema_of_every_verb() -> None:
    text = (ROOT / "docs/guide.md").read_text()
    rows = re.findall(r"^\| (`[a-z., `]+`) \| \[.*\]\(([a-z-]+)\.schema\.json\)", text, re.M)
    told = {(verb, schema) for row, schema in rows for verb in re.findall(r"`([a-z.]+)`", row)}
    real = {
        (name, schema)
        for name in tasks(verbs()).keys() - EXCEPTIONS.keys()
        for schema in schemas_of(tasks(verbs())[name])
    }
    assert told == real


def test_the_schema_of_reports_knows_every_verb_that_prints_one() -> None:
    known = json.loads((ROOT / "docs/report.schema.json").read_text())["properties"]["verb"]["enum"]
    assert sorted(known) == sorted(
        n for n, t in tasks(verbs()).items() if "report" in schemas_of(t)
    )


Tell = Callable[..., dict[str, Any]]


@pytest.fixture
def told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Tell:
    """The document that a verb prints, which keeps its schema and stands alone.

    Any: documents of JSON, of which each test knows the shape.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def tell(*words: str, schema: str, code: ExitCode = ExitCode.OK) -> dict[str, Any]:
        ended = ExitCode.OK
        capsys.readouterr()
        try:
            Gdr(namespace=verbs()).run(["gdr", *words, "--json"])
        except SystemExit as end:
            ended = ExitCode(int(end.code or 0))
        seen = capsys.readouterr()
        assert ended == code, seen.err
        found: dict[str, Any] = json.loads(seen.out)
        jsonschema.validate(found, json.loads((ROOT / f"docs/{schema}.schema.json").read_text()))
        assert found["schema"] == f"gdr-toolkit/{schema}/1"
        return found

    return tell


def test_all_checks_and_one(told: Tell) -> None:
    every = told("checks", schema="checks")["checks"]
    one = told("explain", "peermem.stub", schema="checks")["checks"]
    assert [each["id"] for each in every] == [each.id for each in ALL]
    assert one == [each for each in every if each["id"] == "peermem.stub"]


def test_a_host_is_told_by_what_is_known_of_it_and_null(told: Tell) -> None:
    found = told("hosts", "--hosts", "root@gpu1:2222,gpu2", schema="hosts")
    unsaid = dict.fromkeys(("jump", "key_file", "bmc", "away"))
    first = {"name": "root@gpu1:2222", "address": "gpu1", "user": "root", "port": 2222}
    second = {"name": "gpu2", "address": "gpu2", "user": None, "port": None}
    assert found["hosts"] == [{**each, "groups": [], **unsaid} for each in (first, second)]


@pytest.mark.parametrize("words", [(), ("--reset",)])
def test_demo_nodes_and_whether_they_were_made_anew(
    told: Tell, tmp_path: Path, words: tuple[str, ...]
) -> None:
    found = told("demo", *words, schema="demo")
    assert found["reset"] is bool(words)
    assert found["folder"] == str(tmp_path / "state/gdr-toolkit/demo" / demo_folder().name)


@pytest.mark.parametrize(("words", "removed"), [(("--cached",), False), (("--prune", "0"), True)])
def test_the_builds_of_the_cache_and_those_removed_from_it(
    told: Tell, tmp_path: Path, words: tuple[str, ...], removed: bool
) -> None:
    built = Inputs(Part.PEERMEM, "nvidia-peermem", "535.261.03", "6.1.0-49-amd64", "x86_64",
                   *("a", "b", "gcc-12 12.2.0", "c", "", "d"))  # fmt: skip
    Store(tmp_path / "cache").keep(
        to_entry(Built(built, (BuiltFile("nvidia-peermem.ko", b"x" * 9),)))
    )
    found = told("build", *words, "--cache", str(tmp_path / "cache"), schema="build-cached")
    assert [each["digest"] for each in found["entries"]] == [built.digest]
    assert found["removed"] is removed


def test_what_is_refused_is_said_on_standard_error_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        Gdr(namespace=verbs()).run(["gdr", "explain", "no.such", "--json"])
    seen = capsys.readouterr()
    assert (ended.value.code, seen.out) == (ExitCode.USAGE, "")
    assert seen.err.startswith("error: ")


def test_bundles_are_told_with_the_plans_that_they_carry_out(told: Tell, tmp_path: Path) -> None:
    saved = str(ROOT / "tests/evidence/stub.txt")
    out, junit = tmp_path / "out", tmp_path / "bundle.xml"
    words = ("bundle", "--from", saved, "--out", str(out), "--junit", str(junit), *PEERMEM)
    (host,) = told(*words, schema="report")["hosts"]
    assert host["written"] == [str(each) for each in out.iterdir()] != []
    assert not host["plan"]["empty"]
    assert junit.exists()


def test_capture_tells_the_file_of_each_host(told: Tell, tmp_path: Path) -> None:
    dmesg = tmp_path / "dmesg.txt"
    dmesg.write_text("[    0.000000] Linux version 6.8.0-45-generic\n")
    words = ("capture", "--import", f"dmesg={dmesg}", "--out", str(tmp_path / "out"))
    (host,) = told(*words, schema="report")["hosts"]
    assert host["written"] == [str(each) for each in (tmp_path / "out").iterdir()] != []
    assert (host["state"], host["complete"]) == ("done", True)


def test_an_incident_is_told_with_its_verdicts(told: Tell, tmp_path: Path) -> None:
    dmesg, file = tmp_path / "dmesg.txt", tmp_path / "ticket.tar.gz"
    dmesg.write_text("[    0.000000] Linux version 6.8.0-45-generic\n")
    words = ("capture", "--import", f"dmesg={dmesg}", "--incident", str(file))
    (host,) = told(*words, schema="report")["hosts"]
    assert host["written"] == [str(file)]
    assert host["verdicts"]


@pytest.mark.parametrize("verb", ["capture", "playbook"])
def test_a_host_out_of_reach_has_nothing_written(told: Tell, tmp_path: Path, verb: str) -> None:
    where = ("--hosts", "root@127.0.0.1:1", "--out", str(tmp_path / "out"))
    (host,) = told(verb, *where, schema="report", code=ExitCode.UNREACHABLE)["hosts"]
    assert (host["written"], host["complete"]) == ([], False)
    assert host["error"]["exit_code"] == ExitCode.UNREACHABLE


def test_evidence_that_was_cut_off_is_no_done_host() -> None:
    cut = Outcome("gpu1", Told(written=("gpu1.evidence",), complete=False))
    parts = document_parts("capture", "", [cut], ExitCode.UNREACHABLE, datetime.now(UTC))
    (host,) = json.loads("".join(parts))["hosts"]
    assert (host["state"], host["complete"]) == ("cut off", False)


IMAGE = "registry.example/busybox@sha256:" + "0123456789abcdef" * 4


PEERMEM = ("--profile", "peermem")  # whose plan mends the stub


@pytest.fixture
def log(tmp_path: Path) -> str:
    """What a pod said of one node that is to be changed."""
    stub = (ROOT / "tests/evidence/stub.txt").read_text()
    (tmp_path / "pods.log").write_text(f"gdr-toolkit: node gpu007: probe\n{stub}")
    return str(tmp_path / "pods.log")


def test_manifests_stand_in_the_document_or_in_files(told: Tell, tmp_path: Path) -> None:
    words, out = ("kubernetes", "--image", IMAGE), tmp_path / "out"
    inside = told(*words, schema="report")["manifests"]
    beside = told(*words, "--out", str(out), schema="report")["manifests"]
    assert [each["name"] for each in inside] == sorted(each.name for each in out.iterdir()) != []
    for one, other in zip(inside, beside, strict=True):
        assert (one["path"], other["text"]) == (None, None)
        assert Path(other["path"]).read_text() == one["text"]


def test_the_job_of_each_bundle_is_told(told: Tell, log: str) -> None:
    found = told(
        "kubernetes", "--apply", "--from", log, "--image", IMAGE, *PEERMEM, schema="report"
    )
    (job,) = found["jobs"]
    assert (job["batch"], job["node"], found["hosts"][0]["name"]) == (1, "gpu007", "gpu007")
    assert any(job["job"] in each["text"] for each in found["manifests"])


def test_check_tells_plans_and_renders_nothing(told: Tell, log: str) -> None:
    words = ("kubernetes", "--check", "--from", log, *PEERMEM)
    found = told(*words, schema="report", code=ExitCode.PENDING)
    assert "manifests" not in found
    assert not found["hosts"][0]["plan"]["empty"]


@pytest.mark.parametrize("option", ["--junit", "--sarif", "--ctrf"])
@pytest.mark.parametrize("verb", ["doctor", "provision"])
def test_a_report_that_cannot_be_written_is_refused_before_any_node_is_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, verb: str, option: str
) -> None:
    words = ["gdr", verb, "--hosts", "root@127.0.0.1:1", "--yes", "--json"]
    with pytest.raises(SystemExit) as ended:
        Gdr(namespace=verbs()).run([*words, option, str(tmp_path / "none/report")])
    seen = capsys.readouterr()
    assert (ended.value.code, seen.out) == (ExitCode.USAGE, "")
    assert seen.err == f"error: {tmp_path}/none: no such folder\n next: make it, or name another\n"
