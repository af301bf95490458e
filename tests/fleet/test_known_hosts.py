"""Which host keys are taken: by both transports as by the OpenSSH client on the same files."""

from __future__ import annotations

import base64
import hmac
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fleet.conftest import Site
from tests.fleet.sshd import Keys, Sshd, keygen
from toolkit.errors import HostKeyError
from toolkit.hosts.host import Host

pytestmark = pytest.mark.sshd
LONG = True


@dataclass(frozen=True, slots=True)
class Case:
    """Lines of files, with {at}, {plain}, {key}, {other}, {rsa} and {hash_at}, {hash_plain}."""

    user: str = ""
    more: str = ""  # the second of the user's files
    site: str = ""  # the global one
    alias: str = ""  # HostKeyAlias
    listed: str | None = None  # the content of RevokedHostKeys
    says: str = ""  # "": it is taken; else part of the sentence


REVOKED, UNKNOWN, CHANGED = "is marked as revoked at", "is not known", "has CHANGED"
CASES = {
    "known": Case("{at} {key}"),
    "nobody": Case(says=UNKNOWN),
    "changed": Case("{at} {other}", says=CHANGED),
    "known-beside-another": Case("{at} {other}\n{at} {key}"),
    "another-kind": Case("{at} {rsa}", says=f"{UNKNOWN}|{CHANGED}"),
    "another-port": Case("[127.0.0.1]:1 {key}", says=UNKNOWN),
    "plain": Case("{plain} {key}"),
    "plain-beside-another-kind": Case("{at} {rsa}\n{plain} {key}", says=f"{UNKNOWN}|{CHANGED}"),
    "plain-beside-a-revoked-one": Case("@revoked {at} {other}\n{plain} {key}"),
    "plain-other": Case("{plain} {other}", says=UNKNOWN),
    "hashed": Case("{hash_at} {key}"),
    "hashed-plain": Case("{hash_plain} {key}"),
    "wildcard": Case("[127.0.*]:* {key}"),
    "negated": Case("[127.*]:*,!{at} {key}", says=UNKNOWN),
    "negated-plain": Case("*,!{at} {key}"),
    "tabs": Case("\t{at}\t{tabbed}"),
    "comment": Case("# {at} {key}", says=UNKNOWN),
    "odd-mark": Case("@odd {at} {key}", says=UNKNOWN),
    "revoked": Case("{at} {key}\n@revoked {at} {key}", says=REVOKED),
    "revoked-first": Case("@revoked {at} {key}\n{at} {key}", says=REVOKED),
    "revoked-alone": Case("@revoked {at} {key}", says=REVOKED),
    "revoked-everywhere": Case("{at} {key}\n@revoked * {key}", says=REVOKED),
    "revoked-on-every-port": Case("{at} {key}\n@revoked [127.0.0.1]:* {key}", says=REVOKED),
    "revoked-hashed": Case("{at} {key}\n@revoked {hash_at} {key}", says=REVOKED),
    "revoked-with-tabs": Case("{at} {key}\n@revoked\t{at}\t{tabbed}", says=REVOKED),
    "revoked-but-here": Case("{at} {key}\n@revoked *,!{at} {key}"),
    "revoked-other": Case("{at} {key}\n@revoked * {other}"),
    "plain-revoked": Case("{plain} {key}\n@revoked {plain} {key}", says=REVOKED),
    "plain-revoked-first": Case("@revoked {plain} {key}\n{plain} {key}", says=REVOKED),
    "plain-revoked-hashed": Case("{plain} {key}\n@revoked {hash_plain} {key}", says=REVOKED),
    "plain-revoked-pattern": Case("{plain} {key}\n@revoked 127.0.0.? {key}", says=REVOKED),
    "plain-revoked-alone": Case("@revoked {plain} {key}", says=REVOKED),
    "plain-revoked-known-at": Case("{at} {key}\n@revoked {plain} {key}"),
    "revoked-by-the-second": Case("{at} {key}", more="@revoked * {key}", says=REVOKED),
    "revoked-by-the-site": Case("{at} {key}", site="@revoked * {key}", says=REVOKED),
    "known-to-the-site": Case(site="{at} {key}"),
    "revoked-by-the-user": Case("@revoked {at} {key}", site="{at} {key}", says=REVOKED),
    "plain-revoked-by-the-site": Case("{plain} {key}", site="@revoked {plain} {key}", says=REVOKED),
    "alias": Case("gpu7 {key}", alias="gpu7"),
    "alias-case": Case("GPU7 {key}", alias="Gpu7"),
    "alias-alone": Case("{at} {key}\n{plain} {key}", alias="gpu7", says=UNKNOWN),
    "alias-revoked": Case("gpu7 {key}\n@revoked gpu? {key}", alias="gpu7", says=REVOKED),
    "alias-not-revoked": Case("gpu7 {key}\n@revoked {at},{plain} {key}", alias="gpu7"),
    "listed": Case("{at} {key}", listed="# all of them\n\n{other}\n{key}\n", says=REVOKED),
    "others-listed": Case("{at} {key}", listed="{other} somebody@somewhere\n"),
    "listed-nothing": Case("{at} {key}", listed=""),
    "listed-garbage": Case("{at} {key}", listed="garbage\n", says="RevokedHostKeys"),
}
# The second transport is the client on the same files; that it adds nothing to what the client
# decides is seen where the two are asked side by side: one case of each class.
SAMPLE = frozenset({"known", "nobody", "changed", "revoked", "alias", "listed", "listed-garbage"})
SIGNED = "known by an authority alone"


