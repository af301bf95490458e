"""A changed command line, and a kernel, on real GRUB: tried by one boot, then kept, or given up.

Two boots, six reboots, two of which panic and so boot once more. The line turns the IOMMU's
translation off, and on the path the redirection by ACS.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dev.lab.machine import Guest, factor
from dev.run import ROOT
from tests.machine.acs import BARE, PATHS, assert_argued, assert_well, spaces
from tests.machine.pool import Guests, Ran, gdr, verdicts
from tests.machine.specs import AMD, INTEL

pytestmark = pytest.mark.machine
BOOTS = 10
MENU, ENVIRONMENT = "/boot/grub/grub.cfg", "/boot/grub/grubenv"
OURS = "/etc/default/grub.d/zz-gdr-toolkit.cfg /etc/grub.d/42_gdr-toolkit"
LONG_S = 600
# A newer kernel whose initramfs has nothing in it, as packages of a repository on the node itself.
NEW = "6.1.0-999-amd64"
PACKAGES = f"""set -e
cd "$(mktemp -d)"
mkdir -p image/DEBIAN image/boot image/lib/modules/{NEW} headers/DEBIAN /srv/own
cp "/boot/vmlinuz-$(uname -r)" image/boot/vmlinuz-{NEW}
: | gzip >image/boot/initrd.img-{NEW}
printf '#!/bin/sh\nupdate-grub\n' | tee image/DEBIAN/postinst >image/DEBIAN/postrm
chmod 755 image/DEBIAN/post*
for each in image headers; do
    printf '%s\n' "Package: linux-$each-{NEW}" 'Version: 6.1-1' 'Architecture: amd64' \
        'Maintainer: X <x@y.example>' 'Description: x' >$each/DEBIAN/control
    dpkg-deb -Znone -b $each /srv/own/$each.deb
    {{ cat $each/DEBIAN/control; echo "Filename: ./$each.deb"; stat -c 'Size: %s' /srv/own/$each.deb
       sha256sum </srv/own/$each.deb | sed 's/^/SHA256: /; s/ *-$//'; echo; }} >>/srv/own/Packages
done
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/own ./' >/etc/apt/sources.list
apt-get update
"""
INSTALL = "[packages]\ninstall = true\n"

# Our command line, but that what it asks for kills the kernel. Debian's initramfs looks for
# another init where init= is none, so the kernel itself must find none in the initramfs.
_FATAL = """
from toolkit.plan import boot_arguments as boot
def fatal(node, want):
    words = ("init=/nope", "rdinit=/nope")
    return tuple(boot.Argument(word, "a test", boot.PASSED_THROUGH) for word in words)
boot.CONTRIBUTORS = (boot.Contributor(fatal, boot.PASSED_THROUGH),)
from toolkit.cli import main
main()
"""


def state(guest: Guest) -> str:
    """The loader's files, byte for byte."""
    return guest.run(f"sha256sum {MENU} {ENVIRONMENT}; ls {OURS} 2>&1 || :").out


def fatal(guest: Guest, *words: str) -> Ran:
    """provision, asking for a command line on which no kernel can live."""
    given = ["provision", "--hosts", guest.name, "--ssh-config", str(guest.ssh_config), *words]
    done = subprocess.run(
        (sys.executable, "-c", _FATAL, *given),
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(guest.folder / "state")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_S * factor(),
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def test_translated_tried_kept_and_taken_back_to_the_byte(guests: Guests) -> None:
    guest = guests.fresh(INTEL)
    line, menu, boot, before = guest.cmdline, state(guest), guest.boot_id, spaces(guest)
    assert set(guest.groups().values()) == {"DMA-FQ"}
    assert verdicts(gdr(guest, "doctor", "--json"))["iommu.boot"][0] == "fail"

    asked = gdr(guest, "provision", "--yes", site=BARE, limit_s=LONG_S)
    assert "run again with --reboot" in asked.out, asked.out + asked.err
    assert (guest.cmdline, state(guest), guest.boot_id) == (line, menu, boot)

    ran = gdr(guest, "provision", "--yes", "--reboot", site=BARE, limit_s=LONG_S)
    assert_well(ran)
    told = ran.out + ran.err
    assert set(guest.groups().values()) == {"identity"}, told
    words = guest.cmdline.split()
    assert "iommu=pt" in words
    assert any(word.startswith("gdr_toolkit.trial=") for word in words)
    without_redirection = f"pci=disable_acs_redir={';'.join(PATHS)}"
    assert_argued(guest, before, without_redirection, "disabled ACS redirect")
    kept = guest.run(f"cat {MENU} {ENVIRONMENT}").out
    assert " iommu=pt" in kept
    assert "gdr-toolkit-trial" not in kept
    assert "next_entry=" not in kept.split("# GRUB Env")[1]
    assert verdicts(gdr(guest, "doctor", "--json"))["iommu.boot"][0] == "pass"

    guest.reboot()
    assert_argued(guest, before, without_redirection, "disabled ACS redirect")
    assert set(line.split()) <= set(guest.cmdline.split()), "what was there is there still"

    back = gdr(guest, "rollback", "--yes", "--reboot", "--run", "all", limit_s=LONG_S)
    assert back.status == 0, back.out + back.err
    assert (guest.cmdline, state(guest)) == (line, menu)
    assert set(guest.groups().values()) == {"DMA-FQ"}


def test_a_line_that_panics_comes_back_on_the_old_entry(guests: Guests) -> None:
    guest = guests.fresh(AMD)
    line, menu, boot = guest.cmdline, state(guest), guest.boot_id
    ran = fatal(guest, "--yes", "--reboot")
    told = " ".join((ran.out + ran.err).split())
    assert ran.status == 5, told
    assert "came back on its old entry" in told
    assert "nothing else was touched" in told
    assert "Kernel panic - not syncing" in guest.console
    assert "given-up" in guest.run("cat /var/lib/gdr-toolkit/trials").out
    assert guest.boot_id != boot
    assert (guest.cmdline, state(guest)) == (line, menu)

    good = gdr(guest, "provision", "--yes", "--reboot", limit_s=LONG_S)
    assert set(guest.groups().values()) == {"identity"}, good.out + good.err

    # A kernel that does not boot: the old one is the default before, while and after it is tried.
    guest.run(PACKAGES, limit_s=LONG_S)
    kernel, menu = guest.run("uname -r").out, state(guest)
    ran = gdr(guest, "provision", "--yes", "--kernel", NEW, site=INSTALL, limit_s=LONG_S)
    assert (ran.status, "run again with --reboot" in ran.out) == (2, True), ran.out + ran.err
    words = ("provision", "--yes", "--reboot", "--kernel", NEW)
    ran = gdr(guest, *words, site=INSTALL, limit_s=LONG_S)
    told = " ".join((ran.out + ran.err).split())
    assert ran.status == 5, told
    assert f"tried kernel {NEW}: it came back on its old entry; it is on the old kernel" in told
    assert "Unable to mount root fs" in guest.console
    assert guest.run("uname -r").out == kernel
    back = gdr(guest, "rollback", "--yes", "--run", "last", site=INSTALL, limit_s=LONG_S)
    assert (back.status, state(guest)) == (0, menu), back.out + back.err
