"""Packages that a bundle installs, by each package manager, and what takes them back."""

from __future__ import annotations

import pytest

from tests.scripts.engine import Tree, bundle_of, sent
from toolkit.node.deliver import rollback_script

pytestmark = pytest.mark.shell

INSTALL = ("undo first 'INSTALL_PACKAGES uninstall'", "trigger 'INSTALL_PACKAGES install a=2 b=1'")
SAYS = '#!/bin/sh\necho "${0##*/} $*" >>"$GDR_ROOT/said"\n'
MANAGER = f'{SAYS}touch "$GDR_ROOT/newer"\n'
# a is replaced, b is new, c stays.
LIST = """#!/bin/sh
if [ -e "$GDR_ROOT/newer" ]; then echo "@a=2"; echo "@b=1"; else echo "@a=1"; fi
echo "@c=7"
"""
HISTORY = """[ "$3" != list ] || { [ ! -e "$GDR_ROOT/newer" ] || echo "42 | install"; exit; }
"""
APT = "apt-get -y -o Dpkg::Options::=--force-confold install"


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        pytest.param(
            {"apt-get": MANAGER, "dpkg-query": LIST.replace("@", "ii ")},
            [f"{APT} --no-remove a=2 b=1", f"{APT} --allow-downgrades a=1 b-"],
            id="apt",
        ),
        pytest.param(
            {"dnf": f"#!/bin/sh\n{HISTORY}{MANAGER}", "rpm": LIST.replace("@", "")},
            ["dnf -y install a-2 b-1", "dnf -y history undo 42"],
            id="dnf",
        ),
        pytest.param(
            {"zypper": MANAGER, "rpm": LIST.replace("@", "")},
            [
                "zypper --non-interactive install --oldpackage a=2 b=1",
                "zypper --non-interactive remove b",
                "zypper --non-interactive install --oldpackage a=1",
            ],
            id="zypper",
        ),
    ],
)
def test_packages_come_in_their_versions_and_go_back_to_those_before(
    tree: Tree, commands: dict[str, str], said: list[str]
) -> None:
    for name, text in commands.items():
        tree.command(name, text)
    ran = tree.run(sent(bundle_of({}, *INSTALL)))
    assert ran.exit == 0, ran
    assert tree.read("said").split("\n")[:-1] == said[:1]
    back = tree.run(rollback_script("last", 5))
    assert back.exit == 0, back
    assert tree.read("said").split("\n")[:-1] == said
