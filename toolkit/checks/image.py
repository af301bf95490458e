"""Whether a node is the image that it was born from."""

from __future__ import annotations

from toolkit.checks.check import Finding, Impact, Status, check, failed, not_applicable, passed
from toolkit.facts.node.node import Node
from toolkit.facts.passport import PLACE, SIGNATURE, Passport
from toolkit.facts.passport_beside import PassportDifference, compare, untold
from toolkit.plural import counted
from toolkit.want import Want

_LATER = "make and test the image with that kernel, or waive image.passport until it is"
_AGAIN = "boot the image that was tested; what was changed on purpose belongs into the image"


@check(
    "image.passport",
    impact=Impact.FRAGILE,
    source=PLACE,
    fix="boot the image anew; what was changed on purpose belongs into the image",
    needs_gpu=False,
)
def passport(node: Node, want: Want) -> Finding:
    """The node is as its image was born: kernel, arguments, modules, files.

    An image is tested once, and then multiplied by the fleet. Its passport tells what was
    tested: each kernel, each module with its hash, the builds that are to be loaded, the
    kernel's arguments, and each file that was placed. A module that was replaced in the image,
    or that was loaded from elsewhere, such as an initramfs with older modules, is found here
    before a job finds it.

    What a later run of ours left, by provision or by the program that rebuilds modules after an
    update, is told apart: the run is named, and the check passes. What others updated fails,
    lawful or not: nobody has tested it together with the rest. A kernel that came later by a
    package is no failure of the node's: it is no longer the image, and that is said (n/a), as
    long as all else is as it was. verify --passport refuses it.

    A node without a passport is not judged, unless verify --passport demands one.
    """
    born = node.passport
    if born is None:
        if want.passport:
            return failed(
                "no passport",
                expected=f"{PLACE}, as images have it",
                hint="make the image by the verb image",
            )
        return not_applicable("it was not born from an image with a passport")
    if want.passport_key and (forged := _unsigned(node)):
        return forged
    differences = compare(born, node)
    if foreign := [each for each in differences if not each.since]:
        return _unlike(foreign, (*map(str, differences), *_uncompared(born, node)), node, want)
    silent = tuple(f"{name}: the kernel does not tell its build" for name in untold(born, node))
    about = f"as the image was born: {counted(len(born.every_file), 'file')}, kernel {node.kernel}"
    if differences:
        runs = ", ".join(sorted({each.since for each in differences}))
        about = f"the image, updated since by {runs} of ours: {counted(len(differences), 'change')}"
    if born.arguments is None:
        silent = (*silent, "the passport does not tell the kernel's arguments")
    return passed(about, details=(*map(str, differences), *silent))


def _unsigned(node: Node) -> Finding | None:
    """A passport that no key vouches for which was given; None where one does."""
    good, told = node.passport_verified
    if good:
        return None
    return failed(
        told,
        expected="a good signature by a key that was given",
        hint=f"the image is made with --passport-sign; the signature lies in {SIGNATURE}",
    )


def _unlike(
    foreign: list[PassportDifference], details: tuple[str, ...], node: Node, want: Want
) -> Finding:
    """What others changed; a kernel that only came later by a package is no failure by itself."""
    later = all(each.later for each in foreign)
    if later and not want.passport:
        return Finding(
            Status.NA,
            f"no longer the image: kernel {node.kernel} came later; all else is as it was born",
            details=details,
        )
    # What somebody replaced is told before the kernel that came by a package.
    first, *more = sorted(foreign, key=lambda each: each.later)
    return failed(
        f"unlike the image: {first}{f', and {len(more)} more' if more else ''}",
        expected=f"as the image was born: {PLACE}",
        hint=_LATER if later else _AGAIN,
        details=details,
    )


def _uncompared(born: Passport, node: Node) -> tuple[str, ...]:
    if born.kernel(node.kernel) is not None:
        return ()
    return (f"what is loaded is not compared: the passport does not tell of kernel {node.kernel}",)
