"""A hundred kinds of identities and secrets, as texts of nodes hold them, with random values."""

from __future__ import annotations

import random
import string
from dataclasses import dataclass

# A line a kind. Fields are what must not be found afterwards, each of a value of its own:
#   host fqdn domain user mail mac MAC dmac bmac guid guid0 ip6 ip priv uuid serial secret org hex17
_KINDS = """
ip={priv}::{priv}:255.255.255.0:{host}:eth0:none ro
ip=[{ip6}]::[{ip6}]:64:{host}:eth0:none ro
BOOTIF=01-{dashes} ro
root=nfs:{host}:/srv/root,vers=3 ro
root=nfs4:{priv}:/srv/root ro
nfsroot={host}:/exports/root ro
netroot=iscsi:{user_pw}@{priv}::3260::iqn.2004-10.com.{word}:root ro
rd.iscsi.username={user} rd.iscsi.password={secret} ro
rd.iscsi.in.username={user} rd.iscsi.in.password="{secret} {secret}" ro
systemd.hostname={host} ro
hostname={fqdn}
http_proxy=http://{user}:{secret}@{fqdn}:3128/
https_proxy=https://{priv}:8080
export HTTPS_PROXY="http://{secret}@{word}.{domain}:3128"
password_pbkdf2 {user} grub.pbkdf2.sha512.10000.{HEX}.{HEX}
grub/grub.cfg:  password_pbkdf2 {user} grub.pbkdf2.sha512.10000.{HEX}
grub/grub.cfg:  password {user} {secret}
set superusers="{user}"
apikey={secret}
api_key: {secret}
APIKEY="{secret}"
pwd={secret}
DB_PWD='{secret}'
db.pass={secret}
psk={secret}
tool --api-key {secret} --verbose
tool --token={secret}
tool --password "{secret}"
Authorization: Bearer {secret}{secret}
Authorization: Basic {secret}{secret}
X-Auth-Token: {secret}{secret}
curl -u {user}:{secret} x
ipmitool -I lanplus -H {priv} -U {user} -P {secret} power status
sshpass -p {secret} ssh x
rocommunity {secret} default
AKIA{UPPER16}
token ghp_{alnum36}
glpat-{alnum20}
hf_{alnum36}
nvapi-{alnum36}
eyJ{alnum20}.{alnum20}.{alnum20}
{{"password": "{secret}", "n": 1}}
{{"client_secret": "{secret} {secret}"}}
clientSecret: {secret}
username={user},password={secret};{secret},domain=x
root:$6$abcdefgh${alnum36}:19000::
user:$y$j9T$abc${alnum36}:19000::
ssh-ed25519 AAAAC3{alnum36} {user}@{host}
ssh-rsa AAAAB3{alnum36}
256 SHA256:{alnum43} no comment (ED25519)
mount {ip}:/data /data nfs4 rw 0 0
{host}:/data /data nfs4 rw,addr={priv} 0 0
//{host}/share /mnt cifs rw,username={user} 0 0
{host}@o2ib:/fs /lustre lustre rw 0 0
nfs: server {host} not responding, still trying
NFS: server {fqdn} OK
server {priv} is up
resolver {priv} is up
driver {priv}
receiver: {ip} ok
nameserver {priv}
search {domain}
host-{priv} up
rack/{priv} up
{priv}/{priv} up
{priv}-{priv}
ip-{dash4}
url http://{priv}/x
url https://{user}@{fqdn}/x
url ftp://{fqdn}/x
address [{ip6}]:443
inet6 {ip6}/64 scope global
OOB eth0:{ip6}%eth0<0>
::ffff:{priv}
ether {mac} txqueuelen 1000
HWaddr {MAC}
mac {dashes}
mac address: {bmac}
hwaddr={bmac}
neighbour {dmac} dynamic
enx{bmac}: link up
wake {mac}.
port guid: 0x{bguid}
node_guid:{guid}
"H-{anyguid}"
switchguid=0x{anyguid}(x)
dev 0x{bguid} up
eui64 {bguid}
Serial Number: {serial}
"SerialNumber": "{serial}",
ID_SERIAL_SHORT: {serial}
Asset Tag: {serial}
/dev/disk/by-id/nvme-X_{serial}
wwn-0x{anyguid} sda
root=UUID={uuid} ro
GPU-{uuid}
machine {hex32}
instance i-{hex17}
arn:aws:iam::{digits12}:role/x
zone /projects/{word}/zones/x
/subscriptions/{uuid}/resourceGroups/{word}/x
path /home/{user}/x
path /mnt/users/{user}/x
sshd[1]: Accepted publickey for {user} from {priv} port 22
pam: session opened for user {user}(uid=1000) by x
uid=1000({user}) x
sudo:  {user} : TTY=pts/0
SUDO_USER={user}
contact {mail} for help
issuer: C=XX, O={org}, CN=key of {org}
Subject: CN = key, OU = {org}
SlurmctldHost={host}
NodeName={host} CPUs=8
ClusterName={word}
"""


