"""The smaller sources: distribution, kernel, command line, IOMMU, machine, our own files."""

from __future__ import annotations

import pytest

from toolkit.errors import Unparsable
from toolkit.facts.boot.cmdline import parse_cmdline
from toolkit.facts.boot.kernel import parse_config, parse_headers, parse_lockdown
from toolkit.facts.distros import Distro, parse_os_release
from toolkit.facts.firmware.machine import Cpu, parse_cpu, parse_dmi
from toolkit.facts.lines import blocks, named_lines
from toolkit.facts.modules.placed_files import Placed, parse_contents, parse_placed
from toolkit.facts.pci.iommu import Domain, parse_groups


@pytest.mark.parametrize(
    ("text", "distro"),
    [
        pytest.param(
            'PRETTY_NAME="Ubuntu 22.04.5 LTS"\nNAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\n'
            "ID_LIKE=debian\n",
            Distro("ubuntu", "22.04", ("debian",), "Ubuntu 22.04.5 LTS"),
            id="ubuntu",
        ),
        pytest.param(
            'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.5"\n',
            Distro("rocky", "9.5", ("rhel", "centos", "fedora"), "Rocky Linux"),
            id="rocky",
        ),
        pytest.param(
            'NAME="SLES"\nVERSION_ID="15.7"\nID="sles"\nID_LIKE="suse"\n\n# a comment\n',
            Distro("sles", "15.7", ("suse",), "SLES"),
            id="sles",
        ),
        pytest.param(
            'ID="amzn"\nID_LIKE="fedora"\nVERSION_ID="2023"\nPRETTY_NAME="Amazon Linux 2023"\n',
            Distro("amzn", "2023", ("fedora",), "Amazon Linux 2023"),
            id="amazon-is-not-rhel",
        ),
        pytest.param(
            'ID=mariner\nVERSION_ID="2.0"\n', Distro("mariner", "2.0", (), "mariner"), id="mariner"
        ),
        pytest.param(
            "NAME='Arch Linux'\nID=arch\nBUILD_ID=rolling\n",
            Distro("arch", "", (), "Arch Linux"),
            id="rolling",
        ),
        pytest.param(
            "ID=own\nPRETTY_NAME=Our Own Linux\n",
            Distro("own", "", (), "Our Own Linux"),
            id="blanks-without-quotes",
        ),
        pytest.param(
            'ID=x\r\nPRETTY_NAME="A \\"B\\""\n', Distro("x", "", (), 'A "B"'), id="escapes"
        ),
    ],
)
def test_distributions(text: str, distro: Distro) -> None:
    assert parse_os_release(text) == distro


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("NAME=x\n", "no ID", id="no-id"),
        pytest.param("ID=x\nhello\n", "line 2: 'hello'", id="no-assignment"),
        pytest.param('ID=x\nNAME="x\n', "line 2", id="unended-quote"),
        pytest.param("# only this\n", "no ID", id="comments-alone"),
    ],
)
def test_an_os_release_of_another_shape_is_refused(text: str, message: str) -> None:
    with pytest.raises(Unparsable, match=message):
        parse_os_release(text)


def test_the_last_of_several_equal_arguments_counts() -> None:
    cmdline = parse_cmdline("ro iommu=nopt intel_iommu=on,sm_on iommu=pt quiet\n")
    assert cmdline["iommu"] == "pt"
    assert list(cmdline.values("iommu")) == ["nopt", "pt"]
    assert cmdline.listed("intel_iommu") == {"on", "sm_on"}
    assert ("quiet" in cmdline, cmdline["quiet"]) == (True, "")
    assert ("absent" in cmdline, cmdline["absent"]) == (False, "")


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        pytest.param("module-blacklist=nouveau", "module_blacklist", "nouveau", id="dash-in-text"),
        pytest.param("module_blacklist=nouveau", "module-blacklist", "nouveau", id="dash-in-name"),
        pytest.param('dyndbg="file a.c +p" x', "dyndbg", "file a.c +p", id="quoted-value"),
        pytest.param('"iommu=pt" x', "iommu", "pt", id="quoted-word"),
        pytest.param('a="b c', "a", "b c", id="unended-quote"),
        pytest.param("root=UUID=1-2", "root", "UUID=1-2", id="equal-sign-in-the-value"),
        pytest.param("iommu=nopt -- iommu=pt", "iommu", "nopt", id="the-rest-is-for-init"),
        pytest.param("xiommu=pt iommu.passthrough=1", "iommu", "", id="other-names"),
    ],
)
def test_words_of_a_command_line(text: str, name: str, value: str) -> None:
    assert parse_cmdline(text)[name] == value


@pytest.mark.parametrize(
    ("text", "word"),
    [
        pytest.param("[none] integrity confidentiality\n", "none", id="none"),
        pytest.param("none [integrity] confidentiality\n", "integrity", id="integrity"),
        pytest.param("none integrity [confidentiality]\n", "confidentiality", id="most"),
    ],
)
def test_lockdown_is_the_bracketed_word(text: str, word: str) -> None:
    assert parse_lockdown(text) == word


def test_lockdown_without_brackets_is_refused() -> None:
    with pytest.raises(Unparsable, match="lockdown: cannot read: 'none'"):
        parse_lockdown("none\n")


def test_options_that_are_set_and_that_are_not() -> None:
    text = (
        "CONFIG_DMA_SHARED_BUFFER=y\nCONFIG_INFINIBAND=m\n# CONFIG_PREEMPT_RT is not set\n"
        'CONFIG_CC_VERSION_TEXT="gcc (GCC) 12.3.0"\n'
    )
    assert parse_config(text) == {
        "CONFIG_DMA_SHARED_BUFFER": "y",
        "CONFIG_INFINIBAND": "m",
        "CONFIG_PREEMPT_RT": "n",
        "CONFIG_CC_VERSION_TEXT": "gcc (GCC) 12.3.0",
    }


