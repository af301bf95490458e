"""Examples for pipelines are well formed, and their commands are ones that we have."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from dev.run import ROOT
from toolkit.cli import verbs
from toolkit.cli.options import VerbTask

FOLDER = ROOT / "docs/pipelines"
FILES = sorted(each for each in FOLDER.rglob("*") if each.is_file())
_COMMAND = re.compile(r"\bgdr ([a-z]+(?: [^#\n|]*)?)")


def commands(text: str) -> Iterator[list[str]]:
    """The words after each ``gdr`` of a file, comments and quotes around them left out."""
    for line in text.split("\n"):
        for found in _COMMAND.finditer(re.sub(r"(^| )#.*", "", line)):
            words = re.sub(r"\$\{[^}]*\}|\"|,\s*$", " ", found[1])
            yield shlex.split(words)


def faults(words: list[str]) -> list[str]:
    """What our command line does not know of a command."""
    try:
        verb = verbs()[words[0]]
    except KeyError:
        return [f"no verb {words[0]}"]
    assert isinstance(verb, VerbTask)
    known = {"--" + each.name.rstrip("_").replace("_", "-") for each in verb.options}
    return [f"{words[0]} has no {each}" for each in words if each[:1] == "-" and each not in known]


@pytest.mark.parametrize("file", [*FILES, ROOT / "docs/pipelines.md"], ids=lambda file: file.name)
def test_every_command_is_one_of_ours(file: Path) -> None:
    asked = list(commands(file.read_text()))
    assert asked or file.name in {"mkosi.conf", "user-data", "meta-data"}
    assert [fault for words in asked for fault in faults(words)] == []


def test_a_command_that_is_not_ours_is_found() -> None:
    text = "run: sudo gdr imagine --disk x\nx: gdr verify --hosts a --junior f # gdr not"
    asked = list(commands(text))
    assert [faults(words) for words in asked] == [
        ["no verb imagine"],
        ["verify has no --junior"],
    ]


def _yaml(name: str) -> dict[Any, Any]:
    """Any: YAML takes the key ``on`` for a truth value."""
    read = yaml.safe_load((FOLDER / name).read_text())
    assert isinstance(read, dict)
    return read


GITHUB, GITLAB = ("github.yml", "github-workflows"), ("gitlab-ci.yml", "gitlab-ci")


def _against(schema: str, told: Mapping[Any, Any]) -> list[str]:
    """What the published schema says of a file: GitLab's own, and SchemaStore's of GitHub's."""
    held = files("check_jsonschema.builtin_schemas.vendor").joinpath(f"{schema}.json")
    document = {"on" if key is True else key: value for key, value in told.items()}
    return [
        error.message
        for error in Draft7Validator(json.loads(held.read_text())).iter_errors(document)
    ]


@pytest.mark.parametrize(("name", "schema"), [GITHUB, GITLAB])
def test_it_holds_to_the_published_schema(name: str, schema: str) -> None:
    assert _against(schema, _yaml(name)) == []


@pytest.mark.parametrize(
    ("names", "job", "wrong"),
    [
        pytest.param(GITHUB, "image", {"runs_on": "ubuntu-24.04"}, id="github-no-such-word"),
        pytest.param(GITHUB, "image", {"timeout-minutes": "soon"}, id="github-no-number"),
        pytest.param(GITHUB, "image", {"steps": [{"name": "nothing"}]}, id="github-an-idle-step"),
        pytest.param(GITLAB, "gpu-node", {"scripts": ["x"]}, id="gitlab-no-such-word"),
        pytest.param(GITLAB, "gpu-node", {"artifacts": {"when": "ever"}}, id="gitlab-when"),
        pytest.param(GITLAB, "gpu-node", {"timeout": 90}, id="gitlab-no-duration"),
    ],
)
def test_the_schemas_see_what_is_wrong(
    names: tuple[str, str], job: str, wrong: dict[str, Any]
) -> None:
    told = _yaml(names[0])
    jobs = told["jobs"] if names is GITHUB else told
    jobs[job].update(wrong)
    assert _against(names[1], told) != []


@pytest.mark.parametrize("name", [GITHUB[0], GITLAB[0]])
def test_the_toolkit_is_there_before_it_is_called(name: str) -> None:
    text = (FOLDER / name).read_text()
    assert text.index("pip install -q images/gdr_toolkit-*.whl") < text.index("/usr/local/bin/gdr")
    assert text.index("/usr/local/bin/gdr") < text.index("gdr image")


def test_githubs_jobs_have_a_limit() -> None:
    for job in _yaml("github.yml")["jobs"].values():
        assert job["timeout-minutes"]


def test_gitlabs_jobs_stand_in_stages_and_need_what_is_there() -> None:
    """Which no schema sees."""
    told = _yaml("gitlab-ci.yml")
    jobs = {name: job for name, job in told.items() if name != "stages"}
    for job in jobs.values():
        assert job["stage"] in told["stages"]
        assert set(job.get("needs", ())) <= set(jobs)


@pytest.mark.parametrize("name", ["github.yml", "gitlab-ci.yml"])
def test_the_junit_file_is_kept_also_where_a_check_failed(name: str) -> None:
    text = (FOLDER / name).read_text()
    [written] = set(re.findall(r"--junit (\S+)", text))
    always = text.index("always")
    assert written in text[always : always + 250]


def test_packer_comes_in_by_what_cloud_init_is_told_and_takes_it_away_again() -> None:
    """No cloud image has a password: without a seed its sshd would let nobody in."""
    template = (FOLDER / "gpu-node.pkr.hcl").read_text()
    [password] = re.findall(r'ssh_password += "(.+)"', template)
    told = yaml.safe_load((FOLDER / "cloud-init/user-data").read_text())
    assert (told["password"], told["ssh_pwauth"]) == (password, True)
    assert all(f"cloud-init/{each}" in template for each in ("user-data", "meta-data"))
    [shutdown] = re.findall(r'shutdown_command = "(.+)"', template)
    for each in ("50-cloud-init.conf", "cloud-init clean", "passwd --lock debian"):
        assert each in shutdown


def test_the_page_names_every_file() -> None:
    page = (ROOT / "docs/pipelines.md").read_text()
    for file in FILES:
        assert f"](pipelines/{file.relative_to(FOLDER)})" in page
