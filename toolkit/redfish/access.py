"""How to get at BMCs: everything an operator says about them. Nothing is opened here.

Which BMC belongs to which host: a file with one host, or set of hosts, a line.

    gpu001        10.0.7.1
    gpu[002-128]  bmc[002-128].oob:8443           as many BMCs as hosts, in their order
    login1        10.0.7.200  sha256:AB:CD:...    and the fingerprint of its certificate

Comments stand behind "#". What the file says goes over what an inventory has as ``bmc``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.errors import InventoryError, UsageError
from toolkit.hosts.addresses import parse_spot, split_spot, unfold
from toolkit.hosts.host import Host
from toolkit.redfish import LIMIT_S
from toolkit.untrusted import read_host_text

# Whom we talk to, and who we are: a BMC's address, what makes us trust it, our login.
_PIN = re.compile(r"(?:sha-?256:)?((?:[0-9a-f]{2}:?){31}[0-9a-f]{2})", re.IGNORECASE)

# Where systems keep theirs: a Python that did not come with the system may look elsewhere.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
)


class Login(Struct, frozen=True):
    """A user of the BMC. The password shows in no repr, log or report."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Login(user={self.user!r})"


class BmcTrust(Struct, frozen=True):
    """What makes a certificate that of the BMC: the first of these that is set."""

    pins: tuple[str, ...] = ()  # SHA-256 of the certificate, 64 lower hexadecimal digits
    insecure: bool = False  # the operator said so: any certificate will do
    ca: str = ""  # file of CA certificates; "" for those of the system

    @property
    def verified(self) -> str:
        """How reports call it: "pinned", "no" or "ca"."""
        return "pinned" if self.pins else "no" if self.insecure else "ca"


def read_pin(text: str) -> str:
    """A SHA-256 fingerprint: 64 hexadecimal digits, with or without colons and "sha256:".

    :raises UsageError: for anything else.
    """
    found = _PIN.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"{text[:80]!r} is no SHA-256 fingerprint",
            hint="64 hexadecimal digits: openssl x509 -noout -fingerprint -sha256 -in bmc.pem",
        )
    return found[1].replace(":", "").lower()


def check_ca(file: str) -> str:
    """The path, once it is known to hold CA certificates.

    :raises UsageError: it cannot be read, or holds none.
    """
    import ssl  # noqa: PLC0415 who asks no BMC would pay 5 ms for it

    try:
        ssl.create_default_context(cafile=file)
    except ssl.SSLError as why:
        raise UsageError(
            f"{file}: holds no CA certificate", hint="PEM: -----BEGIN CERTIFICATE-----"
        ) from why
    except OSError as why:
        raise UsageError(
            f"{file}: cannot be read: {why.strerror}", hint="name a file that can be read"
        ) from why
    return file


def system_ca() -> str:
    """The file of CA certificates that this machine trusts; "" where there is none."""
    import ssl  # noqa: PLC0415 likewise

    paths = ssl.get_default_verify_paths()
    told = (paths.cafile, paths.openssl_cafile, *_BUNDLES)
    found = [each for each in told if each and Path(each).is_file()]
    return found[0] if found else ""


def base_url(address: str) -> str:
    """Where a BMC's Redfish service begins, without a slash: "https://10.0.0.7:8443".

    :param address: name or address, with or without port, or an https URL.
    :raises UsageError: it is no address, or asks for a password to go in the clear.
    """
    shown = address.rpartition("@")[2]  # what stands before it may be a password
    if shown != address:
        raise UsageError(f"{shown}: name the BMC alone", hint="the user is said by --bmc-user")
    if address.startswith("http://"):
        raise UsageError(f"{address}: a BMC is told secrets over TLS alone", hint="write https://")
    if address.startswith("https://"):
        parts = urlsplit(address)
        if parts.path.strip("/") or parts.query:
            raise UsageError(f"{address}: name the BMC alone", hint="https://10.0.0.7:8443")
        address = parts.netloc
    spot = parse_spot(address)
    host = f"[{spot.host}]" if ":" in spot.host else spot.host
    return f"https://{host}:{spot.port}" if spot.port else f"https://{host}"


class BmcPlace(Struct, frozen=True):
    """Where a host's BMC is, and what its certificate is known by."""

    address: str
    pin: str = ""  # SHA-256, 64 lower hexadecimal digits; "" for none


def read_map(file: Path) -> dict[str, BmcPlace]:
    """The BMCs of a file, by the names of their hosts.

    :raises InventoryError: it cannot be read, or one line of it, with its number.
    """
    found: dict[str, BmcPlace] = {}
    for number, raw in enumerate(read_host_text(file).split("\n"), start=1):
        words = raw.partition("#")[0].split()
        if not words:
            continue
        try:
            for host, place in _line(words):
                if found.setdefault(host, place) != place:
                    raise UsageError(f"{host} has two BMCs", hint="one line a host")
        except UsageError as why:
            raise InventoryError(f"{file}:{number}: {why}", hint=why.hint) from why
    if not found:
        raise InventoryError(f"{file}: names no BMC", hint="one host and its BMC a line")
    return found


def _line(words: list[str]) -> Iterator[tuple[str, BmcPlace]]:
    if len(words) not in (2, 3):
        raise UsageError(
            f"{len(words)} words, where a host, its BMC and maybe a fingerprint stand",
            hint="gpu001 10.0.7.1 sha256:AB:CD:...",
        )
    hosts, addresses = unfold(words[0]), _addresses(words[1])
    pin = read_pin(words[2]) if len(words) == 3 else ""
    if len(hosts) != len(addresses):
        raise UsageError(
            f"{len(hosts)} hosts and {len(addresses)} BMCs", hint="as many of each on a line"
        )
    if pin and len(hosts) > 1:
        raise UsageError("one fingerprint for many BMCs", hint="one line a BMC where it is pinned")
    for host, address in zip(hosts, addresses, strict=True):
        base_url(address)
        yield host, BmcPlace(address, pin)


def _addresses(text: str) -> list[str]:
    """Addresses that a word stands for: only names have ranges."""
    if "[" not in text or text.startswith("["):
        return [text]
    spot = split_spot(text)
    return [f"{name}:{spot.port}" if spot.port else name for name in unfold(spot.host, shown=text)]


class PlacedBmc(Struct, frozen=True):
    """One host's BMC, and what makes us trust it."""

    address: str
    trust: BmcTrust


class BmcAccess(Struct, frozen=True):
    """What was said of BMCs."""

    login: Login
    trust: BmcTrust = field(default_factory=BmcTrust)
    places: Mapping[str, BmcPlace] = field(default_factory=dict)  # --bmc-map, by host's name
    limit_s: float = LIMIT_S

    def placed(self, hosts: Iterable[Host]) -> dict[str, PlacedBmc]:
        """Those of ``hosts`` that have a BMC: the map goes over the inventory.

        :raises UsageError: an address makes no sense.
        """
        found: dict[str, PlacedBmc] = {}
        for host in hosts:
            place = self.places.get(host.name) or BmcPlace(host.bmc)
            if place.address:
                base_url(place.address)
                trust = replace(self.trust, pins=(place.pin,)) if place.pin else self.trust
                found[host.name] = PlacedBmc(place.address, trust)
        return found
