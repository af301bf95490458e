"""What has DKMS sign with the site's key, and what rebuilds nvidia-peermem by itself: hooks.

===============  ==========================================================================
who calls        where, and when
===============  ==========================================================================
DKMS             3.2 and later: when it has installed something (post_transaction)
package manager  DKMS before 3.2; also where OFED or the driver does not come by DKMS
kernel packages  Debian's and RHEL's, after DKMS's own hook
===============  ==========================================================================

Their places are those that the check looks at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

from toolkit.built.plan.model import Built
from toolkit.checks.kernel.rebuilding import HOOKS, Hook, calls, hooks_of
from toolkit.errors import NoEvidence, Unsupported
from toolkit.facts.distros import every
from toolkit.facts.modules.placed_files import REBUILD
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.plan.artefact import Artefact, Delivered, Trigger, Values
from toolkit.plan.artefacts_modules import dkms_may_build
from toolkit.plan.templates import render_text
from toolkit.want import PeerPath, SigningPaths, Want

_PROOFS = ("peermem.rebuild",)
_BUILT = ("peermem.file", "peermem.stub")
_NEW_KERNEL = "look after nvidia-peermem for a new kernel"
_UPDATED = "rebuild nvidia-peermem when packages have changed what it rests on"
_BY_DKMS = "rebuild nvidia-peermem when DKMS has changed what it rests on"
_ROWS = {  # by the hook's id: title, template
    "dkms": (_BY_DKMS, "dkms/after-transaction.conf.j2"),
    "apt": (_UPDATED, "apt/rebuild.conf.j2"),
    "dnf": (_UPDATED, "dnf/rebuild.action.j2"),
    "dnf5": (_UPDATED, "dnf/rebuild.actions.j2"),
    "zypper": (_UPDATED, "zypper/rebuild.sh.j2"),
    "kernel": (_NEW_KERNEL, "kernel/rebuild.sh.j2"),
    "headers": (_NEW_KERNEL, "kernel/rebuild.sh.j2"),
    "kernel-install": (_NEW_KERNEL, "kernel/rebuild.install.j2"),
}
PATH = "/etc/dkms/framework.conf.d/gdr-toolkit-signing.conf"
TEMPLATE = "dkms/signing.conf.j2"
FRAGMENTS = (3, 0, 4)  # the DKMS that reads framework.conf.d and signs by itself


def rebuilding(*owners: Values) -> tuple[Artefact, ...]:
    """The rows, for nodes where DKMS builds nvidia-peermem, or will by one of ``owners``.

    :param owners: values of the artefacts by which DKMS builds nvidia-peermem.
    """
    built_here = _built_here(owners)
    program = Artefact(
        "rebuild.program",
        "rebuild what no longer fits, aside, and keep what works",
        REBUILD,
        "dkms/rebuild.sh.j2",
        built_here,
        (),
        _PROOFS,
        families=every,
        needs=_BUILT,  # they build nothing now: what does is before them in the plan
        mode=0o755,
    )
    hooks = (
        Artefact(
            f"rebuild.{hook.id}",
            _ROWS[hook.id][0],
            hook.path,
            _ROWS[hook.id][1],
            _called(hook, built_here),
            (),
            _PROOFS,
            needs=_BUILT,
            families=every,
            mode=0o755 if hook.executable else 0o644,
        )
        for hook in HOOKS
    )
    return (program, *hooks)


def _built_here(owners: Sequence[Values]) -> Values:
    def values(node: Node, want: Want) -> Mapping[str, str] | None:
        if want.path is not PeerPath.PEERMEM or node.ofed.flavour is OfedFlavour.INBOX:
            return None
        if not dkms_may_build(node, want):
            return None
        there = node.peermem_dkms or any(each(node, want) is not None for each in owners)
        return {} if there else None

    return values


def _called(hook: Hook, built_here: Values) -> Values:
    def values(node: Node, want: Want) -> Mapping[str, str] | None:
        if hook not in hooks_of(node):
            return None  # which hooks a family lacks is told by the check
        return built_here(node, want) if calls(hook.caller, node) else None

    return values


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
