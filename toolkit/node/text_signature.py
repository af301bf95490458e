"""Signatures over a passport or a bundle: made and checked by ssh-keygen -Y, or by minisign.

Which of the two is told by the key. The private key never enters this process: the program that
signs opens it where it lies, or asks an agent for it.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from toolkit.errors import UsageError

BUNDLES = "gdr-toolkit-bundle"
NAMESPACE = "gdr-toolkit-passport"  # an SSH signature for another purpose does not pass for ours
_COMMENT = "gdr-toolkit passport"  # in place of minisign's own, which has the time in it
_LIMIT_S = 60.0  # a token that waits for a touch
_ANYBODY = "image"  # whom a bare public key stands for
_PUBLIC = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[\w@.-]+ [A-Za-z0-9+/]+=*(?: .*)?")
_IN_LINE = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[\w@.-]+[ \t]+AAAA[A-Za-z0-9+/]")
_MINISIGN = re.compile(r"RW[A-Za-z0-9+/]{54}")  # "Ed", the key's number, the key: 42 bytes
_GOOD = re.compile(r'Good "[^"]*" signature for (\S+) with (\S+ key \S+)')


class Way(StrEnum):
    SSH = "ssh-keygen"
    MINISIGN = "minisign"


_STARTS = (("-----BEGIN SSH SIGNATURE", Way.SSH), ("untrusted comment:", Way.MINISIGN))


def sign(key: Path, text: str, purpose: str = NAMESPACE) -> str:
    """A signature over a passport, or over a bundle's list of hashes.

    :param key: an OpenSSH private key, or the public one of a key that an agent holds; or a
        secret key of minisign without a passphrase, for a passport.
    :param purpose: the namespace that the signature is good for, and for no other.
    :raises UsageError: the key cannot be used, or its program is not here.
    """
    if way_of(key) is Way.MINISIGN:
        if purpose != NAMESPACE:
            raise UsageError(f"{key}: nodes check bundles by ssh-keygen", hint="give an SSH key")
        return _minisigned(key, text)
    done = _run((Way.SSH, "-Y", "sign", "-q", "-f", str(key), "-n", purpose), text)
    if done.returncode or not done.stdout.startswith("-----BEGIN SSH SIGNATURE"):
        raise UsageError(
            f"{key} cannot sign: {_said(done)}",
            hint="one with a passphrase: ssh-add it, and give the .pub beside it",
        )
    return done.stdout


def _minisigned(key: Path, text: str) -> str:
    with tempfile.TemporaryDirectory(prefix="gdr-seal-") as folder:
        document, signature = Path(folder, "passport.json"), Path(folder, "passport.json.sig")
        document.write_text(text, encoding="ascii")
        words = (Way.MINISIGN, "-S", "-s", str(key), "-m", str(document), "-x", str(signature))
        done = _run((*words, "-c", _COMMENT, "-t", _COMMENT), "")
        if done.returncode or not signature.is_file():
            raise UsageError(
                f"{key} cannot sign: {_said(done)}",
                hint="minisign asks a person for a passphrase; for a pipeline: minisign -G -W",
            )
        return signature.read_text("ascii")


def check(keys: Path, text: str, signature: str) -> tuple[bool, str]:
    """Whether one of the keys has signed exactly this text.

    :param keys: allowed signers of ssh-keygen(1), OpenSSH public keys, or a public key of minisign.
    :returns: and who has; or what is wrong.
    :raises UsageError: the keys cannot be read, or their program is not here.
    """
    way = way_of(keys)
    made = next((made for start, made in _STARTS if signature.startswith(start)), None)
    if made is None:
        return False, "what lies beside the passport is no signature"
    if made is not way:
        return False, f"signed by {made}, and {keys} has a key of {way}"
    with tempfile.TemporaryDirectory(prefix="gdr-seal-") as folder:
        seal = Path(folder, "passport.json.sig")
        # What a node said; as it was read, or not at all.
        seal.write_text(signature, encoding="utf-8", errors="surrogateescape")
        if way is Way.MINISIGN:
            return _minisign_checked(keys, text, seal)
        files = ("-s", str(seal), "-f", str(_allowed(keys, Path(folder))))
        found = _run((Way.SSH, "-Y", "find-principals", *files), text)
        if found.returncode:
            return False, "no key that was given has signed it"
        said = "nobody"
        for who in dict.fromkeys(found.stdout.split("\n")[:-1]):
            words = (Way.SSH, "-Y", "verify", "-n", NAMESPACE, "-I", who, *files)
            done = _run(words, text)
            if done.returncode == 0 and (good := _GOOD.search(done.stdout)):
                return True, f"by {good[1]}, {good[2]}"
            said = _said(done)
        return False, f"the signature is not good: {said}"


def _minisign_checked(key: Path, text: str, seal: Path) -> tuple[bool, str]:
    document = seal.with_name("passport.json")
    document.write_text(text, encoding="utf-8", errors="surrogateescape")
    words = (Way.MINISIGN, "-V", "-p", str(key), "-m", str(document), "-x", str(seal))
    done = _run(words, "")
    if done.returncode == 0:
        return True, f"by minisign's {key.name}"
    return False, f"the signature is not good: {_said(done)}"


def _allowed(keys: Path, folder: Path) -> Path:
    """The file itself, or one made of bare public keys, which have nobody's name before them."""
    lines = _text(keys).split("\n")
    told = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not told or not all(_PUBLIC.fullmatch(line) for line in told):
        return keys
    made = folder / "allowed"
    made.write_text("".join(f"{_ANYBODY} {line}\n" for line in told), encoding="utf-8")
    return made


def refuse_no_key(keys: Path) -> None:
    """Look at what signatures are to be checked by: else every node would be told to be at fault.

    :raises UsageError: it cannot be read, or there is no public key in it.
    """
    text = _text(keys)
    if way_of(keys) is Way.MINISIGN:
        rows = [line.strip() for line in text.split("\n")[1:]]
        good = any(_MINISIGN.fullmatch(line) for line in rows)
    else:
        good = _IN_LINE.search(text) is not None
    if not good:
        raise UsageError(
            f"{keys}: no public key is in it",
            hint="allowed signers of ssh-keygen(1), SSH public keys, or the .pub of minisign",
        )


def way_of(key: Path) -> Way:
    """Whose key it is.

    :raises UsageError: it cannot be read.
    """
    first = _text(key).lstrip().partition("\n")[0]
    return Way.MINISIGN if first.startswith("untrusted comment:") else Way.SSH


def _text(key: Path) -> str:
    try:
        return key.read_text("utf-8", errors="replace")
    except OSError as why:
        raise UsageError(f"{key}: {why.strerror}", hint="a file with a key") from why


def _run(words: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    """In a session of its own and without a window, so that it cannot ask anybody anything.

    :raises UsageError: it is not here, or gave no answer in time.
    """
    try:
        return subprocess.run(
            words,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            env={**os.environ, "SSH_ASKPASS_REQUIRE": "never"},
            start_new_session=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except FileNotFoundError as why:
        package = "openssh-client" if words[0] == Way.SSH else "minisign"
        raise UsageError(
            f"{words[0]} is not here, and the key is one of its own", hint=f"install {package}"
        ) from why
    except subprocess.TimeoutExpired as why:
        raise UsageError(
            f"{words[0]}: no answer within {_LIMIT_S:.0f} s", hint="does a token wait for a touch?"
        ) from why


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in (done.stderr or done.stdout).split("\n") if line.strip()]
    return lines[-1].strip()[:200] if lines else f"status {done.returncode}"
