"""Would the kernel take the modules' signatures, now and after a reboot?"""

from __future__ import annotations

import pytest

from tests.checks.signing import BY_DKMS, DKMS, OUTLIER, SIGNED_BY_DKMS
from tests.evidence.build import CONFIG, HEALTHY, PEERMEM_INFO, SRC, node
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override, failed
from tests.evidence.healthy_files import elf
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from tests.evidence.modules import signed
from toolkit.checks.all import BY_ID
from toolkit.facts.node.node import Node
from toolkit.facts.text.scrub import scrub
from toolkit.want import SigningPaths, Want

KEY = (
    "3c4d5e6f I------     1 perm 1f030000     0     0 asymmetri"
    " NVIDIA Support: 00112233445566778899: X509.rsa 66778899 []\n"
)
ROOT_KEYS = str(HEALTHY["trusted-keys"])
SKID = "5a9d3c1177fe20b46bd8e1f0c2a4968712345f6e"
RING = f"@.machine\n1053221867: ---lswrv     0     0 asymmetric: NVIDIA Support: {SKID}\n"
FIRMWARE = "7b8c9dae I------     1 perm 1f0b0000     0     0 keyring   .platform: 3\n"
PLATFORM = RING.replace(".machine", ".platform")
SECURE: dict[str, Override] = {"efi-secureboot": "   1\n", "sig-enforce": "Y\n"}
SLES = 'ID="sles"\nID_LIKE="suse"\nVERSION_ID="15.6"\n'
GATE = "/usr/lib/modprobe.d/10-unsupported-modules.conf:allow_unsupported_modules "
OWN_KEY = "/var/lib/dkms/mok.pub"
SITE = Want(signing=SigningPaths("/etc/dkms/keys/site.key", "/etc/dkms/keys/site.der"))
UNNAMED: dict[str, Override] = {
    **SIGNED_BY_DKMS,
    "nvidia-modinfo": str(SIGNED_BY_DKMS["nvidia-modinfo"]).replace(BY_DKMS, "sig_key:        \n"),
}
STATE_ELSE = str(HEALTHY["module-state"]).replace(SRC["nvidia"], "0000000000000000000000F")


def enrolled(serial: str) -> str:
    """What mokutil lists, of the certificate that stands in the ring ``RING``."""
    return (
        "@mokutil --list-enrolled\n        Serial Number:\n"
        f"            {serial}\n        Issuer: CN = NVIDIA Support\n"
        "                    9c4b1f\n"
        "            X509v3 Subject Key Identifier: \n"
        f"                {SKID.upper()}\n"
    )


