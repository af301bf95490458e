"""Kernel modules: loaded, on disk, configured and chosen.

Sources: /proc/modules, /sys/module/*, modinfo(8), ``modprobe -c``, ``modprobe
--show-depends``, modules-load.d(5).
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import Unparsable
from toolkit.facts.boot.kernel import module_name
from toolkit.facts.lines import blocks, named_lines
from toolkit.facts.modules.module_file import parse_build_id


class LoadedModule(Struct, frozen=True):
    """One module that the kernel holds."""

    name: str  # with underscores
    users: tuple[str, ...]  # modules that use it
    live: bool  # False while loading, unloading or after a failed init
    refs: int = 0  # references: modules, open files, devices; -1 where it cannot be unloaded


class ModuleState(Struct, frozen=True):
    """What /sys/module says of one module."""

    name: str
    initstate: str = ""  # "live"; "" for a module built into the kernel
    version: str = ""
    srcversion: str = ""
    holders: tuple[str, ...] = ()
    taint: str | None = None  # "OE": out of tree, not signed; None where it is not told
    build_id: str = ""  # asked for where there is no srcversion

    @property
    def in_tree(self) -> bool | None:
        """Whether it came with the kernel; None where that is not told."""
        return None if self.taint is None else "O" not in self.taint


class ModuleFile(Struct, frozen=True):
    """What modinfo says of one module on disk."""

    filename: str
    version: str = ""
    srcversion: str = ""
    vermagic: str = ""  # "6.8.0-45-generic SMP preempt mod_unload modversions"
    license: str = ""
    signer: str = ""
    depends: tuple[str, ...] = ()
    signed: bool = False  # a kmod without OpenSSL tells of a signature, and not whose it is
    key: str = ""  # serial number of the signer's certificate, lower-case hex
    in_tree: bool = False  # it says so itself
    build_id: str = ""  # asked for where there is no srcversion

    @property
    def name(self) -> str:
        return module_name(self.filename)

    @property
    def stem(self) -> str:
        """The file's own name: "nvidia-current-peermem"."""
        return self.filename.rpartition("/")[2].split(".ko", 1)[0]

    @property
    def kernel(self) -> str:
        """The kernel release it was compiled for."""
        return self.vermagic.split(" ", 1)[0]

    @property
    def origin(self) -> str:
        """ "inbox" from the kernel's own tree or built into it, else "out-of-tree"."""
        inbox = "/kernel/" in self.filename or self.filename == "(builtin)"
        return "inbox" if inbox else "out-of-tree"


def parse_modules(text: str) -> tuple[LoadedModule, ...]:
    """Read /proc/modules: ``name size refcount users state address``.

    :raises Unparsable: at a line with fewer than five fields.
    """
    loaded = []
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        fields = line.split(" ")
        if len(fields) < 5 or not fields[1].isdigit():
            raise Unparsable("/proc/modules", line, number)
        counted = fields[2].isdigit() and "[permanent]" not in fields[3]
        refs = int(fields[2]) if counted else -1
        users = tuple(each for each in fields[3].split(",") if each not in {"", "-", "[permanent]"})
        loaded.append(LoadedModule(fields[0], users, fields[4] == "Live", refs))
    return tuple(loaded)


def parse_module_state(text: str) -> dict[str, ModuleState]:
    """Read the probe's "nvidia/version:570.86.15" and "nvidia/holder:nvidia_uvm" lines."""
    values: dict[str, dict[str, str]] = {}
    holders: dict[str, list[str]] = {}
    for path, value in named_lines(text, "/sys/module"):
        module, _, attribute = path.partition("/")
        values.setdefault(module, {})
        if attribute == "holder":
            holders.setdefault(module, []).append(value)
        else:
            values[module][attribute] = value
    return {
        name: ModuleState(
            name,
            found.get("initstate", ""),
            found.get("version", ""),
            found.get("srcversion", ""),
            tuple(holders.get(name, ())),
            found.get("taint"),
            _build_id(f"/sys/module/{name}", found.get("build", "")),
        )
        for name, found in values.items()
    }


def _build_id(path: str, octets: str) -> str:
    try:
        return parse_build_id(path, bytes.fromhex(octets))
    except ValueError as why:
        raise Unparsable(f"build id of {path}", octets) from why


def parse_modinfo(text: str) -> dict[str, ModuleFile]:
    """Read the probe's modinfo blocks; a module that modinfo does not know has no entry.

    :returns: by the heading: the name or the path that was asked for.
    """
    files: dict[str, ModuleFile] = {}
    for asked, lines in blocks(text, "modinfo"):
        if asked == "build-ids":  # last of all
            for name, _, octets in (line.partition(":") for line in lines):
                if name in files:
                    found = _build_id(files[name].filename, octets)
                    files[name] = replace(files[name], build_id=found)
            continue
        values: dict[str, str] = {}
        for line in lines:
            key, colon, value = line.partition(":")
            if not colon:
                raise Unparsable(f"modinfo {asked}", line)
            values.setdefault(key, value.strip())
        if "filename" in values:
            files[asked] = ModuleFile(
                values["filename"],
                values.get("version", ""),
                values.get("srcversion", ""),
                values.get("vermagic", ""),
                values.get("license", ""),
                values.get("signer", ""),
                tuple(each for each in values.get("depends", "").split(",") if each),
                bool(values.keys() & {"signer", "sig_key"}),
                values.get("sig_key", "").replace(":", "").lower(),
                values.get("intree", "") == "Y",
            )
    return files


