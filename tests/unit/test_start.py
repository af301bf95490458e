"""What a start imports: a verb's code is imported when it is chosen, and no sooner."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dev.house import STARTS
from tests import invoked
from toolkit import __version__
from toolkit.checks.all import ALL
from toolkit.cli import table
from toolkit.errors import UsageError

ROOT = Path(__file__).parents[2]
HEAVY = "jinja2 sushy elftools rich paramiko toolkit.verbs.connect toolkit.checks.kernel.forecast"
HEAVY += " toolkit.verbs.workers multiprocessing unittest.mock asyncio ssl"
HEAVY += " importlib.metadata invoke.vendor.yaml yaml typing_extensions"
COUNTED = """
import sys
sys.argv = ["gdr", *sys.argv[1:]]
from toolkit.cli import main
code = 0
try:
    main()
except SystemExit as end:
    code = end.code
print(code or 0, *sys.modules.keys(), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("words", "most"),
    [
        *STARTS.items(),
        ("--version", STARTS["--help"]),
        ("--help doctor", STARTS["--help"]),
    ],
)
def test_a_start_imports_no_more_than_it_needs(words: str, most: int, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", COUNTED, *words.split()],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
        check=False,
    )
    code, *modules = ended.stderr.splitlines()[-1].split()
    assert code in {"0", "2"}, ended.stderr
    assert {*HEAVY.split()} & {*modules} == set()
    ours = [each for each in modules if each.partition(".")[0] == "toolkit"]
    assert len(ours) <= most, sorted(ours)


def test_ctrl_c_before_anything_is_open_ends_at_once_with_130() -> None:
    program = """
import os, signal, sys
sys.argv = ["gdr"]
from toolkit.cli import start
start.begin()
os.kill(os.getpid(), signal.SIGINT)
print("went on")
"""
    words = [sys.executable, "-c", program]
    ended = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")


ENDS = """
import atexit, sys, threading
from toolkit.cli import start

class Held:
    def __del__(self):
        print("taken apart", flush=True)

def main():
    atexit.register(print, "at exit")
    print("said", end=" ")
    {}
    sys.exit(3)

held = Held()
start.end_after(main)
"""
MONITORING = "type('', (), {'get_tool': [None, None, 'cProfile', *[None] * 3].__getitem__})"  # 3.12


@pytest.mark.parametrize(
    ("first", "left"),
    [
        ("pass", "said at exit\n"),
        ("threading.Timer(0.5, print, ('thread',)).start()", "said thread\nat exit\ntaken apart\n"),
        ("sys.setprofile(str().format)", "said at exit\ntaken apart\n"),
        (f"sys.monitoring = {MONITORING}", "said at exit\ntaken apart\n"),
    ],
)
def test_all_that_was_to_come_at_the_end_comes(first: str, left: str) -> None:
    words = [sys.executable, "-c", ENDS.format(first)]
    ended = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, left, "")


@pytest.mark.parametrize("name", ["gdr", "invoke"])
def test_the_version_is_our_own_whatever_calls_us(name: str) -> None:
    program = (
        f"import sys; sys.argv = [{name!r}, '--version']\nfrom toolkit.cli import main\nmain()"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert told.stdout.splitlines()[-1].startswith(f"gdr-toolkit {__version__}"), told


def test_settings_of_ones_own_hold_though_a_start_reads_no_yaml(tmp_path: Path) -> None:
    (tmp_path / ".invoke.yaml").write_text("run: {dry: true}")
    program = "import sys; sys.argv = ['gdr']; from toolkit.cli import Settings as its; "
    words = [sys.executable, "-c", f"{program}print(its().run.dry)"]
    home = {"HOME": str(tmp_path)}
    told = subprocess.run(words, capture_output=True, cwd=ROOT, env=home, check=True)
    assert told.stdout == b"True\n"


def test_nodes_are_asked_before_what_judges_them_is_imported_and_that_before_they_answer(
    tmp_path: Path,
) -> None:
    program = """
import os, sys
sys.argv = ["gdr", "doctor", "--hosts", "n1", "--quiet"]
from toolkit.cli import main
from toolkit.ssh import pool

def run_all(*_, meanwhile, **__):
    print(*sys.modules)
    meanwhile()
    print(*sys.modules)
    sys.stdout.flush()
    os._exit(0)

pool.run_all = run_all
main()
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
        check=True,
    )
    modules, meanwhile = ({*line.split()} for line in ended.stdout.splitlines())
    assert "toolkit.ssh.paramiko" in modules, ended.stdout
    late = {"toolkit.checks.judged", "toolkit.facts.node.node", "toolkit.report.document"}
    late |= {"toolkit.report.text", "elftools.elf.elffile", "paramiko", "cryptography"}
    needless = {"rich", "ssl", "yaml", "toolkit.features.slurm.run.nodes"}
    needless |= {"toolkit.redfish.access", "toolkit.ssh.openssh", "toolkit.hosts.inventory"}
    assert modules & (late | needless) == set()
    assert late - meanwhile == set()


@pytest.mark.parametrize("verb", ["doctor", "drift"])
def test_what_is_imported_only_where_it_is_asked_for_is_found_there(
    verb: str, tmp_path: Path
) -> None:
    file = tmp_path / "gdr.prom"
    words = (verb, "--from", "tests/evidence/acs.txt", "--textfile", str(file))
    command = (sys.executable, "-m", "toolkit.cli", *words)
    env = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    subprocess.run(command, capture_output=True, cwd=ROOT, env=env, check=False)
    assert f"gdr_{verb}_exit_code 2\n" in file.read_text()


def test_a_verb_that_a_test_forks_finds_the_code_of_all_verbs_imported() -> None:
    lacking = f"import sys; sys.exit(len({{*{invoked.MODULES}}} - {{*sys.modules}}))"
    child = invoked.FORKS.Process(target=exec, args=(lacking,))
    child.start()
    child.join()
    assert child.exitcode == 0


def test_a_damaged_table_of_verbs_is_made_anew_from_the_verbs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _shapes()
    for text in ("<<<<<<< ours\n{}\n", "[]", '{"checks": {}, "options": [], "verbs": {}}'):
        (damaged := tmp_path / "verbs.json").write_text(text)
        monkeypatch.setattr(table, "FILE", damaged)
        table.data.cache_clear()
        assert _shapes() == whole
    table.data.cache_clear()


def _shapes() -> list[tuple[str, str, list[str]]]:
    verbs = table.verbs()
    return [
        (name, task.__doc__ or "", [str(argument.name) for argument in task.get_arguments()])
        for name in verbs.task_names
        for task in [verbs[name]]
    ]


def test_an_explained_check_is_the_one_of_all_checks() -> None:
    assert [table.check(each.id) for each in ALL] == [*ALL]
    with pytest.raises(UsageError, match=r"no check 'peermem\.stubb'") as caught:
        table.check("peermem.stubb")
    assert "peermem.stub" in caught.value.hint
