"""Reading ssh_config files: which lines count for a host, by the rules of ssh_config(5).

Paramiko has a reader too. It lacks Include, takes a Match criterion that it does not know
for one that holds, and compares ``Match host`` with a HostName not yet expanded; any of
the three leads to the wrong node, user or key without a word.
"""

from __future__ import annotations

import glob
import os
import re
import subprocess
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from toolkit.errors import UsageError
from toolkit.package_data import from_home, user_name
from toolkit.ssh.ssh_config_tokens import COMMANDS, listed, problem, split_words

_HOST = re.compile(r"^[ \t]*host[ \t]+[^=\s][^=\n]*$", re.MULTILINE | re.IGNORECASE)
_SETTING = re.compile(r"\s*([^\s=]*)(?:\s*=\s*|\s+|$)(.*)")
_MANY = ("identityfile", "certificatefile")  # each further value is tried, too
_ALONE = ("all", "canonical", "final")
_WITH_PATTERNS = ("host", "originalhost", "user", "localuser")
_DEEPEST = 16  # files that include files, as in ssh
_EXEC_S = 10.0  # Match exec


class Block(Struct, frozen=True):
    """A Host or Match line; its settings count where it holds, and the one around it."""

    words: tuple[str, ...]  # ("host", "gpu*", "!gpu9")
    where: str
    around: Block | None


class ConfigLine(Struct, frozen=True):
    """One line: keyword in lower case, its words; a command is one word, as written."""

    key: str
    words: tuple[str, ...]
    block: Block | None
    where: str = ""  # "FILE:LINE"; "" for what a host has of its own


class HostConfig(Struct):
    """What counts for one host. Mutable while it is looked up: the first value stays."""

    alias: str  # as the operator typed it
    values: dict[str, list[str]] = field(default_factory=dict)
    where: dict[str, str] = field(default_factory=dict)  # of each keyword, "FILE:LINE"

    def text(self, key: str, default: str = "") -> str:
        """A keyword's first word; a keyword that was not set is ``default``."""
        words = self.values.get(key)
        return words[0] if words else default

    def seconds(self, key: str) -> int:
        """A time as sshd_config(5) writes it, "1m30"; 0 for none."""
        units = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
        parts = re.findall(r"([0-9]{1,9})([smhdw]?)", self.text(key).lower())
        return sum(int(count) * units[unit] for count, unit in parts)

    @property
    def user(self) -> str:
        return self.text("user") or user_name()

    @property
    def address(self) -> str:
        text = self.text("hostname", self.alias)
        return re.sub("%(.)", lambda found: {"h": self.alias}.get(found[1], found[1]), text)

    def expand(self, text: str) -> str:
        """Replace %-tokens, ${VARIABLES} and a leading ~ (ssh_config(5), TOKENS)."""
        tokens = {"d": str(from_home("~")), "u": user_name(), "%": "%", "n": self.alias}
        tokens |= {"h": self.address, "p": self.text("port", "22"), "r": self.user}
        tokens["k"] = self.text("hostkeyalias", self.address)
        text = re.sub("%(.)", lambda found: tokens.get(found[1], found[0]), text)
        text = re.sub(r"\$\{(\w+)\}", lambda found: os.environ.get(found[1], ""), text)
        return str(from_home(text)) if text.startswith("~") else text


def read_settings(
    file: Path,
    block: Block | None = None,
    depth: int = 0,
    ignored: list[str] | None = None,
    blocks: list[Block] | None = None,
) -> Iterator[ConfigLine]:
    """The settings of a file and of those it includes; a file that is not there has none.

    :param ignored: patterns of IgnoreUnknown that stood above.
    :param blocks: is given each Host and Match line, whether or not a setting stands below it.
    :raises UsageError: it cannot be read, includes too deeply, or has a Match that is not
        evaluated here.
    """
    if depth > _DEEPEST:
        raise UsageError(f"{file}: included too deeply, or in a circle", hint="mend the file")
    try:
        text = file.read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return
    except OSError as why:
        raise UsageError(
            f"{file}: cannot be read: {why.strerror}",
            hint="name a file that can be read: --ssh-config FILE",
        ) from why
    outer = block
    ignored = ignored if ignored is not None else []
    for number, line in enumerate(text.split("\n"), start=1):
        key, words = _taken(line, f"{file}:{number}", ignored)
        if key in ("host", "match"):
            block = Block((key, *words), f"{file}:{number}", outer)
            _check(block)
            if blocks is not None:
                blocks.append(block)
        elif key == "include":
            for path in _included(file, words):
                yield from read_settings(path, block, depth + 1, ignored, blocks)
        elif key:
            yield ConfigLine(key, words, block, f"{file}:{number}")


def is_ssh_config(text: str) -> bool:
    """Whether this is an ssh_config: a Host line in it names hosts, and it has no [section]."""
    return _HOST.search(text) is not None and re.search(r"^[ \t]*\[", text, re.MULTILINE) is None


def host_names(file: Path) -> list[str]:
    """The names that stand in Host lines, each once; what is a pattern names nobody.

    :raises UsageError: as ``read_settings``.
    """
    blocks: list[Block] = []
    deque(read_settings(file, blocks=blocks), maxlen=0)
    words = (word for block in blocks if block.words[0] == "host" for word in block.words[1:])
    return [name for name in dict.fromkeys(words) if not re.search(r"[*?!]", name)]


