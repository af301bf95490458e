"""A build aside signs by a key that is there, or not at all: DKMS is not led to make one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.scripts.engine import SHELLS
from toolkit.plan.templates import TEMPLATES

pytestmark = pytest.mark.shell

TOLD = {
    "key": 'mok_signing_key="/k/old.key"\nmok_signing_key=/k/site.key # ours',
    "token": 'mok_signing_key="pkcs11:token=t;object=o"',
    "certificate": "mok_certificate='/k/site.der'",
}


@pytest.mark.parametrize("shell", sorted(SHELLS))
@pytest.mark.parametrize(
    ("there", "told", "signs"),
    [
        pytest.param([], "", False, id="none"),
        pytest.param(["var/lib/dkms/mok.key"], "", True, id="of-its-own"),
        pytest.param(["var/lib/shim-signed/mok/MOK.priv"], "", True, id="ubuntus"),
        pytest.param(["k/site.key", "k/site.der"], "key certificate", True, id="the-sites"),
        pytest.param(["var/lib/dkms/mok.key", "k/site.der"], "key certificate", False, id="gone"),
        pytest.param(["k/site.key"], "key certificate", False, id="certificate-gone"),
        pytest.param(["k/site.key", "var/lib/dkms/mok.pub"], "key", True, id="its-own-certificate"),
        pytest.param(["k/site.der"], "token certificate", True, id="on-a-token"),
    ],
)
def test_a_key_is_there_or_dkms_signs_nothing(
    shell: str, there: list[str], told: str, *, signs: bool, tmp_path: Path
) -> None:
    """Where key or certificate is gone DKMS makes both anew, over what is there."""
    text = (TEMPLATES / "dkms/aside.sh").read_text()
    for top in ("/etc/dkms/", "/var/lib/dkms/mok", "/var/lib/shim-signed/"):
        text = text.replace(top, f"{tmp_path}{top}")
    files = dict.fromkeys(there, "x")
    lines = "\n".join(TOLD[each] for each in told.split()).replace("/k/", f"{tmp_path}/k/")
    files["etc/dkms/framework.conf.d/site.conf"] = f"{lines}\n"
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    script = f"set -u\n{text}\naside_key\n"
    done = subprocess.run([*SHELLS[shell], "-s"], input=script, text=True, check=False)
    assert (done.returncode == 0) is signs
