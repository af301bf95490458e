"""What greps of /proc/kallsyms and /etc/modprobe.d, and openibd's own output, tell of modules.

Sources, as read: Linux kernel/kallsyms.c, s_show; kmod libkmod/libkmod-config.c; mlnx-ofa_kernel
ofed_scripts/openibd, start, stop, load_module and echo_failure.
"""

from __future__ import annotations

import re

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.modules.kernel_modules import ModprobeConfig, parse_modprobe_config

# "ffffffffc0a3b1c0 T ib_register_peer_memory_client	[ib_core]", or grep's number before it; what
# the kernel keeps of an export is named after it.
_SYMBOL = re.compile(
    r"^(?:\d+:)?[0-9a-f]{8,16} [A-TV-Za-tv-z] (?:__(?:ksymtab|kstrtab|kstrtabns|crc)_)?(\S+?)"
    r"(?:[ \t]+\[(\w+)\])?[ \t]*$",
    re.MULTILINE,
)
_MANY = 50_000  # a kernel has more symbols, an excerpt has not
# A line as it is, with its file where grep puts that before it, and what head and tail put above.
_LINE = re.compile(r"(?:(?P<file>[^\s:]*(?:\.conf|/modprobe\.d/)[^\s:]*):(?:\d+:)?)?(?P<line>.*)")
_ABOVE = re.compile(r"==> (\S+) <==")
_DIRECTIVE = re.compile(r"(?:blacklist|install|remove|options|softdep)[ \t]+\S.*")
_NAMED = re.compile(r"[^\s,;|&'\")]*(?:modprobe\.d|\.conf)[^\s,;|&'\")]*")
# modprobe.d(5): a file hides those of its name in the folders behind its own.
_FOLDERS = ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
_PLACE = re.compile(rf"(.*?)({'|'.join(_FOLDERS)})/modprobe\.d/([^/]+)")
_STEP = re.compile(
    r"^[ \t]*(\S[^\n\[]{0,200}?):?[ \t]{0,200}(?:\[\d+G)?\[ *(OK|FAILED|WARNING|done) *[\]\[]",
    re.MULTILINE,
)
# Of those lines openibd's own: other services of a boot, or of a session, end theirs alike.
_OWN = re.compile(
    r"(?:Unl|L)oading (?:(?:\S+ )*HCA driver\b|(?:mlx|ib_|rdma_|iw_|rpcrdma|svcrdma)\w*)"
    r"|Failed (?:to )?(?:un)?load(?:ing)? (?:kernel )?module "
    r"|Module \S+ (?:does not exist|(?:does not )?belongs? to|is in use)\b"
)
_LOADED = "Loading HCA driver and Access Layer"


class Symbols(Struct, frozen=True):
    """Live symbols of which lines of /proc/kallsyms tell."""

    modules: dict[str, str]  # by symbol the module that has it; "" for the kernel itself
    whole: bool  # that one is not there means that nothing has it

    @property
    def loaded(self) -> frozenset[str]:
        """The modules that have any."""
        return frozenset(filter(None, self.modules.values()))


def parse_kallsyms_lines(text: str) -> Symbols:
    """Lines of /proc/kallsyms, mostly those that grep found; none where it found nothing.

    Of the whole file its RDMA modules are there, and another module behind them: it was not cut.
    """
    rows = _SYMBOL.findall(text)
    tagged = [module for _, module in rows if module]
    rdma = {"ib_core", "ib_uverbs"}
    whole = len(rows) > _MANY and rdma <= set(tagged) and tagged[-1] not in rdma
    return Symbols(dict(rows), whole)


class ConfigLines(Struct, frozen=True):
    """Lines of /etc/modprobe.d that somebody has found, or of ``modprobe -c``: those in force."""

    config: ModprobeConfig
    files: dict[str, str]  # by line the file that it stands in, where grep says so


def parse_config_lines(text: str, command: str = "") -> ConfigLines:
    """Those of files that modprobe reads, and that no file of their name hides.

    :param command: what printed them: it names the files of lines that do not name their own.
    :raises Unparsable: where no line is one of modprobe's.
    """
    lines = _of_files(text)
    if not any(_DIRECTIVE.fullmatch(line) for line, _ in lines):
        raise Unparsable("/etc/modprobe.d", text.strip().split("\n")[0])
    named = _NAMED.findall(command)
    there = {file for _, file in lines if file} | set(named)
    bare = all(_read(each) and not _masked(each, there) for each in named)
    found = [
        (line, file)
        for line, file in lines
        if _DIRECTIVE.fullmatch(line)
        and (_read(file) and not _masked(file, there) if file else bare)
    ]
    # modprobe.d(5): "-" and "_" in a module's name are one, and a comment has a line of its own.
    config = parse_modprobe_config("".join(f"{line}\n" for line, _ in found))
    return ConfigLines(config, {line: file for line, file in found if file})


def _of_files(text: str) -> list[tuple[str, str]]:
    """Each line with the file that it stands in; "" where the text does not say."""
    found, above = [], ""
    for row in text.split("\n"):
        if heading := _ABOVE.fullmatch(row.strip()):
            above = heading[1]
        elif each := _LINE.fullmatch(row):
            found.append((each["line"].strip(), each["file"] or above))
    return found


def _read(path: str) -> bool:
    """Whether modprobe reads that file, or some of those that the pattern or the folder means."""
    name = path.rstrip("/").rpartition("/")[2]
    if name == "modprobe.d" or name.endswith("*"):
        return True
    place = _PLACE.fullmatch(path)
    return name.endswith(".conf") and name[0] != "." and (place is not None or path[0] != "/")


def _masked(path: str, there: set[str]) -> bool:
    """Whether one of those files stands in an earlier folder and has its name."""
    place = _PLACE.fullmatch(path)
    if place is None or "*" in path:
        return False
    root, folder, name = place.groups()
    earlier = _FOLDERS[: _FOLDERS.index(folder)]
    return any(f"{root}{each}/modprobe.d/{name}" in there for each in earlier)


def parse_openibd(text: str) -> tuple[str, ...] | None:
    """What openibd could not do: its lines that end in FAILED, since it last came up.

    :returns: nothing where all went well, None where it has not come up and says no failure.
    :raises Unparsable: where it says nothing of a driver.
    """
    told = ((step.strip(), result) for step, result in _STEP.findall(text))
    steps = [(step, result) for step, result in told if _OWN.match(step)]
    if not steps:
        raise Unparsable("openibd", text.strip().split("\n")[0])
    up = [at for at, (step, result) in enumerate(steps) if (step, result) == (_LOADED, "OK")]
    since = steps[up[-1] + 1 :] if up else steps
    failures = tuple(step for step, result in since if result == "FAILED")
    return failures if failures or (up and up[-1] == len(steps) - 1) else None
