"""Code metrics: how easy the product is to move in, beside its budget.

``python -m dev.house`` measures the working tree, ``--at COMMIT`` another commit beside it, and
``--json`` lists what each row counted. What is counted are sources, by path; only ``main`` and
what it calls last read files and start programs.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from dev.run import ROOT
from toolkit.report.table import columns

Sources = Mapping[str, str]  # text of each Python file, by its path below the root
Function = ast.FunctionDef | ast.AsyncFunctionDef

FILE_LINES, FUNCTION_LINES, CRUMB_LINES = 400, 40, 80
# A feature is known by these words in a module's name.
FEATURES = {
    "build": "build builds building rebuild rebuilding",
    "bios": "bios",
    "image": "image imaging media",
    "rollout": "rollout rolling roll journal ledger claims budget budgeting window hooks",
    "exercise": "exercise exercising",
    "predict": "predict predicting forecast forecasting",
    "topology": "topology",
    "page": "fleet page",
    "kubernetes": "kubernetes kubectl",
    "slurm": "slurm",
    "reload": "reload reloading",
    "drift": "drift drifting",
    "passport": "passport passporting",
    "compare": "compare comparing",
    "enrol": "enrol enrolling enrolment",
    "ansible": "ansible playbook",
}
GLOSSARY = Path("docs/glossary.md")
# Words of the field, for a tree that has no glossary; a plural is known by its singular.
_FIELD = """
accelerator access acpi acs act address aer all ansible apply archive argument artefact artifact
ats audit
backend bar batch become bios bmc boot budget build bundle bus
cache cap capture catalogue certificate chain change check choice chroot cli client cluster
cmdline code collect collective command compare comparison compat compiler config conftest
connect connection consumer container control core counter cpu create credential ctrf
daemon dask data deb decide deliver delivery demo dependency device diff disk distro dkms doctor
document domain drift driver dummy dump
elf enrol enrolment env environment error estimate ethtool event evidence executor exercise exit
expect explain
fabric fact failure fan field file filter finding firmware fix fleet folder forecast form format
frame fsync function
gate gdr gdrcopy gds gdsio gpu graph grid group grub
hca header health heat history hook host html http
ibstat identity image index info ini initramfs input interrupt inventory iommu issue item
job join journal json judge junit
kernel key kube kubectl kubernetes kvm
latency library limit line link list listing load loader loading local lock log login lspci
machine main make manifest map matrix member memory metric mkosi mlxconfig mlxlink model module
mok mount mpi
namespace nccl network next node numa nvidia nvlink
ofed offline openssh openssl option order outcome outlier output owner
package packaging page pair paramiko parser part partition passport patch path pci pcie peermem
pending perf perftest picture pipeline plan platform playbook plural pod pool port power predict
preflight probe process profile progress prometheus proof property protected provision python
qemu query
rail rdma read reader reboot rebuild rebuilding recipe redfish refusal register registry release
reload render replay report reset resource result roce role rollback rollout root row rpm rule
run runtime
safe sandbox sarif sbom schema script scrub secret secureboot security server service session
setting setup shell signature signer signing slurm smi snapshot socket software solver space
srun ssh stack stale start state status storage store stream suite sum switch symbol symvers
sysfs system
table tar tarball target task template test text threshold throughput time tls token toml tool
topo topology total transport tree trial trust
ucx undo unit untrusted unused usable user
vagrant value verb verdict verified verify version view virt
want watch window
xid xml
yaml
"""
FIELD = frozenset(_FIELD.split())
STARTS = {  # the most modules of ours, packages too: tests/unit/test_start.py holds them
    "--help": 10,
    "explain iommu.passthrough": 150,
    "doctor --from tests/evidence/acs.txt --quiet": 260,
    "runs": 165,
}
# Run in the tree that is measured, for that knows its verbs and what it imports.
MEASURE_OPTIONS = """
import json
from toolkit.cli import namespace
names = namespace.task_names
print(json.dumps({name: len(namespace[name].get_arguments()) for name in names}))
"""
MEASURE_START = """
import sys
from toolkit.cli import main
sys.argv = ["gdr", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
print(sum(name.partition(".")[0] == "toolkit" for name in sys.modules), len(sys.modules))
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One measure of the house."""

    name: str
    value: int
    budget: int | None = None  # the most that it may be; None where there is none
    what: tuple[str, ...] = ()  # what was counted, one entry each; the first is shown

    @property
    def met(self) -> bool | None:
        return None if self.budget is None else self.value <= self.budget


def rows(sources: Sources, glossary: Iterable[str] = FIELD) -> list[Row]:
    """Every measure that is taken from the text alone.

    :param sources: the product's Python files.
    :param glossary: the words that module names may be made of, in lower case.
    """
    trees = {path: ast.parse(text) for path, text in sources.items()}
    spans = [
        (f"{path}: {node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, Function)
    ]
    sizes = {path: text.count("\n") for path, text in sources.items()}
    private, once = private_functions(trees)
    return [
        Row("lines of Python", sum(sizes.values()), 70_000),
        Row("files of Python", len(sources), 430),
        *features(sources),
        _counted("files in one flat folder", folders(sources), 45),
        _listed("module names with a word of no glossary", unknown_names(sources, glossary)),
        _listed("class names in two files", class_names(trees), 25),
        _listed("module stems in two packages", stems(sources), 20),
        Row("private functions", private),
        Row("of these with one caller, %", round(100 * len(once) / max(private, 1)), 45, once),
        _listed("small modules with one importer", crumbs(trees, sizes)),
        _listed("functions over 40 lines", _over(spans, FUNCTION_LINES), 0),
        _listed("files over 400 lines", _over(sizes.items(), FILE_LINES), 0),
    ]


def _listed(name: str, what: tuple[str, ...], budget: int | None = None) -> Row:
    return Row(name, len(what), budget, what)


def _counted(name: str, counts: Mapping[str, int], budget: int) -> Row:
    """The largest of several counts."""
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    what = tuple(f"{each} {number}" for each, number in ranked if number > budget)
    return Row(name, max(counts.values(), default=0), budget, what)


def _over(sizes: Iterable[tuple[str, int]], most: int) -> tuple[str, ...]:
    return tuple(f"{name} {lines}" for name, lines in sizes if lines > most)


def name_words(path: str) -> list[str]:
    """The words of a module's name."""
    return [each for each in PurePosixPath(path).stem.lower().split("_") if each]


def _named(sources: Iterable[str]) -> list[str]:
    """The modules that have a name of their own."""
    return [path for path in sources if not PurePosixPath(path).stem.startswith("__")]


def _folder(path: str) -> str:
    return str(PurePosixPath(path).parent)


def _feature(path: str) -> str:
    """The feature whose folder holds a module; "" for what is in none."""
    parts = PurePosixPath(path).parts
    return parts[2] if parts[:2] == ("toolkit", "features") and len(parts) > 3 else ""


def _package(path: str) -> str:
    """The package that a reader goes to: all of a feature's folder is one."""
    return f"toolkit/features/{_feature(path)}" if _feature(path) else _folder(path)


def features(sources: Sources) -> list[Row]:
    """For each feature that has modules: the packages that hold one that is named for it."""
    found = []
    for feature, text in FEATURES.items():
        known = set(text.split())
        files = [path for path in _named(sources) if known & {*name_words(path), _feature(path)}]
        packages = Counter(_package(path) for path in files)
        if files:
            what = (f"{len(files)} files", *(f"{each} {n}" for each, n in packages.most_common()))
            found.append(Row(f"packages of {feature}", len(packages), 3, what))
    return found


def folders(sources: Sources) -> Counter[str]:
    """How many modules each folder holds."""
    return Counter(_folder(path) for path in sources)


def unknown_names(sources: Sources, glossary: Iterable[str]) -> tuple[str, ...]:
    """The modules whose name has a word that no glossary has, and that word."""
    known = set(glossary)
    known |= {f"{word}s" for word in known} | {f"{word}es" for word in known}
    known |= {f"{word.removesuffix('y')}ies" for word in known}
    known |= {word.removesuffix("s") for word in known}
    odd = {path: [word for word in name_words(path) if word not in known] for path in sources}
    return tuple(f"{path}: {' '.join(odd[path])}" for path in _named(sources) if odd[path])


def terms(glossary: str) -> frozenset[str]:
    """The words that a glossary explains: those of the first cell of each row of its tables."""
    cells = re.findall(r"^\|([^|]*)\|", glossary, flags=re.MULTILINE)
    return frozenset(re.findall(r"[a-z0-9]+", " ".join(cells).lower()))


def class_names(trees: Mapping[str, ast.Module]) -> tuple[str, ...]:
    """The public classes whose name stands in more than one file."""
    found = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path)
    return _repeated(found)


