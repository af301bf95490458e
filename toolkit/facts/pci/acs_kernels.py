"""Which argument sets ACS on which kernel.

    from           argument
    4.19           pci=disable_acs_redir=      clears redirects, leaves the rest
    6.11           pci=config_acs=             any bit; and both go through one function
    6.11 to 6.14   neither works               but for 6.12.23, 6.13.11, 6.14.2 and later

Of the 6.11 to 6.14 that are not mended, config_acs gives up at its second device and takes what
is to be off from the firmware; disable_acs_redir sets all other bits, and leaves redirects as the
firmware had them. Sources: kernel commits aaca43fda742 (4.19), 47c8846a49ba (6.11) and
9cf8a952d57b (6.15; in stable since 6.12.23, 6.13.11 and 6.14.2).
"""

from __future__ import annotations

import re
from enum import StrEnum

from toolkit.facts.versions import Version


class AcsArgument(StrEnum):
    """An option of ``pci=`` that sets ACS."""

    REDIRECT = "disable_acs_redir"
    CONFIG = "config_acs"


_FIRST, _REWRITTEN, _MENDED = (4, 19), (6, 11), (6, 15)
_MENDED_IN = {(6, 12): 23, (6, 13): 11, (6, 14): 2}  # the point releases that have it too
# RHEL 9.4, of April 2024: before 6.11 there was nothing of it to port back.
_EL9 = re.compile(r"5\.14\.0-(\d+)\..*\.el9")
_EL9_LAST = 427
_ENTERPRISE = re.compile(r"\.el\d|\.ocs\d|\.an\d")
_SLE = 150000  # "6.4.0-150600.23-default": the service pack behind the dash
_SLE_PORTS = (6, 4)  # in support when 6.11 came


def acs_argument(release: str) -> AcsArgument | None:
    """The option of ``pci=`` that is known to work; None for none.

    None too where a distribution may have ported 6.11's rewriting of it back, with or without its
    mistakes: RHEL 8, 9.5 and later and 10, SUSE since 15 SP6, kernels for NVIDIA's own machines.

    :param release: "6.12.117+deb12-amd64".
    """
    numbers = Version(release).numbers
    if "nvidia" in release:
        return None
    if _ENTERPRISE.search(release):
        port = _EL9.match(release)
        known = port is not None and int(port[1]) <= _EL9_LAST
        return AcsArgument.REDIRECT if known else None
    if len(numbers) > 3 and numbers[3] >= _SLE and numbers[:2] >= _SLE_PORTS:
        return None
    if numbers[:2] < _FIRST:
        return None
    if numbers[:2] < _REWRITTEN:
        return AcsArgument.REDIRECT
    return AcsArgument.CONFIG if _mended(numbers) else None


def mistakes_arguments(release: str) -> bool:
    """Whether the kernel is one of those that mistake both options, beyond doubt.

    Ubuntu's "6.14.0-27" has no point release, and may be mended.
    """
    numbers = Version(release).numbers
    if len(numbers) < 3 or numbers[2] == 0 or numbers[:2] < _REWRITTEN:
        return False
    return acs_argument(release) is None and not _ENTERPRISE.search(release)


def _mended(numbers: tuple[int, ...]) -> bool:
    if numbers[:2] >= _MENDED:
        return True
    first = _MENDED_IN.get((numbers[0], numbers[1]))
    return first is not None and len(numbers) > 2 and numbers[2] >= first
