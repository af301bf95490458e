"""Packages that a bundle installs, by each package manager, and what takes them back."""

from __future__ import annotations

import pytest

from tests.scripts.engine import Tree, bundle_of, sent
from toolkit.node.deliver import rollback_script
from toolkit.plan.artefacts_boot import HELD

pytestmark = pytest.mark.shell

INSTALL = ("undo first 'INSTALL_PACKAGES uninstall'", "trigger 'INSTALL_PACKAGES install a=2 b=1'")
MANAGER = '#!/bin/sh\necho "${0##*/} $*" >>"$GDR_ROOT/said"\ntouch "$GDR_ROOT/newer"\n'
# a is replaced, b is new, c stays.
LIST = """#!/bin/sh
if [ "$1" = -e ]; then
    # NEVRA: an epoch stands in it
    [ -e "$GDR_ROOT/lost" ] || echo "	b is needed by (installed) a-3:2.noarch" >&2
    [ ! -e "$GDR_ROOT/needed" ] || echo "	b is needed by (installed) d-1-1.noarch" >&2
    exit 1
fi
if [ ! -e "$GDR_ROOT/newer" ]; then echo "ii a=1"; else
    [ -e "$GDR_ROOT/lost" ] || echo "ii a=2"
    echo "ii b=1"
fi
echo "ii c=7"
"""
HISTORY = """[ "$3" != info ] || { echo "Command Line   : $(cat "$GDR_ROOT/whose")"; exit; }
[ "$3" != list ] || {
    if [ -e "$GDR_ROOT/newer" ]; then echo "42 | install"; fi; echo "41 | of others"; exit; }
echo "$*" >"$GDR_ROOT/whose"
"""
TRIAL = """case "$*" in *" check") exit ;; *" -s "*) echo "Remv b [1]"
    [ ! -e "$GDR_ROOT/needed" ] || echo "Remv d [1]"; exit ;; esac
"""
APT = "apt-get -y -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold install"
MANAGERS = {
    "apt": {"apt-get": f"#!/bin/sh\n{TRIAL}{MANAGER}", "dpkg-query": LIST},
    "dnf": {"dnf": f"#!/bin/sh\n{HISTORY}{MANAGER}", "rpm": LIST},
    "zypper": {"zypper": MANAGER, "rpm": LIST},
}
CAME = {
    "apt": [f"{APT} --no-remove a=2 b=1"],
    "dnf": ["dnf -y --setopt=installonly_limit=0 install a-2 b-1"],
    "zypper": ["zypper --non-interactive install --oldpackage a=2 b=1"],
}
WENT = {
    "apt": [f"{APT} --allow-downgrades b- a=1"],
    "dnf": ["dnf -y --setopt=clean_requirements_on_remove=0 history undo 42"],
    "zypper": ["zypper --non-interactive install --oldpackage -- -b=1 a=1"],
}
PLUGINS = "/etc/kernel/install.d"
each_manager = pytest.mark.parametrize("manager", MANAGERS)


def node_of(tree: Tree, manager: str, **instead: str) -> Tree:
    for name, text in {**MANAGERS[manager], **instead}.items():
        tree.command(name, text)
    return tree


def brought(tree: Tree, manager: str, package: str) -> None:
    """A bundle has installed that package beside a."""
    name = package.partition("=")[0]
    texts = {
        each: text.replace("ii b=1", f"ii {package}").replace("Remv b", f"Remv {name}")
        for each, text in MANAGERS[manager].items()
    }
    node_of(tree, manager, **texts)
    tree.run(sent(bundle_of({}, *INSTALL)))


def said(tree: Tree) -> list[str]:
    return tree.read("said").split("\n")[:-1]


@each_manager
def test_packages_come_in_their_versions_and_go_back_to_those_before(
    tree: Tree, manager: str
) -> None:
    node_of(tree, manager)
    ran = tree.run(sent(bundle_of({}, *INSTALL)))
    assert ran.exit == 0, ran
    assert said(tree) == CAME[manager]
    back = tree.run(rollback_script("last", 5))
    assert back.exit == 0, back
    assert said(tree) == CAME[manager] + WENT[manager]