def _taken(line: str, where: str, ignored: list[str]) -> tuple[str, tuple[str, ...]]:
    try:
        key, words = parse_setting(line, ",".join(ignored))
    except ValueError as why:
        raise UsageError(
            f"{where}: {why}", hint="ssh refuses it as well; see: ssh -G, with the same file"
        ) from why
    if key == "ignoreunknown":
        ignored += words
    return key, words


def parse_setting(line: str, ignored: str = "") -> tuple[str, tuple[str, ...]]:
    """Keyword and words of one line, without quotes and comments; ("", ()) for nothing.

    :param ignored: patterns of keywords that need not be known.
    :raises ValueError: ssh takes no such line.
    """
    found = _SETTING.fullmatch(line.rstrip())
    if found is None or not line.strip() or line.lstrip().startswith("#"):
        return "", ()
    key, value = found[1].strip('"').lower(), found[2]
    words = split_words(value)
    if why := problem(key, words, ignored):
        raise ValueError(why)
    return key, (value,) if key in COMMANDS else words or ()


def look_up(settings: tuple[ConfigLine, ...], own: list[ConfigLine], alias: str) -> HostConfig:
    """What counts for ``alias``: ``own`` settings first, then the first that holds.

    :raises UsageError: Match exec does not end; CanonicalizeHostname is asked for.
    """
    found = HostConfig(alias)
    for setting in own:
        _take(found, setting)
    _pass(found, settings, final=False)
    if any("final" in _words(setting.block) for setting in settings):
        _pass(found, settings, final=True)
    if found.text("canonicalizehostname", "no").lower() in ("yes", "always"):
        raise UsageError(
            f"{alias}: CanonicalizeHostname is not done here",
            hint="the OpenSSH client does: --transport openssh",
        )
    return found


def _pass(found: HostConfig, settings: tuple[ConfigLine, ...], *, final: bool) -> None:
    known: dict[Block, bool] = {}  # a Match is evaluated where it stands, once

    def holds(block: Block | None) -> bool:
        if block is None:
            return True
        if block not in known:
            known[block] = holds(block.around) and _holds(block, found, final)
        return known[block]

    for setting in settings:
        if holds(setting.block):
            _take(found, setting)


def _take(found: HostConfig, setting: ConfigLine) -> None:
    told = found.where.setdefault(setting.key, setting.where)
    if setting.key in _MANY:
        values = found.values.setdefault(setting.key, [])
        values += [word for word in setting.words if word not in values]
        if setting.where not in told:
            found.where[setting.key] = ", ".join(filter(None, (told, setting.where)))
    else:
        found.values.setdefault(setting.key, list(setting.words))


def _holds(block: Block, found: HostConfig, final: bool) -> bool:
    kind, *words = block.words
    if kind == "host":
        return listed(words, found.alias)
    every = True
    for criterion, argument in _criteria(words):
        plain = criterion.removeprefix("!")
        met = {"all": True, "canonical": False, "final": final}.get(plain)
        if plain == "exec":
            met = every and _runs(found.expand(argument), block)
        elif met is None:
            text = {"host": found.address, "originalhost": found.alias, "user": found.user}
            met = listed(argument.split(","), text.get(plain, user_name()))
        every = every and met != criterion.startswith("!")
    return every


def _criteria(words: list[str]) -> Iterator[tuple[str, str]]:
    """The (criterion, argument) pairs of a Match line; "host=x" counts as "host x"."""
    rest = list(words)
    while rest:
        criterion, equals, argument = rest.pop(0).partition("=")
        criterion = criterion.lower()
        if not equals and criterion.removeprefix("!") not in _ALONE:
            argument = rest.pop(0) if rest else ""
        yield criterion, argument


def _check(block: Block) -> None:
    """Refuse a criterion that would be taken for another than it is."""
    for criterion, _ in _criteria(list(block.words[1:])) if block.words[0] == "match" else ():
        if criterion.removeprefix("!") not in (*_ALONE, *_WITH_PATTERNS, "exec"):
            raise UsageError(
                f"{block.where}: Match {criterion!r} is not evaluated here",
                hint="the OpenSSH client does: --transport openssh",
            )


def _words(block: Block | None) -> tuple[str, ...]:
    return () if block is None else (*block.words, *_words(block.around))


def _runs(command: str, block: Block) -> bool:
    try:
        return (
            subprocess.run(
                ["sh", "-c", command],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_EXEC_S,
                check=False,
            ).returncode
            == 0
        )
    except subprocess.TimeoutExpired as why:
        raise UsageError(
            f"{block.where}: Match exec has not ended after {_EXEC_S:g} s", hint="mend the command"
        ) from why


def _included(file: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    base = Path("/etc/ssh") if file.is_relative_to("/etc/ssh") else from_home("~/.ssh")
    for pattern in patterns:
        whole = str(base / from_home(pattern))
        yield from map(Path, sorted(glob.glob(whole)))  # noqa: PTH207 Path.glob wants relative ones
