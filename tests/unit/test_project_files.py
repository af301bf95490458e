"""What every file of the project keeps to: size, reasons for exemptions, nothing private."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dev.run import ROOT, files
from toolkit import __version__

LINES = 400

LOCKS = ("requirements.lock", "requirements-dev.lock")
# Put together here, since this file is searched as well.
PRIVATE = ("/".join(("", "work", "")), "farm" + "-", "python" + "hosted", "file:" + "///")


def _texts() -> Iterator[tuple[str, str]]:
    """Each text file of the project: its path, and what stands in it."""
    for file in files():
        try:
            yield str(file.relative_to(ROOT)), file.read_text()
        except UnicodeDecodeError:
            continue


def long_files(texts: list[tuple[str, str]]) -> list[str]:
    """The Python and shell files that have more lines than they may."""
    return [
        f"{path}: {text.count(chr(10))} lines"
        for path, text in texts
        if path.endswith((".py", ".sh")) and text.count("\n") > LINES
    ]


def test_no_file_outgrows_its_room() -> None:
    assert long_files(list(_texts())) == []


def test_the_guard_on_sizes_sees_a_file_that_is_too_long() -> None:
    texts = [("toolkit/long.py", "\n" * 401), ("toolkit/right.py", "\n" * 400)]
    assert long_files(texts) == ["toolkit/long.py: 401 lines"]


def private_words(texts: list[tuple[str, str]], root: Path = ROOT) -> list[str]:
    """Lines that name this machine's paths or a registry's host."""
    words = (*PRIVATE, f"{root}/")
    return [
        f"{path}:{number}: {word}"
        for path, text in texts
        for number, line in enumerate(text.split("\n"), start=1)
        for word in words
        if word in line and re.search(rf"(?<![\w.]){re.escape(word)}", line)
    ]


def test_no_file_names_a_path_of_one_machine_or_a_registry() -> None:
    assert private_words(list(_texts())) == []


def test_the_guard_on_private_words_sees_them() -> None:
    texts = [("a.py", f"fine\nsee {ROOT}/x"), ("b.md", "frame" + "work/ is a word")]
    assert private_words(texts)[0].startswith("a.py:2: ")
    assert len({each.split(":")[0] for each in private_words(texts)}) == 1


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_host_and_no_path(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text
    assert not re.search(r"^\s*-", text.replace("    --hash=", ""), re.MULTILINE)


@pytest.mark.parametrize("name", LOCKS)
def test_everything_in_a_lock_has_a_version_and_hashes(name: str) -> None:
    entries = _entries(name)
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9-]+==[0-9][\w.]*( ; [^\\]+)? \\\n", entry), entry
        assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry)) >= 1


def _entries(name: str) -> list[str]:
    """One text for each package, from its name to its last hash."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / name).read_text(), flags=re.MULTILINE)
    return re.findall(r"^[^\s].*\n(?:[ \t]+.*\n)*", text, flags=re.MULTILINE)


def _versions(name: str) -> dict[str, str]:
    names = [entry.split()[0].partition("==") for entry in _entries(name)]
    return {package: version for package, _, version in names}


def test_the_locks_hold_what_pyproject_asks_for() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = {
        "requirements.lock": table["project"]["dependencies"],
        "requirements-dev.lock": table["dependency-groups"]["dev"],
    }
    for name, lines in wanted.items():
        locked = _versions(name)
        for requirement in map(Requirement, lines):
            version = locked[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), f"{name}: {requirement} has {version}"


def test_where_both_locks_hold_a_package_it_is_the_same() -> None:
    runtime, development = map(_versions, LOCKS)
    both = runtime.keys() & development.keys()
    assert both
    assert {name: runtime[name] for name in both} == {name: development[name] for name in both}


def exemptions_without_reason(text: str) -> list[str]:
    """Lines of ruff's and mypy's tables that let something off and do not say why."""
    found = []
    part = ""
    for line in text.split("\n"):
        if line.startswith("["):
            part = line.strip()
        exempts = (
            ("per-file-ignores" in part and re.match(r'"[^"]+" = \[', line))
            or (part == "[tool.ruff.lint]" and re.match(r'\s+"[A-Z]+\d', line))
            or (part == "[[tool.mypy.overrides]]" and line.startswith("module"))
        )
        if exempts and not re.search(r"# \S+ \S+", line):
            found.append(line.strip())
    return found


def test_every_exemption_says_why() -> None:
    assert exemptions_without_reason((ROOT / "pyproject.toml").read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('[tool.ruff.lint.per-file-ignores]\n"a.py" = ["S101"]', id="of-a-file"),
        pytest.param('[tool.ruff.lint]\nignore = [\n    "N818",', id="of-a-rule"),
        pytest.param('[[tool.mypy.overrides]]\nmodule = ["x"]', id="of-a-module"),
    ],
)
def test_the_guard_on_exemptions_sees_one_without_a_reason(text: str) -> None:
    assert len(exemptions_without_reason(text)) == 1


def silenced_without_reason(texts: list[tuple[str, str]]) -> list[str]:
    """Lines of Python that silence a checker and do not say why."""
    mark = re.compile(r"# (?:noqa: [A-Z0-9, ]+|type: ignore\[[a-z-]+(?:, ?[a-z-]+)*\])(?P<why>.*)")
    return [
        f"{path}:{number}"
        for path, text in texts
        if path.endswith(".py")
        for number, line in enumerate(text.split("\n"), start=1)
        if (found := mark.search(line)) and not re.search(r"\w", found["why"])
    ]


def test_whatever_silences_a_checker_says_why() -> None:
    assert silenced_without_reason(list(_texts())) == []


def test_the_guard_on_silencing_sees_one_without_a_reason() -> None:
    lines = ["x = 1  # " + "noqa: E501", "y = 2  # " + "noqa: E501 the URL has no break"]
    assert silenced_without_reason([("a.py", "\n".join(lines))]) == ["a.py:1"]


def ends_only_if_heard(texts: list[tuple[str, str]]) -> list[str]:
    """Lines of shell that end something only where a message before that could be written.

    On a full disk, or where nobody listens any more, such a line goes on instead.
    """
    # In two pieces, since this file is searched as well.
    hangs = re.compile(
        r"(?:^|[\s{;(])(?:echo|printf|say)\s.*&" + r"&\s*(?:return|exit|break|continue)"
    )
    return [
        f"{path}:{number}"
        for path, text in texts
        if not path.startswith("tests/golden/")
        for number, line in enumerate(text.split("\n"), start=1)
        if hangs.search(line)
    ]


def test_what_ends_a_script_does_not_hang_on_its_message() -> None:
    assert ends_only_if_heard(list(_texts())) == []


def test_the_guard_on_ends_sees_one_that_hangs_on_its_message() -> None:
    lines = ["    { say 'no room' &" + "& return 1; }", "echo 'no room'; return 1"]
    assert ends_only_if_heard([("a.sh", "\n".join(lines))]) == ["a.sh:1"]


@pytest.mark.parametrize("script", ["invokew", ".ci/run"])
def test_what_is_run_by_name_may_be_run(script: str) -> None:
    assert (ROOT / script).stat().st_mode & 0o111 == 0o111


def test_a_task_module_loads_without_the_development_packages() -> None:
    """The verbs must not wait for pytest plug-ins or mypy, which a first start lacks."""
    code = "import sys, tasks; print(sorted({'mypy', 'xdist', 'hypothesis'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert versions[0] == __version__
