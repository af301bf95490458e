"""A node in a folder whose HCAs keep firmware settings, asked by one shell."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from toolkit.ssh.transport import Result, Sink, quiet

FIRST, SECOND, BROADCOM = "0000:19:00.0", "0000:3b:00.0", "0000:31:00.0"
# Name, default, what holds now, what the next boot has: as mlxconfig words them.
SETTINGS = """\
MEMIC_BAR_SIZE 0 0 0
ATS_ENABLED False(0) True(1) True(1)
PCI_WR_ORDERING per_mkey(0) per_mkey(0) per_mkey(0)
SRIOV_EN True(1) False(0) False(0)
MAX_ACC_OUT_READ 0 0 0
LINK_TYPE_P1 IB(1) ETH(2) ETH(2)
ROCE_CC_PRIO_MASK_P1 255 255 255
"""
# The forms are those of mlxcfg_ui.cpp: a header, a row a setting, a star where the next boot
# differs; and of a change the question, the answer, and what to do then.
MLXCONFIG = r"""#!/bin/sh
echo "$0 $*" >>"$GDR_ROOT/asked"
yes=''
while [ $# -gt 0 ]; do
    case $1 in -y) yes=1 ;; -d) card=$2; shift ;; -e) ;; *) break ;; esac
    shift
done
kept=$GDR_ROOT/nv/$card
[ -f "$kept" ] || { echo "-E- Failed to open the device"; exit 3; }
show() {
    printf '\nDevice #1:\n----------\n\nDevice type:        ConnectX7\n'
    printf 'Name:               MCX75310AAS-NEA\n'
    printf 'Description:        one port\nDevice:             %s\n\n' "$card"
    printf '%-41s%-20s%-20s%s\n' Configurations: Default Current 'Next Boot'
    while read -r name usual now next; do
        star=' '
        [ "$now" = "$next" ] || star='*'
        printf '%s       %-40s%-20s%-20s%-20s\n' "$star" "$name" "$usual" "$now" "$next"
    done <"$kept"
}
command=$1
shift
case $command in
    query) show ;;
    set)
        [ -n "$yes" ] || exit 3
        printf '\nApplying... '
        if [ -e "$GDR_ROOT/refuses" ]; then
            printf 'Failed!\n-E- Failed to set configuration: Operation not permitted\n'
            exit 3
        fi
        for pair; do
            [ ! -e "$GDR_ROOT/forgets" ] || break
            name=${pair%%=*} value=${pair#*=}
            awk -v n="$name" -v v="$value" '$1 == n { $4 = v } { print }' "$kept" >"$kept.new" &&
                mv "$kept.new" "$kept"
        done
        printf 'Done!\n-I- Please reboot machine to load new configurations.\n'
        ;;
esac
"""


class NicTree:
    """The node: two ConnectX, one of them with two functions, and a Broadcom."""

    def __init__(self, root: Path, shell: tuple[str, ...] = ("sh",), name: str = "gpu01") -> None:
        self.root, self.shell, self.name = root, shell, name
        for address, vendor, device in (
            (FIRST, "0x15b3", "0x1021"),
            (FIRST.replace(".0", ".1"), "0x15b3", "0x1021"),
            (SECOND, "0x15b3", "0x1021"),
            (BROADCOM, "0x14e4", "0x1760"),
        ):
            for file, text in (("class", "0x020000"), ("vendor", vendor), ("device", device)):
                self.put(f"sys/bus/pci/devices/{address}/{file}", f"{text}\n")
        for address in (FIRST, SECOND):
            self.put(f"nv/{address}", SETTINGS)
        self.put("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n")
        self.command("mlxconfig", MLXCONFIG)
        self.command("id", "#!/bin/sh\necho 0\n")

    def put(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def command(self, name: str, text: str) -> None:
        self.put(f"bin/{name}", text)
        (self.root / "bin" / name).chmod(0o755)

    def next(self, address: str, name: str) -> str:
        """What the next boot has of a setting."""
        rows = (line.split() for line in (self.root / "nv" / address).read_text().splitlines())
        return next(row[3] for row in rows if row[0] == name)

    @property
    def asked(self) -> list[str]:
        """What the tool was told, without its place."""
        file = self.root / "asked"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.rpartition("/bin/")[2] for line in lines]

    def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
        del sink
        done = self.sh(script, limit_s)
        assert done.stderr == ""
        return Result(done.returncode, done.stdout, done.stderr)

    def sh(self, script: str, limit_s: float = 60) -> subprocess.CompletedProcess[str]:
        """A script as its shell has it, with whatever it complains of."""
        return subprocess.run(
            [*self.shell, "-s"],
            input=script,
            env={
                "PATH": f"{self.root}/bin:{os.environ['PATH']}",
                "GDR_ROOT": str(self.root),
                "GDR_BIN": str(self.root / "bin"),
            },
            capture_output=True,
            encoding="utf-8",
            timeout=min(limit_s, 60),
            check=False,
        )

    def close(self) -> None:
        """Nothing is open."""
