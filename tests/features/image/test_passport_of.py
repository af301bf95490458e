"""A passport, from what scripts said of a node; tests/scripts/test_passport.py has the scripts."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import pytest

from tests.evidence.build import KERNEL, node
from tests.evidence.modules import ko, sent, signed
from tests.unit.passports import IMAGE, LOAD, sha
from toolkit import __version__
from toolkit.errors import NoEvidence, ToolkitError, Unparsable
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.facts.passport import (
    PLACE,
    SIGNATURE,
    FileEntry,
    KernelEntry,
    ModuleEntry,
    Passport,
    SignedBy,
)
from toolkit.features.image.plan import passport_of

PEER, CORE = f"/lib/modules/{KERNEL}/nvidia-peermem.ko", f"/lib/modules/{KERNEL}/ib_core.ko"
CRCS = {"module_layout": 0x10, "nvidia_p2p_get_pages": 0x20, "kfree": 0x30}
INFO = {
    "license": "Dual MIT/GPL",
    "version": "580.1",
    "srcversion": "ABC",
    "depends": "nvidia,ib_uverbs",
    "name": "nvidia_peermem",
    "vermagic": f"{KERNEL} SMP ",
}
PARTS = {
    "passport-hashes": "".join(
        f"{sha(number)} {mode} {path}\n"
        for number, mode, path in (
            (1, "600", IMAGE),
            (2, "644", PEER),
            (3, "644", CORE),
            (4, "755", LOAD),
            (5, "644", PLACE),
            (6, "644", SIGNATURE),
        )
    ),
    "passport-elf": sent(PEER, ko(INFO, CRCS, build=bytes(range(20)), signature=signed("site")))
    + sent(CORE, ko({"license": "GPL", "vermagic": f"{KERNEL} SMP"}, {"module_layout": 0x10})),
    "passport-exports": f"@{CORE}\n0x0000000a\tib_register_peer_memory_client\n",
    "passport-kernels": f"@z-later\nimage {IMAGE}\n@{KERNEL}\nimage {IMAGE}\nmodule {PEER}\n"
    f"module {CORE}\n",
}


def made(parts: Mapping[str, str] = PARTS, frames: Mapping[str, str] = {}) -> Passport:
    read = Evidence(
        {key: Frame(key, State.OK, "passport", text) for key, text in parts.items()}, complete=True
    )
    return passport_of(Node(node(dict(frames))), read)


def test_it_has_each_kernel_with_the_modules_of_our_path_and_what_was_placed() -> None:
    image = FileEntry(IMAGE, sha(1), "600")
    versions = "kfree 0x00000030\nmodule_layout 0x00000010\nnvidia_p2p_get_pages 0x00000020\n"
    layout = ("module_layout", "0x00000010")
    core = ModuleEntry(
        "ib_core",
        FileEntry(CORE, sha(3), "644"),
        f"{KERNEL} SMP",
        licence="GPL",
        crcs=sha256(b"module_layout 0x00000010\n").hexdigest(),
        needs=(layout,),
        offers=(("ib_register_peer_memory_client", "0x0000000a"),),
    )
    peer = ModuleEntry(
        "nvidia_peermem",
        FileEntry(PEER, sha(2), "644"),
        f"{KERNEL} SMP",
        srcversion="ABC",
        build_id=bytes(range(20)).hex(),
        version="580.1",
        licence="Dual MIT/GPL",
        depends=("nvidia", "ib_uverbs"),
        crcs=sha256(versions.encode()).hexdigest(),
        needs=(layout, ("nvidia_p2p_get_pages", "0x00000020")),
        signature=SignedBy("site", "1234", "sha512"),
    )
    found = made()
    assert (found.toolkit, found.system, found.arch) == (__version__, "ubuntu 22.04", "x86_64")
    assert found.kernels == (
        KernelEntry(KERNEL, image, (core, peer)),
        KernelEntry("z-later", image, ()),
    )
    # Neither what a kernel has, nor the passport itself.
    assert found.files == (FileEntry(LOAD, sha(4), "755"),)


def test_it_has_the_arguments_of_the_kernel_that_boots_next() -> None:
    found = made()
    assert found.default == KERNEL
    assert "iommu=pt" in (found.arguments or ())
    untold = made(frames={"boot-entries": ""})
    assert (untold.default, untold.arguments) == ("", None)


def test_what_a_kernel_or_a_module_does_not_have_is_told_as_nothing() -> None:
    plain = sent(PEER, ko(INFO, {}))
    bare = f"@{KERNEL}\nmodule {PEER}\n@6.1\n"
    found = made(
        {**PARTS, "passport-kernels": bare, "passport-elf": plain}, {"os-release": "ID=arch\n"}
    )
    assert found.system == "arch"
    kernel, last = found.kernels
    assert (last.release, last.image, last.modules) == ("6.1", None, ())
    assert kernel.image is None
    assert (kernel.modules[0].crcs, kernel.modules[0].needs) == ("", ())
    assert [each.path for each in found.files] == sorted([IMAGE, CORE, LOAD])


@pytest.mark.parametrize(
    ("key", "text", "error", "why"),
    [
        ("passport-hashes", f"unread x {LOAD}\n", NoEvidence, f"{LOAD}: could not be read"),
        ("passport-hashes", f"{sha(1)} 644 {IMAGE}\nzz\n", Unparsable, "cannot read line 2: 'zz'"),
        ("passport-hashes", f"{sha(1)} 644 /a/../b\n", Unparsable, "cannot read line 1"),
        ("passport-kernels", "@6.1\nlacks modules.dep\n", NoEvidence, "6.1 lacks modules.dep"),
        ("passport-kernels", "@6.1\nmodule /x.ko\n", NoEvidence, "/x.ko: not read"),
        ("passport-kernels", f"@6.1\nmodule {LOAD}\n", Unparsable, "parts of kernel 6.1"),
        ("passport-kernels", f"@6.1\nother {PEER}\n", Unparsable, "parts of kernel 6.1"),
    ],
)
def test_what_cannot_be_told_is_no_passport(
    key: str, text: str, error: type[ToolkitError], why: str
) -> None:
    with pytest.raises(error, match=why):
        made({**PARTS, key: text})
