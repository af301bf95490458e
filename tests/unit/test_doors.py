"""Our verbs in a collection of one's own, and beside another package ``toolkit``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dev.run import ROOT
from gdr_toolkit import pytest_plugin
from toolkit.errors import ExitCode

TASKS = """\
import gc, signal
from invoke import Collection, task
from gdr_toolkit import verbs

@task
def hello(c):
    print("hello")

@task
def held(c):
    print(gc.isenabled())
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        print("let go of")

ns = Collection(hello, held)
ns.add_collection(verbs(), name="gdr")
"""
PROGRAM = """\
import sys
from gdr_toolkit import main

sys.argv = ["gdr", "--version"]
try:
    main()
finally:
    print("goes on")
"""
ONE_LINE = "from gdr_toolkit import namespace\n"
HOSTS = "doctor has no option --host|did you mean --hosts? "
VERB = "docter is no verb|did you mean doctor?"
TESTS = "def test_one(): assert True\n"
PLUGIN = ("pytest", "-q", "-p", "gdr_toolkit.pytest_plugin", "-p", "no:cacheprovider")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``python -m`` these words in the folder, which goes first on the path."""
    environ = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "XDG_STATE_HOME": "state"}
    command = (sys.executable, "-m", *words)
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder with a package of that name, a test, and tasks that want our verbs."""
    for name, text in {"toolkit/__init__.py": "OURS = True\n", "tasks.py": TASKS}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "test_it.py").write_text(f"import toolkit\nassert toolkit.OURS\n{TESTS}")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("gdr_toolkit", "--list"), id="gdr"),
        pytest.param(("invoke", "--list"), id="invoke"),
        pytest.param((*PLUGIN, "--pyargs", "toolkit.suites"), id="pytest-suites"),
        pytest.param((*PLUGIN, "test_gdr.py"), id="pytest-gdr"),
    ],
)
def test_another_toolkit_that_comes_first_is_told_in_one_sentence(
    words: tuple[str, ...], foreign: Path
) -> None:
    (foreign / "test_gdr.py").write_text("def test_one(gdr): pass\n")
    done = run(foreign, *words)
    told = done.stdout + done.stderr
    said = "another package that is called toolkit comes before that of gdr-toolkit: "
    assert f"{said}{foreign}/toolkit\n next: call it from another folder, " in told, told
    assert "Traceback" not in told
    assert done.returncode == (4 if words[0] == "pytest" else ExitCode.USAGE)


def test_who_asks_for_nothing_of_ours_has_his_own_toolkit_tested(foreign: Path) -> None:
    done = run(foreign, *PLUGIN, "-W", "error", "test_it.py")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_program_that_calls_main_goes_on_after_it(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PROGRAM)
    assert run(tmp_path, "own").stdout.endswith("\ngoes on\n")


def test_who_imports_us_before_pytest_is_not_warned(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "early.py").write_text(
        "import sys, toolkit.cli, gdr_toolkit, pytest\n"
        "def pytest_load_initial_conftests(early_config):\n"
        "    early_config.pluginmanager.rewrite_hook.mark_rewrite('toolkit', 'gdr_toolkit')\n"
        "words = ['-q', '-W', 'error', '-p', 'gdr_toolkit.pytest_plugin', 'test_it.py']\n"
        "sys.exit(pytest.main(words, plugins=[sys.modules[__name__]]))\n"
    )
    done = run(tmp_path, "early")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_no_option_of_the_plugin_takes_the_name_of_anothers() -> None:
    parser = pytest.Parser(_ispytest=True)
    pytest_plugin.pytest_addoption(parser)
    names = {name for group in parser._groups for each in group.options for name in each.names()}
    assert {name[: len("--gdr-")] for name in names} == {"--gdr-"}


def test_ctrl_c_in_anothers_task_is_as_without_us(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "called.py").write_text(
        "import sys; sys.argv[0] = 'invoke'; from invoke.main import program; program.run()"
    )
    done = run(tmp_path, "called", "held")
    assert (done.returncode, done.stdout, done.stderr) == (1, "True\nlet go of\n", "")


def test_the_verbs_are_a_namespace_in_a_collection_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    done = run(tmp_path, "invoke", "hello", "gdr.doctor", "--hosts", "demo-iommu")
    assert done.stdout.startswith("hello\n"), done.stderr
    assert done.returncode == ExitCode.FAILED
    assert "invoke gdr.plan --hosts demo-iommu shows" in done.stderr
    told = run(tmp_path, "invoke", "gdr.explain", "--help").stdout
    assert "gdr.explain" in told


@pytest.mark.parametrize(
    ("tasks", "words", "said"),
    [
        pytest.param(ONE_LINE, "doctor --host a", HOSTS, id="option"),
        pytest.param(ONE_LINE, "docter", VERB, id="verb"),
        pytest.param(ONE_LINE, "--help docter", VERB, id="help"),
        pytest.param(TASKS, "gdr.doctor --host a", f"gdr.{HOSTS}", id="beside-others"),
    ],
)
def test_a_mistyped_line_of_plain_invoke_ends_as_ours_do(
    tasks: str, words: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "tasks.py").write_text(tasks)
    done = run(tmp_path, "invoke", *words.split())
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    error, _, meant = said.partition("|")
    assert done.stderr.startswith(f"error: {error}\n next: {meant}"), done.stderr


@pytest.mark.parametrize("words", ["hello --hosts a", "helo", "--help helo"])
def test_a_mistyped_line_of_others_is_invokes_own(words: str, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    done = run(tmp_path, "invoke", *words.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"No idea what '.*' is!\n", done.stderr)