def test_a_config_of_another_shape_is_refused() -> None:
    with pytest.raises(Unparsable, match="kernel config: cannot read line 2"):
        parse_config("CONFIG_X=y\nCONFIG_Y is fine\n")


def test_parts_of_the_headers() -> None:
    text = "Makefile present\nModule.symvers missing\n"
    assert parse_headers(text) == {"Makefile": True, "Module.symvers": False}


def test_parts_in_another_state_are_refused() -> None:
    with pytest.raises(Unparsable, match="kernel headers: cannot read line 1"):
        parse_headers("Makefile perhaps\n")


@pytest.mark.parametrize(
    ("word", "domain", "translated"),
    [
        ("identity", Domain.IDENTITY, False),
        ("DMA", Domain.DMA, True),
        ("DMA-FQ", Domain.DMA_FQ, True),
        ("blocked", Domain.BLOCKED, False),
        ("unmanaged", Domain.UNMANAGED, False),
        ("auto", Domain.AUTO, False),
        ("unknown", Domain.UNKNOWN, False),
    ],
)
def test_types_of_iommu_groups(word: str, domain: Domain, translated: bool) -> None:
    assert parse_groups(f"12/type:{word}\n") == {"12": domain}
    assert domain.translated is translated


def test_an_undocumented_type_is_refused() -> None:
    with pytest.raises(Unparsable, match="iommu_groups: cannot read: '12/type:dma'"):
        parse_groups("12/type:dma\n")


@pytest.mark.parametrize(
    ("text", "cpu"),
    [
        pytest.param(
            "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9654\n"
            "flags\t\t: fpu svm\n",
            Cpu("AuthenticAMD", "AMD EPYC 9654", False),
            id="bare-metal",
        ),
        pytest.param(
            "vendor_id\t: GenuineIntel\nmodel name\t: X\nflags\t\t: fpu hypervisor\n",
            Cpu("GenuineIntel", "X", True),
            id="guest",
        ),
        pytest.param(
            "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd\nCPU part\t: 0xd4f\n",
            Cpu("", "0xd4f", False),
            id="grace",
        ),
        pytest.param(
            "model name\t: X hypervisor edition\n",
            Cpu("", "X hypervisor edition", False),
            id="a-flag-is-a-flag",
        ),
    ],
)
def test_processors(text: str, cpu: Cpu) -> None:
    assert parse_cpu(text) == cpu


@pytest.mark.parametrize(
    ("line", "name", "rest"),
    [
        pytest.param("0000:19:00.0/vendor:0x10de", "0000:19:00.0/vendor", "0x10de", id="address"),
        pytest.param("10000:e1:00.0/x:y", "10000:e1:00.0/x", "y", id="vmd-domain"),
        pytest.param("mlx5_0/device:0000:19:00.0", "mlx5_0/device", "0000:19:00.0", id="value"),
        pytest.param("mlx5_0/ports/1/state:4: ACTIVE", "mlx5_0/ports/1/state", "4: ACTIVE", id="2"),
        pytest.param("sys_vendor:Dell/EMC: x", "sys_vendor", "Dell/EMC: x", id="slash-in-value"),
        pytest.param("a.conf:", "a.conf", "", id="empty-line"),
        pytest.param("a.conf:x\u2028y\fz", "a.conf", "x\u2028y\fz", id="no-line-ends"),
    ],
)
def test_named_lines(line: str, name: str, rest: str) -> None:
    assert list(named_lines(line + "\n", "here")) == [(name, rest)]


def test_a_line_without_name_is_refused() -> None:
    with pytest.raises(Unparsable, match="here: cannot read line 2: 'nothing'"):
        list(named_lines("a:b\nnothing\n", "here"))


def test_blocks_below_their_headings() -> None:
    text = "@a b\n1\n\n@c\n"
    assert list(blocks(text, "here")) == [("a b", ["1", ""]), ("c", [])]
    assert list(blocks("", "here")) == []


def test_a_line_before_the_first_heading_is_refused() -> None:
    with pytest.raises(Unparsable, match="here: cannot read line 1: 'x'"):
        list(blocks("x\n@a\n", "here"))


def test_dmi_keeps_what_the_vendor_wrote() -> None:
    assert parse_dmi("sys_vendor:Dell/EMC\nboard_name:To be filled by O.E.M.\n") == {
        "sys_vendor": "Dell/EMC",
        "board_name": "To be filled by O.E.M.",
    }


def test_placed_files_by_path() -> None:
    digest = "a" * 64
    text = f"{digest} 644 0 0 /etc/modprobe.d/gdr toolkit.conf\n"
    assert parse_placed(text) == {"/etc/modprobe.d/gdr toolkit.conf": Placed(digest, 0o644, 0, 0)}


@pytest.mark.parametrize("line", ["abc", "abc 999 0 0 /etc/x", "abc 644 root root /etc/x"])
def test_placed_files_of_another_form_are_refused(line: str) -> None:
    with pytest.raises(Unparsable, match="placed files: cannot read line 1"):
        parse_placed(line + "\n")


def test_contents_of_our_files_with_their_empty_lines() -> None:
    assert parse_contents("etc/a.conf:x\netc/a.conf:\netc/b.conf:y\n") == {
        "/etc/a.conf": "x\n\n",
        "/etc/b.conf": "y\n",
    }
