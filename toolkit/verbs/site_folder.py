"""A site's folder, which --site or gdr.toml names: what holds at a site, in files of its own.

    site.toml         the site's file, as --site FILE has it
    profiles/*.toml   wanted states by name
    data/*.toml       rows of tables in toolkit/compat/data, by their names
    templates/...     in place of ours of the same name
    checks/*.py       checks beside ours
    playbooks/        tasks of Ansible's that provision.yml takes in: before.yml, after.yml

Templates and checks are run: no file of it is read where others than the user or root may write.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from toolkit.checks.check import Check
from toolkit.checks.own import checks_of
from toolkit.errors import UsageError
from toolkit.plan import templates
from toolkit.safe_file import others_may_write
from toolkit.untrusted import read_file, read_toml
from toolkit.want import Want, profiles

PARTS = ("site.toml", "profiles", "data", "templates", "checks", "playbooks")
HOOKS = ("before.yml", "after.yml")
_MADE_FROM = re.compile(r"\A\{#-? made from sha256:([0-9a-f]{64})\b")


def made_from(name: str) -> str:
    """The first line of a template that is made from ours: a later version compares by it."""
    return f"{{#- made from sha256:{_digest(name)} -#}}\n"


def _digest(name: str) -> str:
    return sha256((templates.TEMPLATES / name).read_bytes()).hexdigest()


@cache
def load(profile: str, folder: Path) -> Want:
    """The wanted state with all that the folder has; its templates go before ours from now on.

    :raises UsageError: a part of it cannot be read or run, or may be another's.
    """
    files = [*_files(folder)]
    own = folder / "profiles" / f"{profile}.toml"
    for each in files:
        if each.parent == own.parent and each.stem in profiles():
            raise UsageError(
                f"{each}: {each.stem} is a profile of the toolkit", hint="give it another name"
            )
    site = folder / "site.toml"
    chosen = str(own) if own in files else profile
    want = Want.load(chosen, site=site if site in files else None)
    for each in _below(files, folder / "data", "*.toml"):
        try:
            want = replace(want, compat=want.compat.overlaid(read_toml(read_file(each))))
        except (OSError, ValueError) as trouble:
            raise UsageError(f"{each}: {trouble}", hint="as in toolkit/compat/data") from trouble
    hooks = folder / "playbooks"
    if hooks.is_dir() and not {hooks / each for each in HOOKS} & {*files}:
        raise UsageError(f"{hooks}: nothing takes its files in", hint=f"name one {HOOKS[0]}")
    texts, refused = _templates(files, folder / "templates")
    templates.go_before(texts, refused)
    for why in refused.values():
        print(f"note: {why}; nothing is made of it", file=sys.stderr)
    return replace(want, own=_checks(files, folder / "checks"))


def _files(folder: Path) -> Iterator[Path]:
    """Its files, of which each is the user's.

    :raises UsageError: one is not, or the folder has no part of a site's.
    """
    parts = [folder / each for each in PARTS if (folder / each).exists()]
    if not parts:
        raise UsageError(
            f"{folder} is no folder of a site", hint=f"it has one of {', '.join(PARTS)}: init"
        )
    for part in parts:
        for each in (part, *(sorted(part.rglob("*")) if part.is_dir() else ())):
            if "__pycache__" in each.parts:
                continue
            try:
                writable = others_may_write(each)
            except OSError as why:
                raise UsageError(f"{each}: {why.strerror}", hint="remove it, or mend it") from why
            if writable:
                raise UsageError(
                    f"nothing is taken from {folder}: {writable}",
                    hint="what it has is run with your rights: chmod -R go-w, or copy it",
                )
            if each.is_file():
                yield each


def _below(files: list[Path], folder: Path, pattern: str) -> list[Path]:
    return [each for each in files if each.is_relative_to(folder) and each.match(pattern)]


def _templates(files: list[Path], folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The text of each by its name; and why one is not to be rendered.

    :raises UsageError: it is not of the name of one of ours.
    """
    texts, refused = dict[str, str](), dict[str, str]()
    for each in _below(files, folder, "*"):
        name = str(each.relative_to(folder))
        if not (templates.TEMPLATES / name).is_file():
            raise UsageError(f"{each}: there is no template {name}", hint="init --template NAME")
        texts[name] = each.read_text("utf-8")
        made = _MADE_FROM.match(texts[name])
        if made is None:
            refused[name] = f"{each} does not say which of ours it was made from"
        elif made[1] != _digest(name):
            refused[name] = f"{each} was made from {name} as another version had it"
    return texts, refused


def _checks(files: list[Path], folder: Path) -> tuple[Check, ...]:
    found: dict[str, Check] = {}
    for file in _below(files, folder, "*.py"):
        for each in checks_of(str(file), file.read_text("utf-8")):
            if each.id in found:
                raise UsageError(f"{file}: {each.id} is there twice", hint="remove one")
            found[each.id] = each
    return tuple(found.values())
