"""A rebuild on a kernel that takes signed modules alone, by each shell: never a step back.

Modules are lines of text, signed or not, and DKMS is a stand-in; OpenSSL is the real one.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.scripts.engine import SHELLS
from tests.scripts.swapping import KERNEL, MODULE, PACKAGE, VERSION, Node, node
from tests.scripts.test_rebuild_program import DKMS

pytestmark = pytest.mark.shell

MARK = "~Module signature appended~\n"
GOOD = f"vermagic={KERNEL} SMP modversions \nversion={VERSION}\ndepends=nvidia,ib_uverbs\n"
REBUILT = f"{PACKAGE}/{VERSION} for {KERNEL}: rebuilt and installed"
UNSIGNED = "nvidia-peermem.ko: signature: it is not signed, and this kernel takes signed modules"
OTHER_KEY = "nvidia-peermem.ko: signature: by another key than the site's"
MODPROBE = """#!/bin/sh
symbols='0x1\\tib_register_peer_memory_client\\n0x1\\tnvidia_p2p_get_pages\\n'
case $1 in
    -S) case $4 in *nvidia_p2p*) echo nvidia ;; *) echo ib_uverbs ;; esac ;;
    --dump-modversions) printf "$symbols" ;;
    --show-exports) case $2 in *peermem*) ;; *) printf "$symbols" ;; esac ;;
esac
"""


def by(key: str) -> str:
    """The module as a key with that serial has signed it."""
    return f"{GOOD}sig_key={key}\n{MARK}"


@pytest.fixture(params=sorted(SHELLS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    """A good nvidia-peermem that the site's key has signed; the kernel demands signatures."""
    made = node(tmp_path, SHELLS[request.param])
    made.write(made.root / f"lib/modules/{KERNEL}/build/include/x.h", "")
    for name in ("nvidia", "ib_uverbs"):
        text = f"vermagic={KERNEL} SMP modversions \nname={name}\nversion={VERSION}\n"
        made.write(made.root / f"lib/modules/{KERNEL}/kernel/{name}.ko", text)
    made.install(VERSION, by("12:34"))
    for name, text in (("modprobe", MODPROBE), ("dkms", DKMS)):
        made.command(name, text)
    program = made.root / "rebuild"
    text = program.read_text()
    for top in ("/sys\n", "/etc/dkms/framework.conf.d"):
        text = text.replace(f"={top}", f"={made.root}{top}")
    program.write_text(text)
    made.write(made.root / "sys/module/module/parameters/sig_enforce", "Y\n")
    return made


def site_key(place: Node, serial: str) -> None:
    """What provision places, with a certificate of that serial number."""
    certificate = place.root / "site.der"
    subprocess.run(
        ["openssl", "req", "-new", "-x509", "-nodes", "-newkey", "rsa:2048", "-outform", "DER",
         "-subj", "/CN=Site/", "-set_serial", serial, "-keyout", "/dev/null", "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    folder = place.root / "etc/dkms/framework.conf.d"
    place.write(folder / "gdr-toolkit-signing.conf", f'mok_certificate="{certificate}"\n')


def test_what_is_signed_stays(place: Node) -> None:
    site_key(place, "0x1234")
    done = place.program("--kernel", KERNEL)
    assert (done.returncode, done.stdout) == (0, "")


def test_an_unsigned_one_is_built_again_and_signed(place: Node) -> None:
    place.install(VERSION, GOOD)
    place.write(place.root / "made" / MODULE, by("1234"))
    done = place.program("--kernel", KERNEL)
    assert done.returncode == 0, done.stdout
    assert f"{REBUILT}: {UNSIGNED}" in done.stdout
    assert place.installed.read_text() == by("1234")


@pytest.mark.parametrize("demand", ["sig_enforce", "lockdown"])
def test_where_dkms_could_not_sign_the_signed_one_stays(place: Node, demand: str) -> None:
    """DKMS calls that a success; the module has to be built again for another reason."""
    if demand == "lockdown":
        place.write(place.root / "sys/module/module/parameters/sig_enforce", "N\n")
        level = "none [integrity] confidentiality\n"
        place.write(place.root / "sys/kernel/security/lockdown", level)
    place.install(VERSION, by("12:34").replace(KERNEL, "6.8.0-40-generic"))
    place.write(place.root / "made" / MODULE, GOOD)
    before = place.state()
    done = place.program("--kernel", KERNEL)
    assert done.returncode == 1
    assert "not rebuilt (nvidia-peermem.ko: other-kernel" in done.stdout
    assert UNSIGNED in done.stdout
    assert place.state() == before


def test_where_no_signatures_are_demanded_nobody_asks_for_one(place: Node) -> None:
    site_key(place, "0x99")
    place.write(place.root / "sys/module/module/parameters/sig_enforce", "N\n")
    place.write(place.root / "sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
    place.install(VERSION, GOOD)
    done = place.program("--kernel", KERNEL)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_new_key_of_the_site_signs_what_the_old_one_did(place: Node) -> None:
    site_key(place, "0xAB12")
    place.write(place.root / "made" / MODULE, by("00:AB:12"))
    done = place.program("--kernel", KERNEL)
    assert done.returncode == 0, done.stdout
    assert f"{REBUILT}: {OTHER_KEY}" in done.stdout
    again = place.program("--hook")
    assert (again.returncode, again.stdout) == (0, "")


def test_where_dkms_goes_on_with_the_old_key_it_is_tried_once(place: Node) -> None:
    site_key(place, "0xAB12")
    place.write(place.root / "made" / MODULE, by("12:34"))
    before = place.state()
    assert f"not rebuilt ({OTHER_KEY}): {OTHER_KEY}" in place.program("--hook").stdout
    assert "failed before, and nothing has changed since" in place.program("--hook").stdout
    assert place.state() == before
    site_key(place, "0x1235")  # a change that is worth another try
    assert "failed before" not in place.program("--hook").stdout


def test_another_refusal_is_not_forgotten_over_the_key(place: Node) -> None:
    site_key(place, "0xAB12")
    place.write(place.root / "made" / MODULE, by("AB:12").replace(KERNEL, "6.8.0-40-generic"))
    before = place.state()
    done = place.program("--kernel", KERNEL)
    assert done.returncode == 1
    assert "nvidia-peermem.ko: other-kernel" in done.stdout
    assert place.state() == before