@each_manager
def test_what_others_came_to_need_is_not_taken_with_it(tree: Tree, manager: str) -> None:
    """Nor what holds the default: else the next boot starts a kernel that stays untried."""
    node_of(tree, manager)
    tree.run(sent(bundle_of({HELD: "GRUB_DEFAULT=old\n"}, *INSTALL)))
    tree.write("needed", "")
    back = tree.run(rollback_script("last", 5))
    assert back.exit != 0
    name = "d" if manager == "apt" else "d-1-1"
    assert f"others need what would go: {name}\n" in back.stdout
    assert said(tree) == CAME[manager]
    assert tree.exists(HELD)
    (tree.root / "needed").unlink()
    assert tree.run(rollback_script("last", 5)).exit == 0
    assert said(tree) == CAME[manager] + WENT[manager]
    assert not tree.exists(HELD)


@each_manager
def test_an_install_that_brought_nothing_takes_back_nothing_of_others(
    tree: Tree, manager: str
) -> None:
    name = {"apt": "apt-get"}.get(manager, manager)
    node_of(
        tree,
        manager,
        **{name: MANAGERS[manager][name].replace('touch "$GDR_ROOT/newer"', "exit 1")},
    )
    assert tree.run(sent(bundle_of({}, *INSTALL))).exit != 0
    tree.run(rollback_script("last", 5))
    assert said(tree) == CAME[manager]


def test_a_transaction_of_another_dnf_is_not_taken_back_with_ours(tree: Tree) -> None:
    """Ours waited for it, and then failed."""
    other = 'echo "-y upgrade" >"$GDR_ROOT/whose"\nexit 1\n'
    node_of(tree, "dnf", dnf=MANAGERS["dnf"]["dnf"] + other)
    assert tree.run(sent(bundle_of({}, *INSTALL))).exit != 0
    assert tree.run(rollback_script("last", 5)).exit == 0
    assert said(tree) == CAME["dnf"]


@each_manager
def test_an_install_that_was_cut_off_is_taken_back_by_what_is_there_then(
    tree: Tree, manager: str
) -> None:
    """Killed behind the package manager's work: what came was not noted."""
    name = {"apt": "apt-get"}.get(manager, manager)
    killed = (
        MANAGERS[manager][name]
        + '[ -e "$GDR_ROOT/lives" ] || { touch "$GDR_ROOT/lives"; kill -9 $PPID; }\n'
    )
    node_of(tree, manager, **{name: killed})
    tree.run(sent(bundle_of({}, *INSTALL)))
    assert said(tree) == CAME[manager]
    back = tree.run(rollback_script("last", 5))
    assert back.exit == 0, back
    assert said(tree) == CAME[manager] + WENT[manager]


@pytest.mark.parametrize(
    ("manager", "package", "runs"),
    [
        ("apt", "linux-image-6.8.0-90-generic=6.8.0-90.91", "6.8.0-90-generic"),
        ("apt", "linux-image-unsigned-6.8.0-90-generic=6.8.0-90.91", "6.8.0-90-generic"),
        ("apt", "linux-modules-6.8.0-90-generic=6.8.0-90.91", "6.8.0-90-generic"),
        ("apt", "linux-modules-extra-6.8.0-90-generic=6.8.0-90.91", "6.8.0-90-generic"),
        ("apt", "linux-image-6.12.117+deb12-amd64-unsigned=6.12.117-1", "6.12.117+deb12-amd64"),
        ("dnf", "kernel-core=5.14.0-570.el9", "5.14.0-570.el9.x86_64"),
        ("dnf", "kernel-modules-core=5.14.0-570.el9", "5.14.0-570.el9.x86_64"),
        ("dnf", "kernel-64k-core=5.14.0-570.el9", "5.14.0-570.el9.aarch64+64k"),
        ("dnf", "kernel-rt-core=5.14.0-570.el9", "5.14.0-570.el9.x86_64+rt"),
        ("dnf", "kernel-uek-core=5.15.0-306.el9uek", "5.15.0-306.el9uek.x86_64"),
        ("dnf", "kernel6.12=6.12.37-61.105.amzn2023", "6.12.37-61.105.amzn2023.x86_64"),
        ("zypper", "kernel-default=6.4.0-150600.23.47.2", "6.4.0-150600.23.47-default"),
        ("zypper", "kernel-azure=6.4.0-150600.8.5.1", "6.4.0-150600.8.5-azure"),
        ("zypper", "kernel-64kb=6.4.0-150600.23.47.2", "6.4.0-150600.23.47-64kb"),
    ],
)
def test_a_kernel_that_runs_is_not_taken_away(
    tree: Tree, manager: str, package: str, runs: str
) -> None:
    brought(tree, manager, package)
    tree.write("/proc/sys/kernel/osrelease", f"{runs}\n")
    back = tree.run(rollback_script("last", 5))
    assert f"the kernel {runs} runs: boot the one before it" in back.stdout
    assert said(tree) == CAME[manager]


