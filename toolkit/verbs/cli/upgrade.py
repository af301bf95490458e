"""The words that name an upgrade, for the verbs that rehearse it and carry it out."""

from __future__ import annotations

import re
import shlex

from toolkit.cli.options import Option, Said
from toolkit.errors import Unparsable, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.versions import parse_kernel_release
from toolkit.node.scripts import assembled
from toolkit.plan.upgrade_packages import PACKAGES, packages_asked
from toolkit.ssh.transport import Transport
from toolkit.upgrade import Upgrade

UPGRADE = (
    Option("driver", "", "the NVIDIA driver that they would have: 595.58"),
    Option("ofed", "", "the OFED: 26.04, or all of it: 26.04-1.1.0"),
    Option("kernel", "", "the kernel release: 6.8.0-90-generic"),
)
_PACKAGES_S = 90
_FORMS = {
    "driver": (r"\d{3}(\.\d+)+", "595.58"),
    "ofed": (r"\d{1,2}\.\d{1,2}(-\d+(\.\d+)*)?", "26.04 or 26.04-1.1.0"),
    "firmware": (r"\d{2}\.\d{2}\.\d{4}", "28.43.2566"),
}


def upgrade_of(said: Said) -> Upgrade:
    """What was named, if anything.

    :raises UsageError: for a version that is none.
    """
    for name, (form, example) in _FORMS.items():
        if said.text(name) and not re.fullmatch(form, said.text(name)):
            why = f"--{name} {said.text(name)!r} is no version of it"
            raise UsageError(why, hint=f"for example: --{name} {example}")
    kernel, ofed = said.text("kernel"), said.text("ofed")
    try:
        kernel = str(parse_kernel_release(kernel)) if kernel else ""
    except Unparsable:
        raise UsageError(
            f"--kernel {kernel!r} is no kernel release",
            hint="as uname -r prints it: 6.8.0-90-generic",
        ) from None
    return Upgrade(said.text("driver"), whole_ofed(ofed), kernel, said.text("firmware"))


def whole_ofed(version: str) -> str:
    """A month alone as its first general release, as the vendor numbers them: 26.04-1.0.0."""
    return f"{version}-1.0.0" if version and "-" not in version else version


def with_packages(upgrade: Upgrade, transport: Transport, evidence: Evidence) -> Evidence:
    """The same, with what the node's repositories have of what it would need."""
    names = packages_asked(evidence, upgrade)
    if not names:
        return evidence
    call = " ".join(("offered", *map(shlex.quote, names)))
    said = transport.run(assembled(("frames.sh", "offered.sh"), call), limit_s=_PACKAGES_S)
    told = Evidence.parse(said.stdout).frames
    return evidence.plus(told[key] for key in (PACKAGES,) if key in told)
