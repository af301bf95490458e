"""Who may import whom: every import points down, and there is no circle."""

from __future__ import annotations

import ast
import re
import shutil
from functools import cache
from pathlib import Path

import pytest

import toolkit

PACKAGE = Path(toolkit.__file__).parent

FOUNDATION = frozenset(
    {"errors", "evidence", "interrupts", "package_data", "plural", "progress"}
    | {"safe_file", "tar_member", "toolkit", "untrusted"}
)
WANTED = frozenset({"expect", "groups", "upgrade", "want"})
LOW = FOUNDATION | WANTED | {"compat", "hosts"}
JUDGED = LOW | {"facts", "throughput", "checks"}
REACHED = LOW | {"facts", "ssh", "node", "redfish"}
SPINE = JUDGED | REACHED | {"built", "plan", "report", "cli", "rollout", "demo", "features.slurm"}

# The rooms, from the bottom up, and which others each may import. Within a room anything
# goes that makes no circle.
MAY_IMPORT: dict[str, frozenset[str]] = {
    **dict.fromkeys(FOUNDATION, FOUNDATION),
    "compat": FOUNDATION,
    "hosts": FOUNDATION,
    "expect": FOUNDATION,
    "upgrade": FOUNDATION,
    "want": FOUNDATION | {"compat", "expect", "upgrade"},
    "groups": FOUNDATION | {"hosts", "expect", "want"},
    "ssh": FOUNDATION | {"hosts"},
    "facts": LOW,
    "node": FOUNDATION | {"hosts", "ssh"},
    "redfish": LOW | {"facts", "ssh"},
    "demo": FOUNDATION | {"hosts"},
    "throughput": FOUNDATION | {"compat", "facts"},
    "checks": LOW | {"facts", "throughput"},
    "built": JUDGED | {"ssh", "node"},
    "plan": JUDGED | {"built"},
    "report": JUDGED | {"built", "plan"},
    "cli": FOUNDATION | {"checks", "hosts", "ssh", "redfish", "report"},
    "rollout": JUDGED | REACHED | {"plan", "report"},
    "verbs": SPINE,
    "suites": SPINE | {"verbs"},  # a failed case shows its verdict
    "verbs.cli": SPINE | {"verbs", "suites"},
    "features": frozenset(),
}
# Slurm is a way to nodes and out of service, below the verbs, which use it.
MAY_IMPORT["features.slurm"] = JUDGED | REACHED | {"rollout"}
# A feature may import all of the spine, and these others.
BESIDE = {
    "exercise": ("predict",),
    "expect": ("slurm",),
    "history": ("exercise",),
    "iommu_groups": ("reload",),
    "kubernetes": ("slurm",),
    "nic": ("reload",),
    "page": ("exercise", "predict", "topology"),
    "topology": ("predict",),
}
# The report has fields for what these two came to: types alone.
ALONE = {
    ("toolkit.report.document", "toolkit.features.enrol.plan"),
    ("toolkit.report.document", "toolkit.features.reload.plan"),
}
# What decides never does anything: nothing that talks to the world is imported there. In other
# rooms that is what is called ``plan``, as in ``features.bios.plan``; the verb alone is none.
PURE = frozenset({"facts", "throughput", "checks", "plan"})
WORLD = frozenset(
    {"asyncio", "fcntl", "http", "invoke", "os", "paramiko", "pty", "random", "select", "shutil"}
    | {"signal", "socket", "subprocess", "sys", "tempfile", "termios", "testinfra", "threading"}
    | {"time", "urllib"}
)


def modules(package: Path) -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    names = {}
    for path in sorted(package.rglob("*.py")):
        parts = ["toolkit", *path.relative_to(package).with_suffix("").parts]
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


