"""What templates make of values, and what they refuse."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from toolkit.errors import Unparsable
from toolkit.plan.artefacts import ARTEFACTS
from toolkit.plan.templates import TEMPLATES, render_path, render_text

# Every value that some template asks for.
VALUES = {
    "arguments": "intel_iommu=on iommu=pt",
    "bridges": "0000:15:01.0/00.0/00.0 0000:15:01.0/00.0/01.0",
    "clear": "002c",
    "driver": "580.126.16",
    "driver_dkms": "nvidia",
    "ofed_dkms": "mlnx-ofed-kernel",
    "package": "nvidia",
    "folder": "updates/dkms",
    "kernel": "6.8.0-51-generic",
    "kernels": "6.8.0-45-generic 6.8.0-51-generic",
    "modules": "ib_core ib_uverbs",
    "patches": "yes",
    "file": "nvidia-",
    "key": "/root/site.key",
    "certificate": "/root/site.der",
    "version": "580.126.16",
    "id": "0a1b2c3d4e5f",
    "entry": "gnulinux-simple-3c1f5a52",
    "menu": "/boot/grub/grub.cfg",
    "add": '"pci=config_acs=0;1" iommu=pt',
    "drop": "iommu=soft",
}
TEMPLATE_FILES = sorted({artefact.template for artefact in ARTEFACTS} - {""})


def test_every_template_is_some_artefacts() -> None:
    found = {str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*.j2")}
    assert {each for each in found if not each.startswith("package/")} == set(TEMPLATE_FILES)


@pytest.mark.parametrize("template", TEMPLATE_FILES)
def test_a_template_says_what_it_is_for_what_it_reads_and_where_it_lands(template: str) -> None:
    head = (TEMPLATES / template).read_text().partition("-#}")[0]
    assert head.startswith("{#- ")
    assert "    Reads: " in head
    assert "    Lands in: /" in head


@pytest.mark.parametrize("template", TEMPLATE_FILES)
def test_a_file_says_who_placed_it_and_ends_its_last_line(template: str) -> None:
    text = render_text(template, VALUES)
    assert any(line.startswith("# Placed by gdr-toolkit") for line in text.split("\n")[:2])
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "{{" not in text
    assert "{#" not in text


@pytest.mark.parametrize(
    "template", [t for t in TEMPLATE_FILES if "arguments" in t or "driver." in t]
)
def test_a_value_that_nobody_passed_is_an_error(template: str) -> None:
    with pytest.raises(UndefinedError, match="is undefined"):
        render_text(template, {})


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("1\n2", id="newline"),
        pytest.param("1\r2", id="carriage-return"),
        pytest.param("1\x00", id="nul"),
        pytest.param("1\u2028", id="line-separator"),
        pytest.param('1"; reboot; "', id="quote"),
        pytest.param("$(reboot)", id="expansion"),
        pytest.param("`reboot`", id="backticks"),
        pytest.param("1'2", id="single-quote"),
        pytest.param("1\\2", id="backslash"),
        pytest.param("1#2", id="comment"),
        pytest.param("{{ x }}", id="jinja"),
    ],
)
def test_a_hostile_value_is_refused(value: str) -> None:
    with pytest.raises(Unparsable, match="driver"):
        render_text("dkms/peermem.conf.j2", VALUES | {"driver": value})


@pytest.mark.parametrize("value", ["../../etc", "", ".", ".hidden", "a/b", "a b", "a\n"])
def test_a_value_cannot_lead_out_of_its_folder(value: str) -> None:
    with pytest.raises(Unparsable):
        render_path("/etc/dkms/{package}.conf", {"package": value})


def test_where_dkms_has_neither_nothing_is_waited_for() -> None:
    text = render_text("dkms/peermem.conf.j2", VALUES | {"driver_dkms": "", "ofed_dkms": ""})
    assert "BUILD_DEPENDS" not in text
    assert 'AUTOINSTALL="yes"\n' in text


def test_make_is_quoted_or_dkms_would_rewrite_it() -> None:
    [line] = [
        each
        for each in render_text("dkms/peermem.conf.j2", VALUES).split("\n")
        if each.startswith("MAKE[0]=")
    ]
    # DKMS rewrites a command that begins with make, and the vendor's Makefile a bare one after env.
    assert line.startswith('MAKE[0]="./after-build.sh make ')
    assert " 'make' -C kernel-open " in line


def test_dkms_never_rebuilds_what_works_by_itself() -> None:
    """BUILD_DEPENDS_REBUILD uninstalls before it builds; see tests/builds/test_survives.py."""
    for template in ("dkms/peermem.conf.j2", "dkms/driver.conf.j2"):
        lines = render_text(template, VALUES).split("\n")
        assert not [line for line in lines if line.startswith("BUILD_DEPENDS_REBUILD")]


@pytest.mark.shell
@pytest.mark.parametrize(
    "template", [t for t in TEMPLATE_FILES if "build.sh" in t or t.startswith("kernel/")]
)
def test_scripts_for_nodes_are_clean(template: str, tmp_path: Path) -> None:
    script = tmp_path / "script.sh"
    script.write_text(render_text(template, VALUES))
    done = subprocess.run(["shellcheck", str(script)], capture_output=True, text=True, check=False)
    assert done.stdout == ""


@pytest.mark.shell
@pytest.mark.parametrize("template", ["dkms/driver.conf.j2", "dkms/peermem.conf.j2"])
def test_dkms_can_source_its_configuration(template: str, tmp_path: Path) -> None:
    conf = tmp_path / "dkms.conf"
    conf.write_text(render_text(template, VALUES))
    asked = 'BUILD_DEPENDS=(first); kernelver=6.8 arch=x86_64; . "$1"; echo "${BUILD_DEPENDS[@]}"'
    done = subprocess.run(
        ["bash", "-euc", asked.replace(". ", "dkms_tree=/var/lib/dkms; . "), "bash", str(conf)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split()[0] == "first"  # what the package itself waits for stays
    assert "mlnx-ofed-kernel" in done.stdout.split()


@pytest.mark.shell
def test_the_drop_in_appends_to_what_others_set(tmp_path: Path) -> None:
    drop_in = tmp_path / "zz.cfg"
    drop_in.write_text(render_text("boot/grub.cfg.j2", VALUES | {"arguments": "iommu=pt"}))
    for before, after in (("", "iommu=pt"), ("quiet splash", "quiet splash iommu=pt")):
        done = subprocess.run(
            ["sh", "-c", f'GRUB_CMDLINE_LINUX="{before}"; . {drop_in}; echo "$GRUB_CMDLINE_LINUX"'],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == after + "\n"
