"""How texts write what identifies a site: one pattern a form."""

from __future__ import annotations

import re

OWN = r"(?<![0-9A-Za-z])"  # nothing before that would make it part of a longer word
END = r"(?![0-9A-Za-z])"
# Not amid an IPv4 address, as in dracut's ip=A::B: and with one at its end, as RFC 4291 has it.
IPV6 = (
    r"(?<![0-9A-Za-z.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,9}"
    r"(?:(?<=:)(?:\d{1,3}\.){3}\d{1,3})?(?!\.?[0-9A-Za-z])"
)
GUID = rf"{OWN}(?<![0-9a-fA-F]{{4}}:)(?:[0-9a-fA-F]{{4}}:){{3}}[0-9a-fA-F]{{4}}(?!:?[0-9A-Za-z])"
GUID_NUMBER = r"(?i:guid|\bpdi|host_hash)[\"']?\s*[:=]\s*[\"']?(?:0x)?([0-9a-fA-F]{9,16})" + END
OCTETS = rf"{OWN}[0-9a-fA-F]{{2}}(?:([:-])[0-9a-fA-F]{{2}})(?:\1[0-9a-fA-F]{{2}})+{END}"
# A GUID made of a MAC holds 0300 or fffe in its midst; ibnetdiscover names nodes by theirs.
BARE_GUID = (
    rf"(?<![0-9A-WYZa-wyz])([0-9a-fA-F]{{6}}(?:0300|[fF]{{3}}[eE])[0-9a-fA-F]{{6}}){END}"
    rf"|(?<=\"[HSRC]-)([0-9a-fA-F]{{16}}){END}"
)
# Without signs, behind a word that says so; and with dots, as switches write it.
BARE_MAC = (
    r"(?:\ben[xX]|(?i:(?<![A-Za-z])(?:mac(?:[ _-]?addr(?:ess)?)?|hwaddr|ether|lladdr)[\"']?"
    rf"[\s=:]+[\"']?(?:0x)?))([0-9a-fA-F]{{12}}){END}"
)
DOTTED = rf"{OWN}(?<!\.)(?=[\d.]*[a-fA-F])((?:[0-9a-fA-F]{{4}}\.){{2,3}}[0-9a-fA-F]{{4}})(?!\.?\w)"
UUID = rf"{OWN}[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}{END}"
SHORT_UUID = r"(?<=UUID=)[0-9a-fA-F]{4,8}-[0-9a-fA-F]{2,4}(?![0-9A-Za-z-])"
MACHINE_ID = rf"{OWN}[0-9a-f]{{32}}{END}"
IPV4 = r"(?<!\d)(?<!\d\.)(?:\d{1,3}\.){3}\d{1,3}(?!\.?\d)"
DASHED_IPV4 = r"(?<=\bip-)\d{1,3}(?:-\d{1,3}){3}(?!\d)"
SERIAL = (
    r"(?i:(?:serial(?:[ _-]?(?:number|no|num|nr|short))?|(?:asset|service)[ _-]?tag|\bsku)\.?[\"']?"
    r"[^\S\n]*[:=][^\S\n]*[\"']?)([^\s\"'][^\n\"',]*)"
)
MELLANOX_SERIAL = rf"{OWN}MT\d{{4}}[A-Z]{{1,2}}\d{{5,6}}{END}"
DISK = r"(?<=/by-id/)[^\s\"'/]+"
WWN = rf"{OWN}(?:wwn-|naa\.|eui\.|sas_addr\()(?:0x)?[0-9a-fA-F]{{16,32}}"
IQN = r"\biqn\.\d{4}-\d\d\.[\w.:-]+"
HOME = r"(?:(?<=/home/)|(?<=/homes/)|(?<=/users/)|(?<=/Users/))[^\s/:\"']+"
USER = (
    r"(?:\b(?:opened|closed|publickey|password|keyboard-interactive(?:/pam)?) for"
    r"(?: invalid)?(?: user)? |\b(?:SUDO_USER|LOGNAME|USER|USERNAME|user|ruser)=[\"']?"
    r"|\b[ug]id=\d+\(|\bsudo: +)([A-Za-z_][\w.-]*)"
)
MAIL = (
    r"(?<![\w.+/@-])[\w.+-]+@(?:[A-Za-z0-9-]+\.)+"
    r"(?!(?:service|socket|timer|mount|automount|target|slice|scope|swap|path|device)\b)"
    r"[A-Za-z]{2,}\b"
)
SERVER = r"(?<=[a-z]://)(?:hidden@)?([A-Za-z][\w.-]*)"
# What a cloud calls a machine, a network, an account.
CLOUD = (
    r"\b(?:i|ami|vpc|subnet|eni|sg|vol|snap|igw|rtb|fs|lt)-[0-9a-f]{8}(?:[0-9a-f]{9})?(?![\w-])"
    r"|\bocid1\.[\w.-]+|(?<=:)\d{12}(?=:)|(?<=/projects/)[\w-]+|(?<=/resourceGroups/)[\w.-]+"
)
FINGERPRINT = r"(?<=\bSHA256:)[A-Za-z0-9+/]{43}(?![A-Za-z0-9+/])"

# Behind a word that says so, or as the version behind a name: mlnx-ofed-24.10.2.1, knem/1.1.4.90.
VERSION = re.compile(
    r"(?i)(?:(?:version|firmware|release|(?<![a-z])(?:ver|fw|rev))(?:[_ ]?\w+)?[\s:=\"'(]*v?)$"
)
OF_A_NAME = re.compile(r"(?:[-_]|[A-Za-z][\w.+-]*/|[A-Za-z]\.)$")
# Names of hosts in texts of any kind, which may be those of other nodes; "a b" are two.
NAMED = (
    # dracut.cmdline(7)
    re.compile(r"(?<!\S)ip=(?:(?:\[[^]\s]*\]|[^\s:]*):){4}([A-Za-z][\w.-]*):"),
    re.compile(r"\b(?:systemd\.)?hostname[=:]\s*\"?([A-Za-z][\w.-]*)"),
    re.compile(r"(?:nfsroot=|root=nfs4?:|\bserver )([A-Za-z][\w.-]*)(?=:/| not | OK)"),
    re.compile(r"(?m)(?:^|[\s:])([A-Za-z][\w.-]*):/\S* /\S* nfs4? "),  # /proc/mounts
    re.compile(r"(?<![\w:/])//([A-Za-z][\w.-]*)/[\w$.-]+ "),  # CIFS
    re.compile(r"([A-Za-z][\w.-]*+)@(?:o2ib|tcp)\d*\b"),  # Lustre
    re.compile(
        r"(?i)\b(?:SlurmctldHost|ControlMachine|BackupController|AccountingStorageHost|DbdHost"
        r"|NodeHostname|NodeName|ClusterName|sysMgmtdHost)\s*=\s*([A-Za-z][\w.-]*)(?![\w.[-])"
    ),
    re.compile(r"(?m)^(?:search|domain) (?=\S*\.)([A-Za-z][\w. -]*)$"),
)
# Who a certificate is for, where its line is that of a certificate.
ORGANISATION = re.compile(
    r"(?:\b(?:O|OU|organizationName|organizationalUnitName)\s?=\s?(?=[^\n]*\bCN\b|[^\n]*commonName)"
    r"|\bCN\b[^\n]*\b(?:O|OU)\s?=\s?|\bOrganization(?: Name)?\s*[:=]\s*)"
    r"(?:\"([^\"\n]+)\"|([^,/+\n\"]+))"
)
