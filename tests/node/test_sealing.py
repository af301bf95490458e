"""Signatures over passports: which program is asked for what, and what its answer amounts to."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from toolkit.errors import UsageError
from toolkit.node import text_signature
from toolkit.node.text_signature import NAMESPACE, Way, check, refuse_no_key, sign, way_of

SSH_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\n"
MINI_KEY = "untrusted comment: minisign\n"
SSH_SEAL = "-----BEGIN SSH SIGNATURE-----\nx\n-----END SSH SIGNATURE-----\n"
MINI_SEAL = "untrusted comment: x\nRU\n"
PUBLIC = "ssh-ed25519 AAAAC3Nz ops@site"
# Notes its words and its input, and says what lies there for it to say.
PROGRAM = """#!/bin/sh
name=$(basename "$0")
printf '%s\\n' "$name $*" >>"$SEAL/log"
[ "$2" = find-principals ] && say=find || say=$name
for each; do [ "$last" = -f ] && { cat "$each" >"$SEAL/given"; } 2>/dev/null; last=$each; done
if [ "$name" = ssh-keygen ]; then cat >"$SEAL/input.$say"; fi
echo "$SSH_ASKPASS_REQUIRE" >"$SEAL/askpass"
last=
for each; do
    if [ "$name" = minisign ] && [ "$last" = -m ]; then cat "$each" >"$SEAL/document"; fi
    if [ "$1" = -S ] && [ "$last" = -x ] && [ -e "$SEAL/seal" ]; then cat "$SEAL/seal" >"$each"; fi
    if [ "$1" = -V ] && [ "$last" = -x ]; then cat "$each" >"$SEAL/checked"; fi
    last=$each
