"""Does the kernel take modules that were built on the node, and will it after a reboot?"""

from __future__ import annotations

from toolkit.checks.check import (
    Finding,
    Impact,
    Tense,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.modules.fixes import family_of
from toolkit.checks.rdma.makers import takes_nvidia_peermem
from toolkit.errors import NoEvidence
from toolkit.facts.firmware.secureboot import ENROL, Enrolment, SecureBoot
from toolkit.facts.modules.kernel_modules import ModuleFile
from toolkit.facts.modules.refusals import key_rejected
from toolkit.facts.node.node import Node
from toolkit.want import Want

# Would the kernel take the signature of this module?
BUILT_IN = "(builtin)"


def refused(node: Node, file: ModuleFile) -> str:
    """Why the kernel would refuse the module for its signature; "" where it would not.

    That a module is loaded proves that its signature was taken, and so would another by the
    same key. Otherwise the key must be among those that the kernel judges modules by.

    :raises NoEvidence: where a key fits, and nobody can tell whether it counts.
    :raises NeedsRoot: where only the keyrings could tell, and they were not shown.
    """
    demanded = node.signatures_demanded
    if not demanded:
        return ""
    return mistrusted(node, file, demanded)


def mistrusted(node: Node, file: ModuleFile, demanded: str) -> str:
    """The same, for a kernel that demands signatures for another reason than this one's."""
    if file.filename == BUILT_IN:
        return ""
    signer, key = _signed_by(node, file)
    if wrong := _without_signature(node, file, demanded, signer or key):
        return wrong
    # Whether it is a module of the kernel's own RDMA stack: it knows the key it came with.
    inbox = f"/lib/modules/{node.kernel}/kernel/drivers/" in file.filename
    its_own = inbox and file.signed and file.name in node.rdma_files
    if its_own or (signer, key.lstrip("0")) in _taken(node):
        return ""
    if not signer and not key:
        if not node.let_unsigned_in and loaded_as_is(node, file):
            return ""
        raise NoEvidence(
            f"{file.name} is signed, and kmod does not tell by whom",
            hint="a kmod with OpenSSL, or: tail -c 2000 MODULE | strings",
        )
    if node.keys.trusts(signer, key):
        return ""
    return f"{file.name} is signed by {signer or key}, whom the kernel does not trust"


def _without_signature(node: Node, file: ModuleFile, demanded: str, by: str) -> str:
    """Why the module counts as one without signature, whoever signed it; "" where it has one."""
    if not by and not file.signed:
        return f"{file.name} is not signed, under {demanded}"
    if file.name == "nvidia_peermem" and node.peermem_changed:
        return f"{file.name} was changed after it was signed: its signature is of other bytes"
    return ""


def _signed_by(node: Node, file: ModuleFile) -> tuple[str, str]:
    """Signer and key, from the bytes where they were sent, else as modinfo tells."""
    if file.name == "nvidia_peermem" and node.knows_images and file == node.peermem_chosen:
        image = node.peermem_image
        if image is not None:
            found = image.signature
            return ("", "") if found is None else (found.signer, found.key)
    return file.signer, file.key


def loaded_as_is(node: Node, file: ModuleFile) -> bool:
    """Whether the module is loaded from the file that is on disk, as far as both tell."""
    state = node.module_state.get(file.name)
    if state is None:
        return False
    told = ((state.srcversion, file.srcversion), (state.build_id, file.build_id))
    both = {one == other for one, other in told if one and other}
    return both == {True}


def _taken(node: Node) -> set[tuple[str, str]]:
    """Signer and key of modules that are loaded as they are on disk.

    Nothing can be told by that once any module without a good signature was let in.
    """
    if node.let_unsigned_in:
        return set()
    files = [*node.rdma_files.values(), *([node.driver_file] if node.driver_file else [])]
    return {
        (each.signer, each.key.lstrip("0"))
        for each in files
        if each.signer and loaded_as_is(node, each)
    }


def _files(node: Node, want: Want) -> list[ModuleFile]:
    files = [*node.rdma_files.values()]
    if node.driver_file is not None:
        files.append(node.driver_file)
    if takes_nvidia_peermem(node, want) and node.peermem_chosen is not None:
        files.append(node.peermem_chosen)
    return [each for each in files if each.filename != BUILT_IN]


@check(
    "module.signed",
    impact=Impact.BROKEN,
    source="kernel/module/signing.c, module_sig_check; DOCA 3.2 release notes",
    fix="sign the modules with a key that the kernel trusts: mokutil --import, or DKMS's own key",
)
def signed(node: Node, want: Want) -> Finding:
    """Where the kernel demands signatures, it would take those of the path's modules.

    A refused one says "Key was rejected by service", "Required key not available" or
    "Operation not permitted", by release and by setting. Packages may hold modules of two
    signers: all of Canonical, and an nvidia-peermem signed by NVIDIA.
    """
    told = "\n".join(each.words for each in node.not_inserted)
    if key_rejected(f"{node.modprobe_said}\n{told}"):
        signers = node.said_signers
        by = f", signed by {signers['nvidia_peermem']}" if "nvidia_peermem" in signers else ""
        others = sorted({who for name, who in signers.items() if name != "nvidia_peermem"})
        return failed(
            f"modprobe was told that the key was rejected{by}",
            expected=f"signed as the others: {', '.join(others)}" if others else "a trusted signer",
            hint=ENROL,
        )
    if not node.signatures_demanded:
        return not_applicable("the kernel demands no signatures")
    files = _files(node, want)
    if not files:
        return not_applicable("no module of the path on disk")
    wrong = [why for each in files if (why := refused(node, each))]
    if wrong:
        return failed(
            "; ".join(wrong), expected="signed by a key that the kernel trusts", hint=ENROL
        )
    names = sorted({each.signer for each in files if each.signer})
    return passed(f"{node.signatures_demanded}; signed by {', '.join(names) or 'known keys'}")


@check(
    "kernel.config.modsig",
    impact=Impact.FRAGILE,
    source="Documentation/admin-guide/module-signing.rst; dkms, prepare_signing",
    fix="boot a kernel whose configuration names CONFIG_MODULE_SIG_HASH",
)
def modsig(node: Node, want: Want) -> Finding:
    """Where signatures are demanded, DKMS can make them: the kernel names its digest.

    DKMS takes the digest from CONFIG_MODULE_SIG_HASH and cannot sign without it; the next
    rebuild is then refused.
    """
    demanded = node.signatures_demanded
    if not demanded:
        return passed("the kernel demands no signatures")
    digest = node.kernel_config.get("CONFIG_MODULE_SIG_HASH")
    if digest is None:
        return unknown("CONFIG_MODULE_SIG_HASH is not among the options that were read")
    if digest in {"", "n"}:
        return failed(
            f"{demanded}, and no CONFIG_MODULE_SIG_HASH",
            expected="CONFIG_MODULE_SIG_HASH names a digest",
            hint="sign by hand: scripts/sign-file sha256 KEY CERTIFICATE MODULE",
        )
    return passed(f"{demanded}; {digest}")


@check(
    "secureboot.state",
    impact=Impact.FRAGILE,
    source="mokutil(1), --sb-state; UEFI specification, variable SecureBoot",
    fix="sign the modules and enrol the key, or turn Secure Boot off in the BIOS",
)
def state(node: Node, want: Want) -> Finding:
    """Secure Boot is off, or each module of the path is signed.

    Since DOCA 3.2 the drivers of OFED come as sources alone: each node signs what it builds.
    What is signed may still be refused; see module.signed and secureboot.mok.
    """
    boot = node.secure_boot
    if boot is not SecureBoot.ON:
        return passed(str(boot))
    if not node.signatures_demanded:
        return passed("on, and the kernel demands no signatures all the same")
    unsigned = [each.name for each in _files(node, want) if not each.signed]
    if not unsigned:
        return passed("on; each module of the path is signed")
    return failed(
        f"on, and not signed: {', '.join(unsigned)}",
        expected="each module signed",
        hint="build them again with a signing key: dkms autoinstall, after " + ENROL,
    )


@check(
    "secureboot.mok",
    impact=Impact.FRAGILE,
    tense=Tense.AT_BOOT,
    source="mokutil(1), --test-key; dkms, mok_signing_key; Ubuntu update-secureboot-policy",
    fix=ENROL,
)
def mok(node: Node, want: Want) -> Finding:
    """The key that DKMS signs with on this node is enrolled.

    Enrolment ends at the console, in MokManager, after a reboot: it cannot be finished over
    SSH, and is forgotten when nobody answers there.
    """
    if not node.live:
        return not_applicable("keys are enrolled in the firmware of each node")
    if node.secure_boot is not SecureBoot.ON:
        return not_applicable(f"Secure Boot: {node.secure_boot}")
    own, configured = node.own_key, node.configured_certificate
    if configured and (own is None or own[0] != configured):
        return unknown(
            f"DKMS signs with {configured}, which was not tested",
            hint=f"mokutil --test-key {configured}",
        )
    if own is None:
        return not_applicable("no key of the node's own to sign with; see module.signed")
    certificate, enrolment = own
    if enrolment is Enrolment.ENROLLED:
        return passed(f"{certificate}: {enrolment}")
    pending = enrolment is Enrolment.PENDING
    return failed(
        f"{certificate}: {enrolment}",
        expected="enrolled",
        hint="reboot with the console at hand and choose Enroll MOK"
        if pending
        else f"mokutil --import {certificate}, reboot, choose Enroll MOK at the console",
    )


@check(
    "secureboot.site_key",
    impact=Impact.FRAGILE,
    tense=Tense.AT_BOOT,
    source="dkms(8), framework.conf: mok_signing_key, mok_certificate",
    fix="mok_signing_key and mok_certificate in /etc/dkms/framework.conf.d, then build again",
)
def site_key(node: Node, want: Want) -> Finding:
    """DKMS signs with the site's key, where the kernel demands signatures.

    Left to itself it makes a key on each node, which somebody would have to enrol at each
    console. Every module is meant, and nvidia-peermem not less than the driver.
    """
    if want.signing is None:
        return not_applicable("the site names no key: [signing] in its file")
    # An image goes to nodes of which nobody knows yet; the site has named a key for them.
    if not node.has_dkms or (node.live and not node.signatures_demanded):
        lacks = "no DKMS" if not node.has_dkms else "the kernel demands no signatures"
        return not_applicable(lacks)
    expected = f"signs with {want.signing.key} and {want.signing.certificate}"
    key, certificate = node.configured_key, node.configured_certificate
    own = node.own_key if not key and not certificate else None
    if own is not None and own[0] == want.signing.certificate:
        return passed(f"signs with {own[0]}, which is where it looks by itself")
    if (key, certificate) == (want.signing.key, want.signing.certificate):
        return passed(expected)
    found = f"{key or 'its own key'} and {certificate or 'its own certificate'}"
    return failed(
        f"signs with {found}",
        expected=expected,
        hint="lay key and certificate there, then ./invokew provision",
    )


@check(
    "modules.unsupported_gate",
    impact=Impact.BROKEN,
    on_disk=True,
    source="SUSE Linux Enterprise Server administration guide, unsupported kernel modules",
    fix="allow_unsupported_modules 1 in /etc/modprobe.d/10-unsupported-modules.conf, "
    "then rebuild the initramfs",
)
def unsupported_gate(node: Node, want: Want) -> Finding:
    """SUSE's modprobe takes modules that SUSE does not support.

    With "allow_unsupported_modules 0" it refuses the driver and OFED: "module is unsupported".
    """
    if family_of(node).name != "suse":
        return not_applicable(f"not a matter of {node.distro.id}")
    # modprobe.d(5): a file in /etc hides one of the same name elsewhere.
    seen: dict[str, tuple[str, str]] = {}
    for path, line in node.unsupported_gate:
        seen.setdefault(path.rpartition("/")[2], (path, line))
    closed = [(path, line) for path, line in seen.values() if line.split()[1:2] == ["0"]]
    if closed:
        path, line = closed[0]
        return failed(
            f"{path}: {line.strip()}",
            expected="allow_unsupported_modules 1",
            hint="copy the file to /etc/modprobe.d with 1 in place of 0, then dracut -f",
        )
    if not seen:
        return passed("no line closes it")
    return passed(next(f"{path}: {line.strip()}" for path, line in seen.values()))
