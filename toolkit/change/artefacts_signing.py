"""What makes DKMS sign with the site's key."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.change.artefact import Artefact
from toolkit.errors import NoEvidence, Unsupported
from toolkit.facts.node import Node
from toolkit.want import SigningPaths, Want

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


SIGNING = (
    Artefact(
        "dkms.signing",
        "let DKMS sign with the site's key",
        "/etc/dkms/framework.conf.d/gdr-toolkit-signing.conf",
        "dkms/signing.conf.j2",
        site_key,
        # What was signed otherwise is built again by its own rows, or by the next update.
        (),
        ("secureboot.site_key",),
    ),
)
