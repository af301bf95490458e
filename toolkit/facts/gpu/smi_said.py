"""What nvidia-smi says in place of an answer, or in place of a value.

Sources: nvmlErrorString of libnvidia-ml ("GPU is lost", "Driver/library version mismatch",
"Driver Not Loaded"), and nvidia-smi's own sentences around them. It writes the GPU as "GPU
0000:CA:00.0", "GPU0000:91:00.0" and "GPU7: 0000:CA:00.0".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ADDRESS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
# Of the table a row without a name: "|   5  ERR!     On   | 00000000:91:00.0 Off |  ERR! |".
_LOST = re.compile(
    r"Unable to determine the device handle for|GPU is lost|^\|\s+\d+\s+ERR!\s", re.IGNORECASE
)
_RESET = re.compile(r"GPU requires reset", re.IGNORECASE)
_NO_ANSWER = re.compile(
    r"Failed to initialize NVML|No devices were found|couldn't communicate with the NVIDIA driver",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SmiSaid:
    """Lines of nvidia-smi that are no answer, each once."""

    lost: tuple[str, ...]  # a GPU does not answer
    reset: tuple[str, ...]  # a GPU wants to be reset
    silent: tuple[str, ...]  # NVML does not answer for any GPU

    @property
    def addresses(self) -> tuple[str, ...]:
        """The GPUs that these lines name, as sysfs writes them."""
        found = [_ADDRESS.search(line) for line in (*self.lost, *self.reset)]
        plain = (each[0].lower().partition(":") for each in found if each)
        return tuple(dict.fromkeys(f"{int(domain, 16):04x}:{rest}" for domain, _, rest in plain))


def parse_smi_said(text: str) -> SmiSaid:
    """Pick the sentences out of any answer of nvidia-smi; most have none."""
    lines = tuple(dict.fromkeys(line.strip() for line in text.split("\n")))

    def having(words: re.Pattern[str]) -> tuple[str, ...]:
        return tuple(line for line in lines if words.search(line))

    return SmiSaid(having(_LOST), having(_RESET), having(_NO_ANSWER))
