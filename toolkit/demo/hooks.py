"""What an earlier provision left on a simulated node to rebuild nvidia-peermem, byte for byte."""

from __future__ import annotations

from jinja2 import Environment, FileSystemLoader

from toolkit.demo.tree import Tree
from toolkit.package_data import templates

# Its DKMS is 3.2 and builds OFED and the driver: then apt has no hook.
_UBUNTU = {
    "usr/lib/gdr-toolkit/rebuild": "dkms/rebuild.sh.j2",
    "etc/dkms/framework.conf.d/gdr-toolkit-rebuild.conf": "dkms/after-transaction.conf.j2",
    "etc/kernel/postinst.d/zz-gdr-toolkit": "kernel/rebuild.sh.j2",
    "etc/kernel/header_postinst.d/zz-gdr-toolkit": "kernel/rebuild.sh.j2",
}


def hooks(tree: Tree) -> None:
    """Add them to an Ubuntu node."""
    environment = Environment(
        loader=FileSystemLoader(templates()),
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 # no HTML, and no values
    )
    for path, template in _UBUNTU.items():
        text = environment.get_template(template).render()
        if text.startswith("#!"):
            tree.program(path, text)
        else:
            tree.text(path, text)