ROWS = [
    Row("not-demanded", "module.signed", NA, "demands no signatures"),
    Row("by-dkms-and-loaded", "module.signed", PASS, "signed by DKMS module signing key",
        SIGNED_BY_DKMS),
    Row("none-is-signed", "module.signed", FAIL, "nvidia is not signed", {"sig-enforce": "Y\n"}),
    Row("under-lockdown", "module.signed", FAIL, "under lockdown (integrity)",
        {"lockdown": "none [integrity] confidentiality\n"}),
    Row("an-outlier", "module.signed", FAIL, "nvidia_peermem is signed by NVIDIA Support", OUTLIER),
    Row("the-outliers-key-is-held", "module.signed", PASS, "signed by",
        {**OUTLIER, "trusted-keys": ROOT_KEYS + KEY}),
    Row("its-key-is-in-the-machine-ring", "module.signed", PASS, "signed by",
        {**OUTLIER, "trusted-keys": RING + enrolled("1234") + ROOT_KEYS + KEY}),
    # Debian, Ubuntu, SUSE and the RHEL family patch their kernels to ask it; others do not.
    Row("its-key-is-in-the-firmwares-ring-alone", "module.signed", UNKNOWN, "not every kernel",
        {**OUTLIER, "trusted-keys": PLATFORM + ROOT_KEYS + KEY}),
    Row("held-and-no-keyctl-tells-where", "module.signed", UNKNOWN, "tells no keyring",
        {**OUTLIER, "trusted-keys": ROOT_KEYS + FIRMWARE + KEY}),
    Row("not-held-and-no-keyctl", "module.signed", FAIL, "does not trust",
        {**OUTLIER, "trusted-keys": ROOT_KEYS + FIRMWARE}),
    Row("a-key-of-that-name-is-enrolled", "module.signed", UNKNOWN, "whether this one",
        {**OUTLIER, "trusted-keys": RING + ROOT_KEYS + KEY}),
    # The machine was installed anew: the same name, another key.
    Row("an-older-key-of-that-name-is-enrolled", "module.signed", FAIL, "does not trust",
        {**OUTLIER, "trusted-keys": RING + enrolled("0bad") + ROOT_KEYS + KEY}),
    Row("enrolled-under-the-name-of-its-own", "module.signed", PASS, "signed by",
        {**OUTLIER, "trusted-keys":
         RING.replace("NVIDIA Support", "Site 7") + enrolled("1234") + ROOT_KEYS}),
    Row("another-key-of-the-same-name-is-loaded", "module.signed", FAIL, "nvidia_peermem",
        {**SIGNED_BY_DKMS, "peermem-elf": elf(signature=signed(DKMS, serial=b"\x56\x78"))}),
    Row("built-in-needs-no-signature", "module.signed", PASS, "signed by",
        {**SIGNED_BY_DKMS, "rdma-modinfo": "@ib_core\nfilename:       (builtin)\n"}),
    Row("lockdown-hidden-under-secure-boot", "module.signed", UNKNOWN, "lockdown: not there",
        {"lockdown": ABSENT, "efi-secureboot": "   1\n"}),
    Row("a-kernel-without-lockdown", "module.signed", NA, "demands no signatures",
        {"lockdown": ABSENT, "efi-secureboot": "   1\n",
         "kernel-config": CONFIG + "# CONFIG_SECURITY_LOCKDOWN_LSM is not set\n"}),
    Row("no-lockdown-and-no-secure-boot", "module.signed", NA, "demands no signatures",
        {"lockdown": ABSENT}),
    Row("loaded-without-a-check-proves-nothing", "module.signed", FAIL, "does not trust",
        {**SIGNED_BY_DKMS, "tainted": "12288\n"}),
    Row("keyrings-hidden", "module.signed", UNKNOWN, "shown to root alone",
        {**OUTLIER, "trusted-keys": "@/proc/keys\n", "uid": "1000\n"}),
    Row("kmod-without-openssl", "module.signed", UNKNOWN, "does not tell by whom",
        {**UNNAMED, "module-state": STATE_ELSE}),
    Row("kmod-without-openssl-and-loaded", "module.signed", PASS, "signed by", UNNAMED),
    Row("not-demanded", "kernel.config.modsig", PASS, "demands no signatures"),
    Row("demanded", "kernel.config.modsig", PASS, "module.sig_enforce; sha512",
        {"sig-enforce": "Y\n", "kernel-config": CONFIG + 'CONFIG_MODULE_SIG_HASH="sha512"\n'}),
    Row("no-digest", "kernel.config.modsig", FAIL, "no CONFIG_MODULE_SIG_HASH",
        {"sig-enforce": "Y\n", "kernel-config": CONFIG + 'CONFIG_MODULE_SIG_HASH=""\n'}),
    Row("option-not-read", "kernel.config.modsig", UNKNOWN, "not among the options",
        {"sig-enforce": "Y\n"}),
    Row("off", "secureboot.state", PASS, "off"),
    Row("no-efi", "secureboot.state", PASS,
        "no EFI", {"efi-secureboot": ABSENT, "mokutil": ABSENT}),
    Row("no-efi-by-mokutil", "secureboot.state", PASS, "no EFI",
        {"efi-secureboot": ABSENT,
         "mokutil": failed(1, "EFI variables are not supported on this system\n")}),
    Row("on-and-signed", "secureboot.state", PASS, "each module of the path is signed",
        {**SIGNED_BY_DKMS, "efi-secureboot": "   1\n", "peermem-modinfo": PEERMEM_INFO.replace(
            "depends:", "signer:         DKMS module signing key\ndepends:")}),
    Row("on-and-not-signed", "secureboot.state", FAIL, "on, and not signed: mlx5_core", SECURE),
    Row("on-and-not-heeded", "secureboot.state", PASS, "demands no signatures",
        {"efi-secureboot": "   1\n"}),
    Row("variables-not-mounted", "secureboot.state", UNKNOWN, "ended with status 19",
        {"efi-secureboot": failed(19), "mokutil": ABSENT}),
    Row("built-in-and-on", "secureboot.state", FAIL, "not signed: nvidia",
        {**SECURE, "rdma-modinfo": "@ib_core\nfilename:       (builtin)\n"}),
    Row("odd-byte", "secureboot.state", UNKNOWN, "cannot read", {"efi-secureboot": "   7\n"}),
    Row("off", "secureboot.mok", NA, "Secure Boot: off"),
    Row("enrolled", "secureboot.mok", PASS, "enrolled",
        {**SECURE, "mok-key": failed(1, f"{OWN_KEY} is already enrolled\n")}),
    Row("not-enrolled", "secureboot.mok", FAIL, "not enrolled",
        {**SECURE, "mok-key": f"{OWN_KEY} is not enrolled\n"}),
    Row("waiting", "secureboot.mok", FAIL, "waiting for the console",
        {**SECURE, "mok-key": f"{OWN_KEY} is already in the enrollment request\n"}),
    Row("another-key-is-configured", "secureboot.mok", UNKNOWN, "/etc/keys/site.der, which",
        {**SECURE, "dkms-fragments": 'framework.conf:mok_certificate="/etc/keys/site.der"\n',
         "mok-key": failed(1, f"{OWN_KEY} is already enrolled\n")}),
    Row("a-comment-configures-nothing", "secureboot.mok", PASS, "enrolled",
        {**SECURE, "dkms-fragments": f"framework.conf:# mok_certificate={OWN_KEY}x\n",
         "mok-key": failed(1, f"{OWN_KEY} is already enrolled\n")}),
    Row("no-key", "secureboot.mok", NA, "no key of the node's own", SECURE),
    Row("hangs", "secureboot.mok", UNKNOWN, "no answer", {**SECURE, "mok-key": TIMEOUT}),
    Row("no-site-key", "secureboot.site_key", NA, "the site names no key", SECURE),
    Row("site-key-told", "secureboot.site_key", PASS, "signs with /etc/dkms/keys/site.key",
        {**SECURE, "dkms-fragments": "framework.conf.d/site.conf:mok_signing_key=/etc/dkms/keys/"
         "site.key\nframework.conf.d/site.conf:mok_certificate=/etc/dkms/keys/site.der\n"},
        want=SITE),
    Row("own-key-in-place-of-the-sites", "secureboot.site_key", FAIL, "its own key", SECURE,
        want=SITE),
    Row("fragments-not-read", "secureboot.site_key", UNKNOWN, "permission",
        {**SECURE, "dkms-fragments": DENIED}, want=SITE),
    Row("not-suse", "modules.unsupported_gate", NA, "not a matter of ubuntu"),
    Row("open", "modules.unsupported_gate", PASS, "allow_unsupported_modules 1",
        {"os-release": SLES, "unsupported-modules": f"{GATE}1\n"}),
    Row("closed", "modules.unsupported_gate", FAIL, "allow_unsupported_modules 0",
        {"os-release": SLES, "unsupported-modules": f"{GATE}0\n"}),
    Row("opened-in-etc", "modules.unsupported_gate", PASS, "/etc/modprobe.d",
        {"os-release": SLES, "unsupported-modules":
         GATE.replace("/usr/lib", "/etc") + f"1\n{GATE}0\n"}),
    Row("no-gate", "modules.unsupported_gate", PASS, "no line closes it",
        {"os-release": SLES}),
    Row("not-read", "modules.unsupported_gate", UNKNOWN, "permission",
        {"os-release": SLES, "unsupported-modules": DENIED}),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_signing(row: Row) -> None:
    holds(row)


@pytest.mark.parametrize("row", [row for row in ROWS if row.status is FAIL], ids=name)
def test_each_failure_names_one_step_that_mends_it(row: Row) -> None:
    assert judged(row).finding.hint


@pytest.mark.parametrize("row", [row for row in ROWS if "trusted-keys" in row.frames], ids=name)
def test_hidden_names_and_numbers_leave_keys_what_they_are(row: Row) -> None:
    before = node(row.frames, board=row.board)
    told = (
        BY_ID[row.check](Node(each), Want()).status for each in (before, scrub(before, "gpu01"))
    )
    assert [*told] == [row.status, row.status]