def stems(sources: Sources) -> tuple[str, ...]:
    """The module names that two or more packages have."""
    found = defaultdict(list)
    for path in _named(sources):
        found[PurePosixPath(path).stem].append(path)
    return _repeated(found)


def _repeated(found: Mapping[str, list[str]]) -> tuple[str, ...]:
    ranked = sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return tuple(f"{name}: {' '.join(paths)}" for name, paths in ranked if len(paths) > 1)


def private_functions(trees: Mapping[str, ast.Module]) -> tuple[int, tuple[str, ...]]:
    """How many private functions there are, and those that are used in exactly one place.

    A method is one, too. Each is looked for in its own module: it is private to that.
    """
    count, once = 0, []
    for path, tree in trees.items():
        used: Counter[str] = Counter()
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                used[node.id] += 1
            elif isinstance(node, ast.Attribute):
                used[node.attr] += 1
        private = [n for n in ast.walk(tree) if isinstance(n, Function) and _private(n.name)]
        count += len(private)
        once += [f"{path}:{n.lineno} {n.name}" for n in private if used[n.name] == 1]
    return count, tuple(once)


def _private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def crumbs(trees: Mapping[str, ast.Module], sizes: Mapping[str, int]) -> tuple[str, ...]:
    """The modules of at most 80 lines that a single other one imports, and that one."""
    modules = {path.removesuffix(".py").replace("/", "."): path for path in trees}
    importers = defaultdict(set)
    for path, tree in trees.items():
        for name in imported(tree):
            if name in modules and modules[name] != path:
                importers[modules[name]].add(path)
    return tuple(
        f"{path} {sizes[path]} <- {importer}"
        for path in _named(trees)
        if sizes[path] <= CRUMB_LINES and len(importers[path]) == 1
        for importer in importers[path]
    )


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module that one may name in its imports, wherever they stand."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def text(now: list[Row], before: Mapping[str, int] | None = None) -> str:
    """The table.

    :param before: values of another commit by the row's name, for a column of their own.
    """
    word = {True: "met", False: "OVER", None: ""}
    head = ("measure", *(("before",) if before is not None else ()), "now", "budget", "", "for one")
    table = [
        (
            row.name,
            *((str(before.get(row.name, "-")),) if before is not None else ()),
            str(row.value),
            "-" if row.budget is None else str(row.budget),
            word[row.met],
            row.what[0][:60] if row.what else "",
        )
        for row in now
    ]
    return "\n".join(columns([head, *table]))


