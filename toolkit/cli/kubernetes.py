"""The verb that has Kubernetes run our probe and our bundles."""

from __future__ import annotations

import sys
from pathlib import Path

from toolkit.change.kubernetes import stream
from toolkit.change.kubernetes_terms import Terms, parse_terms
from toolkit.cli.options import Option, Said
from toolkit.cli.session import Session
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode
from toolkit.flow.kubernetes import reading_manifests, write_manifests

PODS = (
    Option("image", "", "small image with sh and nsenter, by digest: NAME@sha256:DIGEST"),
    Option("namespace", "gdr-toolkit", "the namespace of all that is rendered"),
    Option(
        "select",
        "nvidia.com/gpu.present=true",
        "labels that nodes must have: KEY or KEY=VALUE, apart by commas",
    ),
    Option("tolerate", "nvidia.com/gpu", "taints that keep no pod of ours away: KEY=VALUE:EFFECT"),
    Option("confined", False, "the probe with capabilities in place of privileged"),
    Option("out", "", "folder for the manifests, one file each; standard output unless given"),
)


@verb(PODS)
def kubernetes(said: Said) -> ExitCode:
    """Manifests with which Kubernetes reads nodes as doctor does; nothing is asked of a cluster.

    A DaemonSet runs the probe on each node; the logs of its pods are evidence for --from.

    Examples:
      invoke kubernetes --image REGISTRY/busybox@sha256:DIGEST --out manifests
      kubectl apply --server-side -f manifests
      kubectl -n gdr-toolkit rollout status daemonset/gdr-probe
      kubectl -n gdr-toolkit logs -l app.kubernetes.io/name=gdr-probe --prefix --tail=-1 > pods.log
      invoke doctor --from pods.log
    """
    session = Session.begin("kubernetes", said)
    manifests = reading_manifests(terms_of(said))
    if not said.text("out"):
        sys.stdout.write(stream(manifests))
        return ExitCode.OK
    for file in write_manifests(manifests, Path(said.text("out"))):
        session.say(str(file))
    session.remark(f"next: kubectl apply --server-side -f {said.text('out')}")
    return ExitCode.OK


def terms_of(said: Said) -> Terms:
    """:raises UsageError: for what Kubernetes would not take."""
    return parse_terms(
        said.text("image"),
        said.text("namespace"),
        said.text("select"),
        said.text("tolerate"),
        confined=said.flag("confined"),
    )
