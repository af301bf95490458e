"""Signatures over the passports of images: keys, and evidence with our finding."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from toolkit.errors import NoEvidence
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.passport import VERIFIED
from toolkit.want import Want


def known_key(key: Path) -> None:
    """Look at the keys that passports are to be signed by, before any node is asked.

    :raises UsageError: they cannot be read, or there is none.
    """
    from toolkit.node import text_signature  # noqa: PLC0415 only who demands passports pays for it

    text_signature.refuse_no_key(key)


def sealed(evidence: Evidence, want: Want) -> Evidence:
    """The evidence with what we, here, found of the signature that was read on the node.

    Unchanged where no signature is demanded, or no passport was read: that is for the check.

    :raises UsageError: the keys cannot be read, or their program is not here.
    """
    if not want.passport_key:
        return evidence
    from toolkit.node import text_signature  # noqa: PLC0415 likewise

    # Whatever a node says under this name is no finding of ours.
    frames = {key: each for key, each in evidence.frames.items() if key != VERIFIED}
    evidence = Evidence(frames, evidence.complete)
    try:
        text, signature = evidence.text("passport"), evidence.frame("passport-sig")
    except NoEvidence:
        return evidence
    if signature.state is State.ABSENT:
        good, told = False, "the passport is not signed"
    elif signature.state is State.OK:
        good, told = text_signature.check(Path(want.passport_key), text, signature.text)
    else:
        return evidence.plus([replace(signature, key=VERIFIED)])
    line = f"{'good' if good else 'bad'} {told}\n"
    return evidence.plus([Frame(VERIFIED, State.OK, want.passport_key, line)])