def parse_modinfo_files(text: str) -> dict[str, ModuleFile]:
    """modinfo of several files in one go: a "filename:" line begins each.

    :returns: by path.
    :raises Unparsable: at a line before the first of them, or of another form.
    """
    lines = []
    for line in text.split("\n")[:-1]:
        key, _, value = line.partition(":")
        lines += [f"@{value.strip()}", line] if key == "filename" else [line]
    return parse_modinfo("".join(f"{line}\n" for line in lines))


class ModprobeConfig(Struct, frozen=True):
    """The merged configuration of modprobe; names with underscores."""

    blacklisted: frozenset[str]  # no loading by alias; an explicit modprobe still works
    installs: tuple[tuple[str, str], ...]  # module, command run in place of loading it
    options: tuple[tuple[str, str], ...]  # module, its parameters
    softdeps: tuple[tuple[str, str], ...]  # module, "pre: a b post: c"

    def blocked(self, module: str) -> str:
        """The install command that keeps ``module`` from loading at all; "" for none."""
        commands = [command for name, command in self.installs if name == module]
        return next((c for c in commands if re.match(r"(/usr)?(/s?bin/)?(false|true)\b|:$", c)), "")


def parse_modprobe_config(text: str) -> ModprobeConfig:
    """Read the lines of ``modprobe -c`` that decide what loads.

    :raises Unparsable: at a directive that was not asked for.
    """
    found: dict[str, list[tuple[str, str]]] = {
        word: [] for word in ("blacklist", "install", "remove", "options", "softdep")
    }
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        words = line.split(None, 2)
        if len(words) < 2 or words[0] not in found:
            raise Unparsable("modprobe -c", line, number)
        found[words[0]].append((words[1].replace("-", "_"), "".join(words[2:])))
    return ModprobeConfig(
        frozenset(name for name, _ in found["blacklist"]),
        tuple(found["install"]),
        tuple(found["options"]),
        tuple(found["softdep"]),
    )


def parse_modules_load(text: str) -> dict[str, tuple[str, ...]]:
    """Modules loaded at boot, by the file that names them; names with underscores.

    A file in /etc hides one of the same name in /usr/lib.
    """
    files: dict[str, list[str]] = {}
    for path, line in named_lines(text, "modules-load.d"):
        names = files.setdefault(path, [])
        word = line.strip()
        if word and word[0] not in "#;":
            names.append(word.replace("-", "_"))
    order = ("/etc/", "/run/", "/usr/local/lib/", "/usr/lib/")
    visible: dict[str, str] = {}
    for path in sorted(
        files, key=lambda each: next((i for i, d in enumerate(order) if each.startswith(d)), 9)
    ):
        visible.setdefault(path.rpartition("/")[2], path)
    return {path: tuple(files[path]) for path in visible.values()}


def parse_show_depends(text: str) -> tuple[str, ...]:
    """``modprobe --show-depends``: files in the order of loading, dependencies first."""
    return tuple(
        words[1]
        for line in text.split("\n")
        if len(words := line.split()) > 1 and words[0] == "insmod"
    )


def parse_symvers(text: str) -> dict[str, str]:
    """Who exports the peer-memory interface on disk.

    Source: Module.symvers, ``0xCRC<tab>symbol<tab>module<tab>EXPORT_SYMBOL...``.

    :returns: path of the Module.symvers, and the module that exports
        ib_register_peer_memory_client there; "" where none does.
    """
    exporters: dict[str, str] = {}
    for path, lines in blocks(text, "Module.symvers"):
        rows = [line.split("\t") for line in lines]
        exporters[path] = next(
            (
                row[2].rpartition("/")[2]
                for row in rows
                if len(row) >= 4 and row[1] == "ib_register_peer_memory_client"
            ),
            "",
        )
    return exporters


def parse_kallsyms(text: str) -> dict[str, str]:
    """Live symbols and their module; "" for those of the kernel itself.

    Source: /proc/kallsyms, ``address type symbol[<tab>[module]]``.
    """
    symbols: dict[str, str] = {}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        fields = line.split()
        if len(fields) not in {3, 4}:
            raise Unparsable("/proc/kallsyms", line, number)
        symbols[fields[2]] = fields[3].strip("[]") if len(fields) == 4 else ""
    return symbols