@dataclass(frozen=True, slots=True)
class Planted:
    """One line, and what of it must not be found."""

    line: str
    needles: tuple[str, ...]


def _some(rng: random.Random, letters: str, count: int) -> str:
    return "".join(rng.choice(letters) for _ in range(count))


class _Values(dict[str, str]):
    """A value for each field of a line; two of one name are the same."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng

    def __missing__(self, field: str) -> str:
        self[field] = self._made(field)
        return self[field]

    def _made(self, field: str) -> str:
        rng, low = self._rng, string.ascii_lowercase
        word = "q" + _some(rng, "bcdfgjklmnpqrstvwz", 8)
        digits = [_some(rng, "0123456789abcdef", 2) for _ in range(3)]
        mac = ["9c", "63", "c" + rng.choice("0123456789"), *digits]
        guid = [*mac[:3], "03", "00", *mac[3:]]
        quad = [str(rng.randrange(16, 250)) for _ in range(2)]
        some = _some(rng, low + string.digits, 36)
        made = {
            "host": f"{word}{rng.randrange(10, 99)}",
            "fqdn": f"{word}.{word[::-1]}.example",
            "domain": f"{word}.example",
            "word": word,
            "user": word,
            "user_pw": f"{word}:{some[:12]}",
            "secret": f"s{some[:12]}",
            "mail": f"{word}.x@{word[::-1]}.com",
            "org": f"{word.title()} Labs",
            "mac": ":".join(mac),
            "MAC": ":".join(mac).upper(),
            "dashes": "-".join(mac),
            "bmac": "".join(mac),
            "dmac": "{}{}.{}{}.{}{}".format(*mac),
            "guid": "{}{}:{}{}:{}{}:{}{}".format(*guid),
            "bguid": "".join(guid),
            "anyguid": "e" + _some(rng, "123456789abcdef", 15),
            "ip": f"185.{quad[0]}.{quad[1]}.77",
            "priv": f"10.{quad[0]}.{quad[1]}.77",
            "dash4": f"10-{quad[0]}-{quad[1]}-77",
            "ip6": f"2a01:4f8:{''.join(digits[:2])}::{mac[3]}7",
            "uuid": f"{_some(rng, 'abcdef123', 8)}-1fa1-41d2-883f-{_some(rng, 'abcdef123', 12)}",
            "serial": f"S{_some(rng, string.ascii_uppercase + string.digits, 9)}",
            "hex17": _some(rng, "123456789abcdef", 17),
            "hex32": _some(rng, "123456789abcdef", 32),
            "digits12": _some(rng, "123456789", 12),
            "HEX": _some(rng, "123456789ABCDEF", 32),
            "UPPER16": _some(rng, string.ascii_uppercase, 16),
            "alnum20": some[:20],
            "alnum36": some,
            "alnum43": some + some[:7],
        }
        return made[field]


def planted(seed: int) -> list[Planted]:
    """A line of each kind; the same for a seed."""
    rng, lines = random.Random(seed), []  # noqa: S311 - of values that nobody has
    for kind in _KINDS.strip().splitlines():
        values = _Values(rng)
        line = kind.format_map(values)
        lines.append(Planted(line, tuple(each.lower() for each in values.values())))
    return lines