done
cat "$SEAL/$say.out" 2>/dev/null
cat "$SEAL/$say.err" >&2 2>/dev/null
exit "$(cat "$SEAL/$say.status" 2>/dev/null || echo 0)"
"""


class Programs:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def say(self, name: str, out: str = "", err: str = "", status: int = 0) -> None:
        (self.folder / f"{name}.out").write_text(out)
        (self.folder / f"{name}.err").write_text(err)
        (self.folder / f"{name}.status").write_text(str(status))

    def told(self, name: str) -> str:
        return (self.folder / name).read_text()

    @property
    def log(self) -> list[str]:
        return self.told("log").split("\n")[:-1]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    folder = tmp_path / "programs"
    (folder / "bin").mkdir(parents=True)
    for name in ("ssh-keygen", "minisign"):
        (folder / "bin" / name).write_text(PROGRAM)
        (folder / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("SEAL", str(folder))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    return Programs(folder)


def file(folder: Path, text: str, name: str = "key") -> Path:
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize(
    ("text", "way"),
    [
        (SSH_KEY, Way.SSH),
        (PUBLIC, Way.SSH),
        ("", Way.SSH),
        (MINI_KEY, Way.MINISIGN),
        (f"\n {MINI_KEY}", Way.MINISIGN),
        (f"x\n{MINI_KEY}", Way.SSH),
    ],
)
def test_whose_key_it_is(tmp_path: Path, text: str, way: Way) -> None:
    assert way_of(file(tmp_path, text)) is way


def test_a_key_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="/none: No such file or directory"):
        way_of(tmp_path / "none")


def test_ssh_keygen_signs(programs: Programs, tmp_path: Path) -> None:
    key = file(tmp_path, SSH_KEY)
    programs.say("ssh-keygen", SSH_SEAL, "noise")
    assert sign(key, "text") == SSH_SEAL
    assert programs.log == [f"ssh-keygen -Y sign -q -f {key} -n gdr-toolkit-passport"]
    assert programs.told("input.ssh-keygen") == "text"
    assert programs.told("askpass") == "never\n"


@pytest.mark.parametrize(
    ("out", "err", "status", "said"),
    [
        (SSH_SEAL, "first\n  locked \n\n", 255, "locked"),
        (SSH_SEAL, "", 255, "-----END SSH SIGNATURE-----"),
        ("", "", 3, "status 3"),
        ("odd\n", "", 0, "odd"),
        ("", "x" * 300, 1, "x" * 200),
    ],
)
def test_ssh_keygen_cannot_sign(
    programs: Programs, *, tmp_path: Path, out: str, err: str, status: int, said: str
) -> None:
    key = file(tmp_path, SSH_KEY)
    programs.say("ssh-keygen", out, err, status)
    with pytest.raises(UsageError) as raised:
        sign(key, "text")
    assert str(raised.value) == f"{key} cannot sign: {said}"


def test_minisign_signs_without_a_time(programs: Programs, tmp_path: Path) -> None:
    key = file(tmp_path, MINI_KEY)
    (programs.folder / "seal").write_text(MINI_SEAL)
    assert sign(key, "text") == MINI_SEAL
    [words] = programs.log
    comment = "gdr-toolkit passport"
    assert words.startswith(f"minisign -S -s {key} -m ")
    assert words.endswith(f"/passport.json.sig -c {comment} -t {comment}")
    assert programs.told("document") == "text"


@pytest.mark.parametrize(("seal", "status"), [(MINI_SEAL, 1), ("", 0)])
def test_minisign_cannot_sign(programs: Programs, tmp_path: Path, seal: str, status: int) -> None:
    key = file(tmp_path, MINI_KEY)
    programs.say("minisign", "", "Wrong password\n", status)
    if seal:
        (programs.folder / "seal").write_text(seal)
    with pytest.raises(UsageError, match="/key cannot sign: Wrong password"):
        sign(key, "text")


GOOD = 'Good "gdr-toolkit-passport" signature for ops with ED25519 key SHA256:abc\n'


def test_a_good_signature_of_ssh_keygen(programs: Programs, tmp_path: Path) -> None:
    keys = file(tmp_path, f"ops {PUBLIC}\n")
    programs.say("find", "ops\nops\nother\n")
    programs.say("ssh-keygen", GOOD)
    assert check(keys, "text", SSH_SEAL) == (True, "by ops, ED25519 key SHA256:abc")
    find, verify = programs.log
    assert find.startswith("ssh-keygen -Y find-principals -s ")
    assert find.endswith(f"/passport.json.sig -f {keys}")
    assert verify.startswith(f"ssh-keygen -Y verify -n {NAMESPACE} -I ops -s ")
    assert programs.told("input.find") == programs.told("input.ssh-keygen") == "text"


@pytest.mark.parametrize(
    ("found", "out", "status", "told", "calls"),
    [
        (1, GOOD, 0, "no key that was given has signed it", 1),
        (0, GOOD, 255, "the signature is not good: " + GOOD.strip(), 3),
        (0, "odd", 0, "the signature is not good: odd", 3),
    ],
)
def test_a_signature_of_ssh_keygen_that_is_not_good(
    programs: Programs, *, tmp_path: Path, found: int, out: str, status: int, told: str, calls: int
) -> None:
    keys = file(tmp_path, f"ops {PUBLIC}\n")
    programs.say("find", "ops\nother\n", status=found)
    programs.say("ssh-keygen", out, status=status)
    assert check(keys, "text", SSH_SEAL) == (False, told)
    assert len(programs.log) == calls


def test_nobody_has_signed(programs: Programs, tmp_path: Path) -> None:
    programs.say("find", "")
    told = check(file(tmp_path, f"ops {PUBLIC}\n"), "text", SSH_SEAL)
    assert told == (False, "the signature is not good: nobody")


@pytest.mark.parametrize(
    ("text", "given"),
    [
        (f"{PUBLIC}\n", f"image {PUBLIC}\n"),
        (f"# a comment\n\n  {PUBLIC} \nsk-{PUBLIC}\n", f"image {PUBLIC}\nimage sk-{PUBLIC}\n"),
        (f"ops {PUBLIC}\n", f"ops {PUBLIC}\n"),
        (f"{PUBLIC}\nops {PUBLIC}\n", f"{PUBLIC}\nops {PUBLIC}\n"),
        ("# nothing\n", "# nothing\n"),
        ("ecdsa-sha2-nistp256 AAAAE2Vj==\n", "image ecdsa-sha2-nistp256 AAAAE2Vj==\n"),
    ],
)
def test_bare_public_keys_stand_for_the_image(
    programs: Programs, tmp_path: Path, text: str, given: str
) -> None:
    programs.say("find", "image\n")
    programs.say("ssh-keygen", GOOD)
    check(file(tmp_path, text), "text", SSH_SEAL)
    assert programs.told("given") == given


@pytest.mark.parametrize(
    ("status", "told"), [(0, (True, "by minisign's key.pub")), (1, (False, "not good: bad"))]
)
def test_a_signature_of_minisign(
    programs: Programs, tmp_path: Path, status: int, told: tuple[bool, str]
) -> None:
    keys = file(tmp_path, MINI_KEY, "key.pub")
    programs.say("minisign", "", "bad\n", status)
    good, why = check(keys, "te\udcffxt", f"{MINI_SEAL}\udcfe")
    assert (good, why.removeprefix("the signature is ")) == told
    [words] = programs.log
    assert words.startswith(f"minisign -V -p {keys} -m ")
    assert (programs.folder / "document").read_bytes() == b"te\xffxt"
    assert (programs.folder / "checked").read_bytes() == MINI_SEAL.encode() + b"\xfe"


@pytest.mark.parametrize(
    ("key", "signature", "told"),
    [
        (SSH_KEY, "odd", "what lies beside the passport is no signature"),
        (SSH_KEY, "", "what lies beside the passport is no signature"),
        (SSH_KEY, MINI_SEAL, "signed by minisign, and {} has a key of ssh-keygen"),
        (MINI_KEY, SSH_SEAL, "signed by ssh-keygen, and {} has a key of minisign"),
    ],
)
def test_a_signature_that_no_key_here_can_have_made(
    programs: Programs, tmp_path: Path, key: str, signature: str, told: str
) -> None:
    keys = file(tmp_path, key)
    assert check(keys, "text", signature) == (False, told.format(keys))
    assert not (programs.folder / "log").exists()


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (PUBLIC, True),
        (f"ops,dev cert-authority\t{PUBLIC}", True),
        ("sk-ssh-ed25519@openssh.com AAAAGnNr x", True),
        ("ssh-ed25519 AAAA", False),
        ("ssh-ed25519 BBBBC3Nz", False),
        ("", False),
        (SSH_KEY, False),
        (f"untrusted comment: x\nRW{'A' * 54}\n", True),
        (f"untrusted comment: x\n RW{'A' * 54} \n", True),
        (f"untrusted comment: x\nRW{'A' * 53}\n", False),
        (f"untrusted comment: x\nRW{'A' * 55}\n", False),
        (f"untrusted comment: RW{'A' * 54}\n", False),
        (f"untrusted comment: x\n{PUBLIC}\n", False),
    ],
)
def test_a_file_without_a_public_key(tmp_path: Path, text: str, good: bool) -> None:
    keys = file(tmp_path, text)
    if good:
        refuse_no_key(keys)
        return
    with pytest.raises(UsageError, match="/key: no public key is in it"):
        refuse_no_key(keys)


@pytest.mark.parametrize(
    ("key", "name", "package"),
    [(SSH_KEY, "ssh-keygen", "openssh-client"), (MINI_KEY, "minisign", "minisign")],
)
def test_a_program_that_is_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, name: str, package: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=f"{name} is not here") as raised:
        sign(file(tmp_path, key), "text")
    assert raised.value.hint == f"install {package}"


def test_a_token_that_nobody_touches(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_signature, "_LIMIT_S", 0.05)
    (programs.folder / "bin/ssh-keygen").write_text("#!/bin/sh\nexec sleep 9\n")
    with pytest.raises(UsageError, match="ssh-keygen: no answer within 0 s"):
        sign(file(tmp_path, SSH_KEY), "text")


def test_nobody_can_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def run(words: object, **more: object) -> object:
        seen.update(more)
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(UsageError):
        sign(file(tmp_path, SSH_KEY), "text")
    assert seen["start_new_session"] is True
    assert (seen["encoding"], seen["errors"]) == ("utf-8", "surrogateescape")