def hashed(name: str) -> str:
    salt = b"0123456789abcdefghij"
    digest = hmac.digest(salt, name.encode(), "sha1")
    return "|1|" + "|".join(base64.b64encode(part).decode() for part in (salt, digest))


def public(key: Path) -> str:
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


@pytest.fixture(scope="module")
def words(keys: Keys, sshd: Sshd, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("others")
    for name, kind in (("other", "ed25519"), ("rsa", "rsa")):
        keygen("-t", kind, "-N", "", "-f", str(folder / name))
    at, plain, key = f"[127.0.0.1]:{sshd.port}", "127.0.0.1", public(keys.host)
    return {
        "at": at,
        "plain": plain,
        "hash_at": hashed(at),
        "hash_plain": hashed(plain),
        "key": key,
        "tabbed": key.replace(" ", "\t"),
        **{name: public(folder / name) for name in ("other", "rsa")},
    }


def lay(site: Site, keys: Keys, case: Case, words: dict[str, str]) -> None:
    """The files of a case, and an ssh_config that names them."""
    texts = {"user": case.user, "more": case.more, "site": case.site}
    for name, text in texts.items():
        (site.folder / name).write_text(text.format(**words) + "\n" * bool(text))
    lines = [f"HostKeyAlias {case.alias}"] if case.alias else []
    if case.listed is not None:
        (site.folder / "listed").write_text(case.listed.format(**words))
        lines.append(f"RevokedHostKeys {site.folder}/listed")
    site.write(
        f"UserKnownHostsFile {site.folder}/user {site.folder}/more",
        f"GlobalKnownHostsFile {site.folder}/site",
        *("IdentitiesOnly yes", "IdentityAgent none", f"IdentityFile {keys.user}", *lines),
    )


def takes(site: Site, port: int) -> bool:
    """Whether the client itself does, told nothing but to be strict."""
    strict = ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]
    words = ["ssh", "-F", str(site.config), *strict, "-p", str(port), "127.0.0.1", "true"]
    return subprocess.run(words, capture_output=True, check=False, timeout=30).returncode == 0