@pytest.mark.parametrize(
    ("manager", "package", "runs"),
    [
        ("apt", "linux-headers-6.8.0-90-generic=6.8.0-90.91", "6.8.0-90-generic"),
        ("apt", "linux-modules-nvidia-595-open-6.8.0-90-generic=1", "6.8.0-90-generic"),
        ("dnf", "kernel-devel=5.14.0-570.el9", "5.14.0-570.el9.x86_64"),
        ("dnf", "kernel-64k-devel-matched=5.14.0-570.el9", "5.14.0-570.el9.aarch64+64k"),
        ("dnf", "kernel-headers=5.14.0-570.el9", "5.14.0-570.el9.x86_64"),
        ("zypper", "kernel-default-devel=6.4.0-150600.23.47.2", "6.4.0-150600.23.47-default"),
        ("zypper", "kernel-macros=6.4.0-150600.23.47.2", "6.4.0-150600.23.47-default"),
    ],
)
def test_what_is_built_against_a_kernel_that_runs_is_taken_back(
    tree: Tree, manager: str, package: str, runs: str
) -> None:
    brought(tree, manager, package)
    tree.write("/proc/sys/kernel/osrelease", f"{runs}\n")
    assert tree.run(rollback_script("last", 5)).exit == 0
    assert said(tree) != CAME[manager]


@pytest.mark.parametrize("manager", ["apt", "zypper"])
def test_a_package_that_others_took_away_since_stays_away(tree: Tree, manager: str) -> None:
    """dnf is asked to undo its transaction as a whole, and has its own rule for that."""
    node_of(tree, manager)
    tree.run(sent(bundle_of({}, *INSTALL)))
    tree.write("lost", "")
    back = tree.run(rollback_script("last", 5))
    assert back.exit == 0, back
    assert said(tree) == CAME[manager] + [WENT[manager][0].removesuffix(" a=1")]


@pytest.mark.parametrize(
    ("then", "ended"),
    [
        pytest.param("", 0, id="well"),
        pytest.param("exit 1\n", 5, id="failed"),
        pytest.param("kill -9 $PPID\n", 5, id="cut-off"),
    ],
)
def test_a_new_kernel_is_not_the_default_however_its_install_ends(
    tree: Tree, then: str, ended: int
) -> None:
    tree.command("grubby", '#!/bin/sh\necho "$2" >"$GDR_ROOT/default"\n')
    plugins = (  # as kernel-install runs them, behind that of grub2
        'case "$*" in *undo*) exit ;; esac\necho /boot/vmlinuz-new >"$GDR_ROOT/default"\n'
        f'for each in "$GDR_ROOT"{PLUGINS}/*.install; do\n'
        '    [ ! -x "$each" ] || PATH=$GDR_BIN:$PATH "$each" add new\ndone\n'
        'cp "$GDR_ROOT/default" "$GDR_ROOT/amid"\n'
    )
    node_of(tree, "dnf", dnf=MANAGERS["dnf"]["dnf"] + plugins + then)
    steps = (INSTALL[0], INSTALL[1].replace("install", "install --stays=/boot/vmlinuz-old"))
    ran = tree.run(sent(bundle_of({}, *steps)))
    assert ran.exit == ended, ran
    assert tree.read("amid") == tree.read("default") == "/boot/vmlinuz-old\n"
    assert said(tree) == CAME["dnf"]
    tree.run(rollback_script("last", 5))
    assert not tree.exists(PLUGINS)


@each_manager
def test_where_the_packages_are_not_told_nothing_is_installed(tree: Tree, manager: str) -> None:
    name = "dpkg-query" if manager == "apt" else "rpm"
    node_of(tree, manager, **{name: LIST + "exit 1\n"})
    assert tree.run(sent(bundle_of({}, *INSTALL))).exit != 0
    assert not tree.exists("said")


@pytest.mark.parametrize(("status", "ended"), [(106, 0), (104, 5)])
def test_a_repository_out_of_reach_fails_no_install_that_went_by_another(
    tree: Tree, status: int, ended: int
) -> None:
    node_of(tree, "zypper", zypper=f"{MANAGER}exit {status}\n")
    assert tree.run(sent(bundle_of({}, *INSTALL))).exit == ended
