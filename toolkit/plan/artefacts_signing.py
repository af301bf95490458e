"""What makes DKMS sign with the site's key."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from toolkit.built.plan.model import Built
from toolkit.errors import NoEvidence, Unsupported
from toolkit.facts.distros import every
from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Artefact, Delivered, Trigger
from toolkit.plan.templates import render_text
from toolkit.want import SigningPaths, Want

PATH = "/etc/dkms/framework.conf.d/gdr-toolkit-signing.conf"
TEMPLATE = "dkms/signing.conf.j2"
FRAGMENTS = (3, 0, 4)  # the DKMS that reads framework.conf.d and signs by itself


def site_key(node: Node, want: Want) -> Mapping[str, str] | None:
    """Where the site names a key, and DKMS could sign with it.

    :raises NoEvidence: where key or certificate are not to be seen: DKMS makes new ones then.
    :raises Unsupported: for a DKMS that cannot be told, or a key that others may read.
    """
    if want.signing is None or not node.has_dkms:
        return None
    if not node.dkms_version.at_least(*FRAGMENTS):
        raise Unsupported(
            f"DKMS {node.dkms_version} reads no framework.conf.d",
            hint='DKMS 3.0.4 or newer; before that, by hand: sign_tool="PROGRAM" in '
            "/etc/dkms/framework.conf, which is called as PROGRAM KERNEL MODULE; Ubuntu's own "
            "signs with /var/lib/shim-signed/mok/MOK.priv",
        )
    _refuse(node, want.signing)
    return {"key": want.signing.key, "certificate": want.signing.certificate}


def _refuse(node: Node, signing: SigningPaths) -> None:
    files = node.key_files
    for path in (signing.key, signing.certificate):
        if path not in files:
            raise NoEvidence(
                f"{path} is not among the files of keys that were seen on the node",
                hint="lay it there: /etc/dkms/keys, /etc/pki/*, /var/lib/dkms/mok.* and "
                "/var/lib/shim-signed/mok are looked at; DKMS would make a new key",
            )
    if not files[signing.key].private:
        mode = files[signing.key].mode
        raise Unsupported(
            f"{signing.key} has mode {mode:04o} and belongs to user {files[signing.key].uid}: "
            "others may read it",
            hint=f"chown root {signing.key} && chmod 600 {signing.key}",
        )


def _then_signed(node: Node, want: Want, _builts: tuple[Built, ...]) -> Delivered | None:
    """The program that rebuilds looks which modules the kernel would refuse, or an older key
    signed; where DKMS builds no nvidia-peermem, there is no such program.
    """
    values = site_key(node, want)
    if values is None:
        return None
    old = node.placed.get(PATH)
    text = render_text(TEMPLATE, values).encode()
    # Where DKMS was told already, and does otherwise, something overrides it: no build helps.
    told = old is not None and old.sha256 == sha256(text).hexdigest()
    builds = node.peermem_dkms and not told
    return Delivered(values, b"", (Trigger.BUILD_DKMS,) if builds else ())


SIGNING = (
    Artefact(
        "dkms.signing",
        "let DKMS sign with the site's key",
        PATH,
        TEMPLATE,
        site_key,
        (),
        ("secureboot.site_key",),
        families=every,
        chosen=_then_signed,
    ),
)