@pytest.mark.parametrize("name", CASES)
def test_a_key_is_taken_where_the_client_takes_it(
    site: Site, sshd: Sshd, keys: Keys, words: dict[str, str], name: str
) -> None:
    case = CASES[name]
    lay(site, keys, case, words)
    transport = site.open(Host("127.0.0.1", port=sshd.port), become=False)
    if not case.says:
        assert transport.run("echo in\n", limit_s=30).stdout == "in\n"
    else:
        with pytest.raises(HostKeyError, match=case.says) as raised:
            transport.run("echo in\n", limit_s=30)
        assert "\n" not in str(raised.value)
        assert raised.value.hint
    if site.kind == "openssh" and name in SAMPLE:
        assert takes(site, sshd.port) == (not case.says)


def test_a_list_of_revoked_keys_that_is_not_there_trusts_nobody(
    site: Site, sshd: Sshd, keys: Keys, words: dict[str, str]
) -> None:
    lay(site, keys, Case("{at} {key}", listed=""), words)
    (site.folder / "listed").unlink()
    with pytest.raises(HostKeyError, match=r"RevokedHostKeys .*: No such file or directory"):
        site.open(Host("127.0.0.1", port=sshd.port), become=False).run("true\n", limit_s=30)
    assert not takes(site, sshd.port)


@pytest.fixture(scope="module")
def signed(keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Sshd:
    """A server with a certificate; its authority is that of the test site's users."""
    folder = tmp_path_factory.mktemp("signed")
    own = Keys(folder / "host_key", keys.user, keys.authority)
    keygen("-t", "ed25519", "-N", "", "-f", str(own.host))
    keygen("-s", str(keys.authority), "-h", "-I", "gpu7", "-n", "127.0.0.1", str(own.host) + ".pub")
    settings = [f"HostCertificate {own.host}-cert.pub"]
    return Sshd(folder / "sshd", keys=own, settings=settings)


@pytest.mark.parametrize(
    ("user", "says"),
    [
        pytest.param("@cert-authority {at} {signer}", "", id="at"),
        pytest.param("@cert-authority {plain} {signer}", "", id="plain"),
        pytest.param("@cert-authority * {signer}\n{at} {other}", "", id="beside-an-old-key"),
        pytest.param(
            "@cert-authority * {signer}\n@revoked * {signer}", "revoked|not known", id="revoked"
        ),
        pytest.param("@cert-authority * {signer}\n@revoked * {key}", REVOKED, id="key-revoked"),
        pytest.param("@cert-authority * {other}", "not known", id="another-authority"),
    ],
)
def test_what_an_authority_has_signed(
    site: Site,
    signed: Sshd,
    keys: Keys,
    words: dict[str, str],
    *,
    user: str,
    says: str,
) -> None:
    with signed:
        given = words | {
            "at": f"[127.0.0.1]:{signed.port}",
            "key": public(signed.keys.host),
            "signer": public(keys.authority),
        }
        lay(site, keys, Case(user), given)
        transport = site.open(Host("127.0.0.1", port=signed.port), become=False)
        expected = says if site.kind == "openssh" else f"{SIGNED}|{REVOKED}"
        if not expected:
            assert transport.run("echo in\n", limit_s=30).stdout == "in\n"
        else:
            with pytest.raises(HostKeyError, match=expected) as raised:
                transport.run("echo in\n", limit_s=30)
            assert raised.value.hint
        assert takes(site, signed.port) == (not says)


def test_a_key_known_by_itself_needs_no_authority(
    site: Site, signed: Sshd, keys: Keys, words: dict[str, str]
) -> None:
    with signed:
        given = words | {
            "at": f"[127.0.0.1]:{signed.port}",
            "key": public(signed.keys.host),
            "signer": public(keys.authority),
        }
        lay(site, keys, Case("@cert-authority {at} {signer}\n{at} {key}"), given)
        transport = site.open(Host("127.0.0.1", port=signed.port), become=False)
        assert transport.run("echo in\n", limit_s=30).stdout == "in\n"
