"""Every block of our pages, and every example in a verb's help, is what it says that it is.

A command of ours has verbs and options that there are, and sets of hosts, profiles, checks and
terms that can be read; a file of ours is there; what has a format is read by its reader.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
import yaml
from invoke.exceptions import ParseError
from invoke.parser import Parser
from invoke.parser.context import ParserContext
from invoke.program import Program

import tasks
from dev import tiers
from dev.lab import pcitree
from dev.run import ROOT, scripts
from tests.unit.blocks import Block, blocks, commands, examples, prose, script
from toolkit import cli
from toolkit.checks.all import BY_ID
from toolkit.cli.options import TAKEN, unbared
from toolkit.errors import ToolkitError
from toolkit.evidence import Evidence
from toolkit.facts.kinds import named
from toolkit.features.predict.plan.what_if import parse_wishes
from toolkit.hosts.host import Host, Inventory, select
from toolkit.redfish.access import read_map
from toolkit.rollout.plan.batches import batches
from toolkit.rollout.plan.window import parse_window
from toolkit.verbs.access import TRANSPORTS, VIA
from toolkit.want import Want

PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
# A checkout has the tests and the lab as well; who installed has the verbs alone.
PROGRAMS = {"./invokew": tasks.namespace, "invoke": tasks.namespace, "gdr": cli.namespace}
# What else our pages call. Of these the shell's syntax is tried, and the files of ours they name.
OTHERS = (
    *("ansible-playbook", "kubectl", "vagrant", "packer", "mkosi", "git", "apt-get", "pip"),
    *(
        "python",
        ".venv/bin/python",
        "pytest",
        "ssh-keygen",
        "ssh",
        "cd",
        "chmod",
        "find",
        "nvidia-smi",
        "...",
    ),
)
# Of each verb, and of Invoke itself.
OPTIONS = {
    verb: {f"--{name.strip('_').replace('_', '-')}" for each in arguments for name in each.names}
    for verb, arguments in {
        **{name: tasks.namespace[name].get_arguments() for name in tasks.namespace.task_names},
        "invoke": Program(namespace=tasks.namespace).core_args(),
    }.items()
}
OPTIONS_OF_OTHERS = {
    *("--gdr-profile", "--gdr-site", "--gdr-inventory", "--gdr-transport", "--gdr-no-become"),
    *("--tail", "--prefix", "--timestamps", "--follow", "--server-side"),  # kubectl's
    # of tests.builds.matrix, tests.mutants and tests.bench.judge
    *("--whole", "--room", "--after", "--unlike", "--live"),
    *("--connection", "--ssh-identity-file", "--ansible-inventory"),  # testinfra's
    "--collector",  # node_exporter's
}
NAMES = [f"gpu{number:03}" for number in range(1, 129)]


def _readable(text: str) -> object:
    """Each group that is named is one, and every Vagrant machine runs."""
    groups = dict.fromkeys(re.findall(r"(?:^|[,!&^])@([^,!&^]+)", text), tuple(NAMES))
    return "vagrant://" in text or select(text, Inventory({n: Host(n) for n in NAMES}, groups))


def _imported(text: str) -> None:
    """KIND=FILE,KIND=FILE or the name of something that was saved."""
    for kind in re.findall(r"(?:^|,)(\w[\w-]*)=", text):
        named(kind)


# What reads the values of options; it raises ToolkitError, and so the page is wrong.
VALUES: dict[str, Callable[[str], object]] = {
    **dict.fromkeys(("hosts", "exclude", "limit"), _readable),
    **dict.fromkeys(("from", "import"), _imported),
    "profile": Want.load,
    "transport": {name: name for name in TRANSPORTS}.__getitem__,
    "via": {name: name for name in VIA}.__getitem__,
    "check": lambda text: BY_ID[text],
    "serial": lambda text: batches(NAMES, text),
    "tier": lambda text: tiers.choose(tiers.table(scripts()), text),
    "what-if": parse_wishes,
    "window": lambda text: parse_window(text, datetime(2026, 11, 23, tzinfo=UTC)),
}


@cache
def _contexts(program: str) -> tuple[ParserContext, list[ParserContext]]:
    space = PROGRAMS[program]
    return Program(namespace=space).initial_context, space.to_contexts()


def _parser(program: str, words: tuple[str, ...]) -> Parser:
    """Of the verbs that are named: a parser copies all of its own for each line."""
    initial, contexts = _contexts(program)
    named = [each for each in contexts if {each.name, *each.aliases} & {*words}]
    return Parser(named, initial=initial)


def refusal(words: tuple[str, ...]) -> str:
    """Why one of our commands cannot be what is meant; "" where it can."""
    names = PROGRAMS[words[0]].task_names
    taken = {name: TAKEN.get(name.rpartition(".")[2], ()) for name in names}
    try:
        found = _parser(words[0], words).parse_argv(unbared(words[1:], taken))
    except ParseError as why:
        return str(why)
    for verb in found[1:]:
        for name, each in verb.args.items():
            text = each.value if each.got_value else None  # True, where it is a flag
            if name in VALUES and isinstance(text, str) and not _is_place(text):
                try:
                    VALUES[name](text)
                except (ToolkitError, KeyError) as why:
                    return f"--{name} {text}: {why}"
    return "" if found[1:] or any(each.got_value for each in found[0].args.values()) else "no verb"


def _is_place(word: str) -> bool:
    """NODE, CHECK: whoever reads puts something of his own there."""
    return bool(re.fullmatch(r"[A-Z]+(\.\.\.)?|\.\.\.", word))


def mistakes(block: Block) -> Iterator[str]:
    """What is wrong with the commands of a block."""
    text = script(block)
    syntax = subprocess.run(
        ("sh", "-n"), input=text, capture_output=True, text=True, check=False, timeout=60
    )
    if syntax.returncode:
        yield f"{block.where}: {syntax.stderr}"
        return
    for words in commands(text):
        why = refusal(words) if words[0] in PROGRAMS else _elsewhere(words)
        if why:
            yield f"{block.where}: {' '.join(words)}: {why}"


# What a recipe of that page makes before its commands are typed; a test does it.
MADE = set(
    re.findall(r"^`(.+)`, new:$", (ROOT / "docs/contributing.md").read_text(), flags=re.MULTILINE)
)


def _elsewhere(words: tuple[str, ...]) -> str:
    """Why a command that is not ours cannot be right, as far as we have a part in it."""
    program, *given = words
    if program not in OTHERS:
        return "no command that the test knows: what one only sees is fenced, as text or its kind"
    if program == "ansible-playbook":
        plays = " ".join(file.read_text() for file in ROOT.glob("playbooks/**/*.yml"))
        unknown = {word.partition("=")[0] for word in given if re.match(r"[a-z]+=", word)}
        if gone := sorted(each for each in unknown if each not in re.findall(r"\w+", plays)):
            return f"no play has the variable {gone[0]}"
    if program.endswith("python") and "-m" in given:
        module = given[given.index("-m") + 1]
        if not importlib.util.find_spec(module):
            return f"there is no module {module}"
    named_here = [word.removeprefix("site/") for word in given]
    for word in named_here:
        ours = re.match(r"(docs|playbooks|templates|vagrant|toolkit|dev|tests)/", word)
        if ours and not (ROOT / word).exists() and word not in MADE:
            return f"there is no {word}"
    return ""


def _site(block: Block, tmp_path: Path) -> None:
    tomllib.loads(block.text)
    file = tmp_path / "site.toml"
    file.write_text(block.text)
    Want.load("peermem", site=file)


def _map(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "bmcs"
    file.write_text(block.text.replace("AB:CD:...", ":".join(["AB"] * 32)))
    read_map(file)


def _evidence(block: Block, _: Path) -> None:
    assert Evidence.parse(block.text).frames


# By the word of a fence. Commands in these kinds are looked for besides.
READERS: dict[str, Callable[[Block, Path], object]] = {
    "sh": lambda *_: None,
    "text": lambda *_: None,
    "crontab": lambda *_: None,
    "toml": _site,
    "yaml": lambda block, _: yaml.safe_load(block.text),
    "python": lambda block, _: compile(block.text, block.where, "exec"),
    "evidence": _evidence,
    "bmc-map": _map,
    "pcitree": lambda block, _: pcitree.build(block.text),
}


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        pytest.param("sh", "./invokew doctr --hosts gpu1", "doctr", id="verb"),
        pytest.param("sh", "./invokew doctor --host gpu1", "--host", id="option"),
        pytest.param("sh", "./invokew doctor --hosts", "needed value", id="no-value"),
        pytest.param("sh", "./invokew explain", "required positional", id="no-argument"),
        pytest.param("sh", "./invokew", "no verb", id="no-verb"),
        pytest.param("sh", "gdr test", "test", id="a-verb-of-the-checkout"),
        pytest.param("sh", "gdr doctor --hosts gpu[1-", "bracket", id="set"),
        pytest.param("sh", "gdr doctor --hosts 'a,,b'", "nothing stands", id="empty-term"),
        pytest.param("sh", "gdr plan --profile pearmem", "pearmem", id="profile"),
        pytest.param("sh", "gdr explain peermem.stubb", "peermem.stubb", id="check"),
        pytest.param("sh", "gdr provision --serial 1,x%", "x%", id="serial"),
        pytest.param("sh", "gdr provision --window 'Son 22:00-04:00'", "Son", id="window"),
        pytest.param("sh", "gdr predict --what-if acs=of", "acs=of", id="what-if"),
        pytest.param("sh", "gdr doctor --from toppo=x.txt", "toppo", id="kind-of-file"),
        pytest.param("sh", "./invokew test --tier unitt", "unitt", id="tier"),
        pytest.param("sh", "cd site && gdr doctr | find", "doctr", id="behind-another"),
        pytest.param("sh", "X=1 sudo gdr doctr > x", "doctr", id="behind-sudo"),
        pytest.param("sh", "gdr doctor \\\n    --host x", "--host", id="in-the-second-line"),
        pytest.param("sh", "gdr doctor --hosts 'x", "nterminated", id="quote"),
        pytest.param("sh", "gpu007  refused", "no command", id="not-typed"),
        pytest.param("sh", "python -m tests.bench.prob", "no module", id="module"),
        pytest.param("sh", "packer validate docs/x.hcl", "there is no", id="file"),
        pytest.param("sh", "ansible-playbook -e batchs=1", "batchs", id="variable-of-plays"),
        pytest.param("text", "x\n$ gdr doctr\ny", "doctr", id="transcript"),
        pytest.param("yaml", "a: {script: [gdr doctr]}", "doctr", id="pipeline"),
        pytest.param("crontab", "17 * * * * ops gdr doctr -q", "doctr", id="cron"),
    ],
)
def test_a_mistake_in_a_command_is_seen(kind: str, text: str, why: str) -> None:
    [found] = mistakes(Block("page.md", 7, kind, f"{text}\n"))
    assert found.startswith("page.md:7: ")
    assert why in found


@pytest.mark.parametrize(
    ("page", "kinds"),
    [
        pytest.param("a\n\n    b\n\n    c\n\nd\n", ["sh"], id="indented"),
        pytest.param("a\n    b\n", [], id="a-long-sentence"),
        pytest.param("```toml\n    b\n```\n```\nc\n```\n", ["toml", ""], id="fenced"),
        pytest.param("    a\n\n```sh\nb\n```\n", ["sh", "sh"], id="one-behind-the-other"),
    ],
)
def test_blocks_of_a_page(page: str, kinds: list[str]) -> None:
    assert [each.kind for each in blocks("page.md", page)] == kinds


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_is_what_it_says(page: Path, tmp_path: Path) -> None:
    for block in blocks(page.name, page.read_text()):
        assert block.kind in READERS, f"{block.where}: say what it is: ```text, ```sh, ```toml"
        READERS[block.kind](block, tmp_path)
        assert list(mistakes(block)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_in_a_sentence_is_one(page: Path) -> None:
    """`gdr doctor --hosts x` with its values, `doctor --next-boot` by its options alone."""
    for quoted in re.findall(r"`([^`]+)`", prose(page.read_text())):
        words = quoted.split()
        if words[:1] and words[0] in PROGRAMS and words[1:] and not _is_place(words[1]):
            assert refusal(tuple(shlex.split(quoted))) == "", quoted
        elif words[:1] and words[0] in OPTIONS:
            options = {word for word in words if re.match(r"--[a-z]", word)}
            assert options <= OPTIONS[words[0]], quoted


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_in_a_sentence_is_one(page: Path) -> None:
    ours = set().union(*OPTIONS.values())
    told = re.findall(r"`(--[a-z][\w-]*)[^`]*`", prose(page.read_text()))
    gone = {each for each in told if each.replace("--no-", "--") not in ours}
    assert gone <= OPTIONS_OF_OTHERS


def test_no_page_installs_by_a_name_that_is_not_ours_on_any_index() -> None:
    """Who took it there would be root on whole fleets."""
    files = [*PAGES, *ROOT.glob("docs/*/**/*"), *ROOT.glob("toolkit/**/*.py")]
    texts = {each: each.read_text(errors="replace") for each in files if each.is_file()}
    named = re.compile(r"(?:pip|uv) \w*\s?install\b[^\n`]*[ '\"]gdr[-_]toolkit(?!\S*\.whl)")
    assert [str(each) for each, text in texts.items() if named.search(text)] == []


HELPS = {name: tasks.namespace[name].__doc__ or "" for name in tasks.namespace.task_names}


@pytest.mark.parametrize("verb", HELPS)
def test_every_example_in_the_help_of_a_verb_is_one(verb: str) -> None:
    block = examples(verb, HELPS[verb])
    assert list(mistakes(block)) == []
    names = {verb, *tasks.namespace.task_names[verb]}  # what a folder of verbs does by itself
    shown = [words[1] for words in commands(script(block)) if words[0] in PROGRAMS]
    assert names & set(shown) or verb not in cli.namespace.task_names


def test_sets_of_hosts_that_the_guide_explains_are_sets() -> None:
    table = re.search(
        r"\| written \| means \|\n(.*?)\n\n", (ROOT / "docs/guide.md").read_text(), re.S
    )
    assert table is not None
    rows = table[1].splitlines()[1:]
    sets = re.findall(r"`([^`]+)`", " ".join(row.split(" | ")[0] for row in rows))
    assert len(sets) > len(rows)
    for each in sets:
        assert _readable(each.removeprefix("-x ")), each
