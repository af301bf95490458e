"""Modules that were refused, in all words of those who load them, of depmod and of the kernel.

Each form cites the file and the function that prints it.
"""

from __future__ import annotations

from random import Random

from tests.checks.test_told_otherwise import CHECKS, TEXTS, read, stamp
from toolkit.checks.all import ALL
from toolkit.checks.check import Status
from toolkit.checks.kernel.build_failures import loading_cause
from toolkit.facts.modules.refusals import parse_not_inserted
from toolkit.facts.node.node import Node
from toolkit.want import Want

# The words for an errno: glibc's, as kmod tools/modprobe.c prints them (insmod_insert has its own
# for ENOENT), kmod tools/insmod.c, mod_strerror, and busybox modutils/modutils.c, moderror.
ERRNO = {
    "load-invalid": ("Invalid argument", "Invalid parameters"),
    "load-symbol": (
        "Unknown symbol in module",
        "Unknown symbol in module, or unknown parameter (see dmesg)",
        "unknown symbol in module, or unknown parameter",
    ),
    "load-crc": ("Module has wrong symbol version",),
    "load-rejected": ("Key was rejected by service", "Required key not available"),
    "load-format": ("Exec format error", "Invalid module format", "invalid module format"),
    "load-no-gpu": ("No such device",),
    "load-lockdown": ("Operation not permitted",),
}
LOADERS = (
    "modprobe: ERROR: could not insert '{name}': {words}",  # kmod tools/modprobe.c, insmod_insert
    "insmod: ERROR: could not insert module {name}.ko: {words}",  # kmod tools/insmod.c, do_insmod
    # module-init-tools modprobe.c, insmod
    "FATAL: Error inserting {name} (/lib/modules/6.8.0/updates/dkms/{name}.ko): {words}",
    "WARNING: Error inserting {name} (/lib/modules/6.8.0/extra/{name}.ko.xz): {words}",
    "insmod: error inserting './{name}.ko': -1 {words}",  # module-init-tools insmod.c, main
    # busybox modutils/modprobe.c, do_modprobe; insmod.c, insmod_main
    "modprobe: can't load module {name} (updates/dkms/{name}.ko): {words}",
    "insmod: can't insert '{name}.ko': {words}",
    # systemd src/shared/module-util.c; kmod libkmod/libkmod-module.c, kmod_module_insert_module
    "Failed to insert module '{name}': {words}",
    "Failed to insert module '/lib/modules/6.8.0/updates/{name}.ko': {words}",
    "Failed to insert '{name}': {words}",  # systemd before 240
)
ABSENT = (
    # kmod tools/modprobe.c
    "modprobe: FATAL: Module {name} not found in directory /lib/modules/6.8.0",
    "FATAL: Module {name} not found.",  # module-init-tools modprobe.c, do_modprobe
    "modprobe: ERROR: Module {name} not found.",
    "modprobe: module {name} not found in modules.dep",  # busybox modutils/modprobe.c
    "Failed to find module '{name}'",  # systemd src/shared/module-util.c
)
DEPMOD = {  # kmod tools/depmod.c, depmod_load_module_dependencies
    "load-symbol": "depmod: WARNING: /lib/modules/6.8.0/extra/{name}.ko needs unknown symbol x_y",
    "load-crc": "depmod: WARNING: /lib/m/{name}.ko.xz disagrees about version of symbol x_y",
}
KERNEL = {
    "load-crc": (
        # kernel/module/version.c, check_version; main.c, simplify_symbols; once kernel/module.c
        "{name}: disagrees about version of symbol {symbol}",
        "{name}: Unknown symbol {symbol} (err -22)",
        "{name}: no symbol version for {symbol}",
    ),
    "load-symbol": (
        # kernel/module/main.c, simplify_symbols; older kernels have "err 0"
        "{name}: Unknown symbol {symbol} (err -2)",
        "{name}: Unknown symbol {symbol} (err 0)",
        "{name}: Unknown symbol {symbol}",
    ),
    # kernel/module/main.c, check_modinfo
    "load-format": ("{name}: version magic '6.8.0 SMP' should be '6.9.0 SMP mod_unload '",),
    "load-rejected": (
        # kernel/module/signing.c, module_sig_check; some releases name the module
        "Loading of unsigned module is rejected",
        "Loading of module with unavailable key is rejected",
        "Loading of module with unsupported crypto is rejected",
        "{name}: loading of module with unavailable key is rejected",
    ),
    # security/lockdown/lockdown.c, lockdown_is_locked_down
    "load-lockdown": (
        "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7",
    ),
    # kernel/module/main.c, verify_exported_symbols
    "load-duplicate": ("{name}: exports duplicate symbol {symbol} (owned by nv_peer_mem)",),
    # kernel/params.c, parse_args
    "load-refused": ("{name}: `2' invalid for parameter `peerdirect_support'",),
}
PEERMEM = ("nvidia_peermem", "nvidia-peermem", "nv_peer_mem")


def refusals(draw: Random) -> tuple[str, str, str]:
    """The cause, the text, and the module that a loader names; "" in the kernel's own words."""
    name = draw.choice(PEERMEM)
    if draw.random() < 0.2:
        return "load-absent", draw.choice(ABSENT).format(name=name), name
    if draw.random() < 0.1:
        cause = draw.choice(list(DEPMOD))
        return cause, DEPMOD[cause].format(name=name), name
    if draw.random() < 0.4:
        cause = draw.choice(list(KERNEL))
        words = draw.choice(KERNEL[cause]).format(
            name=name, symbol="ib_register_peer_memory_client"
        )
        return cause, f"{stamp(draw)}{words}", ""
    cause = draw.choice(list(ERRNO))
    told = draw.choice(LOADERS).format(name=name, words=draw.choice(ERRNO[cause]))
    return cause, told, name


def test_each_refusal_has_one_cause_in_any_words() -> None:
    draw = Random(3)  # noqa: S311 # drawn again the same
    seen = set()
    for _ in range(TEXTS):
        cause, text, name = refusals(draw)
        row = loading_cause([text])
        assert row is not None, text
        assert row.id == cause, text
        told = parse_not_inserted([text])
        assert [each.module for each in told] == ([name.replace("-", "_")] if name else []), text
        seen.add(cause)
    assert seen == {"load-absent", *ERRNO, *KERNEL}


def test_a_module_that_was_refused_fails_one_check_and_none_passes() -> None:
    draw = Random(4)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS // 10):
        cause, text, name = refusals(draw)
        if not name or text.startswith("Failed to"):  # systemd's own stand in a journal
            continue
        node = Node(read(text + "\n"))
        owner = "module.signed" if cause == "load-rejected" else "peermem.loaded"
        assert CHECKS[owner](node.fresh(), Want()).status is Status.FAIL, text
        passes = [e.id for e in ALL if e(node.fresh(), Want()).status is Status.PASS]
        assert not passes, text
