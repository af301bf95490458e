"""What the probe finds of units and scripts that clear ACS at boot."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from toolkit.evidence import Evidence
from toolkit.facts.boot.acs_boot import AtBoot
from toolkit.facts.node.node import Node
from toolkit.node.collect import probe_script

pytestmark = pytest.mark.shell

UNITS = "etc/systemd/system"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with one unit of each sort."""
    files = {
        f"{UNITS}/acs-manager.service": "[Service]\nExecStart=/usr/bin/acs-manager\n",
        f"{UNITS}/gdr-toolkit-acs.service": "ExecStart=/usr/lib/gdr-toolkit/acs start\n",
        f"{UNITS}/macsec.service": "[Service]\nExecStart=/usr/local/sbin/other\n",
        f"{UNITS}/peer.service": "[Service]\nExecStart=-/usr/local/sbin/peer on\n",
        f"{UNITS}/plain.service": '[Service]\nExecStart=/bin/sh -c "setpci ECAP_ACS+6.w=0"\n',
        f"{UNITS}/read-size.service": "[Service]\nExecStart=/usr/bin/setpci -s 1 68.w=5936\n",
        f"{UNITS}/tune.service": "[Service]\nExecStart=/opt/tune.sh\n",
        "usr/local/sbin/peer": "#!/bin/sh\nsetpci -s 17:00.0 ECAP_ACS+6.w=0\n",
        "usr/local/sbin/other": "#!/bin/sh\necho nothing of the sort\n",
        "opt/tune.sh": "#!/bin/sh\nsetpci -s 1 CAP_EXP+8.w=5936\n",
        "usr/lib/systemd/system/acs-off.service": "ExecStart=/usr/sbin/setpci -s 9 f2.w=0\n",
        "lib/systemd/system/nvidia-acs-disable.service": "ExecStart=/usr/sbin/nvidia-acs-disable\n",
        "etc/cron.d/peer": "@reboot root /root/disable_acs.sh\n@daily root /root/acs_off.sh\n",
        "etc/rc.local": "#!/bin/sh\n# setpci for ACS was here\nsetpci -s 9 ECAP_ACS+6.w=0\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    ours = tmp_path / UNITS / "sysinit.target.d"
    ours.mkdir()
    (ours / "gdr-toolkit-acs.conf").write_text("[Unit]\nWants=gdr-toolkit-acs.service\n")
    wants = tmp_path / UNITS / "multi-user.target.wants"
    wants.mkdir()
    (wants / "peer.service").symlink_to("/etc/systemd/system/peer.service")
    (tmp_path / "bin").mkdir()
    return tmp_path


@pytest.mark.parametrize("shell", [("dash",), ("busybox", "sh"), ("bash",)], ids=lambda s: s[0])
def test_units_and_scripts_are_told_with_whether_they_are_enabled(
    root: Path, shell: tuple[str, ...]
) -> None:
    done = subprocess.run(
        (shutil.which(shell[0]) or shell[0], *shell[1:], "-s"),
        input=probe_script(),
        env={"GDR_ROOT": str(root), "GDR_BIN": str(root / "bin"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Node(Evidence.parse(done.stdout)).acs_units == (
        AtBoot("gdr-toolkit-acs.service", enabled=True, command="/usr/lib/gdr-toolkit/acs start"),
        AtBoot("peer.service", enabled=True, command="-/usr/local/sbin/peer on"),
        AtBoot("plain.service", enabled=False, command='/bin/sh -c "setpci ECAP_ACS+6.w=0"'),
        AtBoot("acs-off.service", enabled=False, command="/usr/sbin/setpci -s 9 f2.w=0"),
        AtBoot("nvidia-acs-disable.service", enabled=False, command="/usr/sbin/nvidia-acs-disable"),
        AtBoot("rc.local", enabled=False, command="setpci -s 9 ECAP_ACS+6.w=0"),
        AtBoot("cron", enabled=True, command="@reboot root /root/disable_acs.sh"),
    )


def test_rc_local_counts_where_it_may_run(root: Path) -> None:
    (root / "etc/rc.local").chmod(0o755)
    done = subprocess.run(
        ["sh", "-s"],
        input=probe_script(),
        env={"GDR_ROOT": str(root), "GDR_BIN": str(root / "bin"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    (script,) = (
        each for each in Node(Evidence.parse(done.stdout)).acs_units if each.name == "rc.local"
    )
    assert script.enabled