def measured(root: Path) -> list[Row]:
    """Every measure of a tree."""
    paths = [*sorted(root.glob("toolkit/**/*.py")), root / "tasks.py"]
    sources = {path.relative_to(root).as_posix(): path.read_text() for path in paths}
    page = root / GLOSSARY
    known = terms(page.read_text()) | FIELD if page.exists() else FIELD
    return [*rows(sources, known), *started(root)]


def started(root: Path) -> Iterator[Row]:
    """The measures that a tree has to be run for, by this Python."""
    options: dict[str, int] = json.loads(_run(root, MEASURE_OPTIONS)[-1])
    yield _counted("options of one verb", options, 40)
    for words, most in STARTS.items():
        ours, every = _run(root, MEASURE_START, *words.split())[-1].split()
        verb = " ".join(words.split()[:2]).replace("iommu.passthrough", "CHECK")
        yield Row(f"modules at {verb}", int(ours), most, (f"{every} with those of others",))


def _run(root: Path, code: str, *words: str) -> list[str]:
    """The lines that a piece of Python prints; its home is an empty folder."""
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=root,
            env={"HOME": home, "XDG_STATE_HOME": home},
            capture_output=True,
            text=True,
            check=False,
        )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        sys.exit(f"this tree could not be measured:\n{done.stderr}")
    return lines


def _values_at(commit: str) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "tree.tar")
        command = ("git", "archive", "--output", str(archive), commit)
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            sys.exit(f"git archive has no tree of {commit}")
        subprocess.run(("tar", "-xf", str(archive), "-C", folder), check=True)
        return {row.name: row.value for row in measured(Path(folder))}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m dev.house", description="code metrics")
    parser.add_argument("--json", action="store_true", help="with all that each row counted")
    parser.add_argument("--at", metavar="COMMIT", help="measure that commit, too")
    asked = parser.parse_args()
    before = _values_at(asked.at) if asked.at else None
    now = measured(ROOT)
    if asked.json:
        told = [asdict(row) | {"met": row.met} for row in now]
        print(json.dumps({"now": told, "before": before}, indent=1))
    else:
        print(text(now, before))


if __name__ == "__main__":
    main()