@cache
def imports(source: str, importer: str) -> tuple[str, ...]:
    """The dotted names that a module asks for, wherever in it they stand."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise AssertionError(f"{importer}: relative import; name the module in full")
            names += (f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(names)


def target(name: str, known: dict[str, Path]) -> str:
    """The module of ours that an imported name lies in; "" where it is not ours."""
    parts = name.split(".")
    candidates = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((each for each in candidates if each in known), "")


def room(module: str) -> str:
    parts = [*module.split(".")[1:], "toolkit"]
    if parts[0] == "features" or parts[:2] == ["verbs", "cli"]:
        return ".".join(each for each in parts[:2] if each != "toolkit")
    return parts[0]


def pure(module: str) -> bool:
    parts = module.split(".")[1:]
    if parts[:1] == ["verbs"]:
        return False
    return room(module) in PURE or any(re.match("plan(_|$)", each) for each in parts[1:])


def allowed(here: str) -> frozenset[str]:
    """The rooms that one room may import."""
    if here in MAY_IMPORT:
        return MAY_IMPORT[here]
    others = BESIDE.get(here.removeprefix("features."), ())
    return MAY_IMPORT["verbs.cli"] | {"verbs.cli"} | {f"features.{each}" for each in others}


def refusals(importer: str, source: str, known: dict[str, Path]) -> list[str]:
    """What is wrong with the imports of one module."""
    here, wrong = room(importer), []
    for name in imports(source, importer):
        wanted = target(name, known)
        if (importer, wanted) in ALONE:
            continue
        if wanted and room(wanted) != here and room(wanted) not in allowed(here):
            wrong.append(f"{importer} may not import {wanted}")
        if pure(importer) and name.split(".")[0] in WORLD:
            wrong.append(f"{importer} is pure and may not import {name}")
    return wrong


def circle(package: Path) -> list[str]:
    """Modules that import one another in a ring, the first one named again; [] for none."""
    known = modules(package)
    graph = {
        module: sorted({target(name, known) for name in imports(path.read_text(), module)} - {""})
        for module, path in known.items()
    }
    done: set[str] = set()

    def walk(module: str, above: list[str]) -> list[str]:
        if module in above:
            return [*above[above.index(module) :], module]
        if module in done:
            return []
        for each in graph[module]:
            if each != module and (found := walk(each, [*above, module])):
                return found
        done.add(module)
        return []

    return next((found for module in graph if (found := walk(module, []))), [])


KNOWN = modules(PACKAGE)


def test_every_import_points_down() -> None:
    texts = {module: path.read_text() for module, path in KNOWN.items()}
    assert [line for each, text in texts.items() for line in refusals(each, text, KNOWN)] == []


def test_there_is_no_circle() -> None:
    assert circle(PACKAGE) == []


def test_every_room_is_in_the_table() -> None:
    rooms = {room(module) for module in KNOWN}
    assert {each for each in rooms if not each.startswith("features.")} <= set(MAY_IMPORT)
    assert {f"features.{each}" for each in BESIDE} <= rooms


@pytest.mark.parametrize(
    ("importer", "line", "refused"),
    [
        pytest.param(
            "toolkit.facts.new", "from toolkit.checks.check import Check", "toolkit.checks.check",
            id="facts-judge-nothing",
        ),
        pytest.param(
            "toolkit.checks.new", "import toolkit.ssh.transport", "toolkit.ssh.transport",
            id="checks-reach-nothing",
        ),
        pytest.param(
            "toolkit.node.new", "from toolkit.facts.node import node", "toolkit.facts.node.node",
            id="node-decides-nothing",
        ),
        pytest.param(
            "toolkit.report.new", "from toolkit import verbs", "toolkit.verbs",
            id="report-does-nothing",
        ),
        pytest.param(
            "toolkit.evidence", "from toolkit.facts.lines import blocks", "toolkit.facts.lines",
            id="the-foundation-knows-nobody",
        ),
        pytest.param(
            "toolkit.plan.new", "def f():\n    from toolkit.demo import fleet", "toolkit.demo",
            id="late-imports-count",
        ),
        pytest.param(
            "toolkit.features.drift.new", "import toolkit.features.bios.run_look",
            "toolkit.features.bios.run_look", id="a-feature-knows-no-other",
        ),
        pytest.param(
            "toolkit.verbs.new", "import toolkit.features.drift.cli",
            "toolkit.features.drift.cli", id="verbs-know-no-feature",
        ),
        pytest.param("toolkit.facts.new", "import subprocess", "subprocess", id="facts-are-pure"),
        pytest.param("toolkit.plan.new", "from os import path", "os.path", id="plans-are-pure"),
        pytest.param(
            "toolkit.features.drift.plan.new", "import os", "os", id="plans-of-features-are-pure"
        ),
    ],
)  # fmt: skip
def test_a_forbidden_import_is_refused(importer: str, line: str, refused: str) -> None:
    wrong = refusals(importer, f"import re\n{line}\n", KNOWN)
    assert len(wrong) == 1
    assert refused in wrong[0]


def test_a_relative_import_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"toolkit\.facts\.new: relative import"):
        refusals("toolkit.facts.new", "from .node import Node\n", KNOWN)


def _copy(tmp_path: Path) -> Path:
    return shutil.copytree(PACKAGE, tmp_path / "toolkit", ignore=shutil.ignore_patterns("*.pyc"))


def test_one_bad_line_in_the_tree_is_found(tmp_path: Path) -> None:
    package = _copy(tmp_path)
    module = package / "facts/modules/dkms.py"
    module.write_text(module.read_text() + "from toolkit.ssh.transport import Result\n")
    known = modules(package)
    wrong = [
        line for name, path in known.items() for line in refusals(name, path.read_text(), known)
    ]
    assert "toolkit.facts.modules.dkms may not import toolkit.ssh.transport" in wrong


def test_a_circle_in_the_tree_is_found(tmp_path: Path) -> None:
    package = _copy(tmp_path)
    module = package / "facts" / "lines.py"
    module.write_text(module.read_text() + "import toolkit.facts.modules.dkms\n")
    ring = circle(package)
    assert ring[0] == ring[-1]
    assert set(ring) == {"toolkit.facts.modules.dkms", "toolkit.facts.lines"}
