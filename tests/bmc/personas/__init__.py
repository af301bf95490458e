"""The kinds of BMC that are simulated, each small and written from what is known of its maker."""

from __future__ import annotations

from collections.abc import Callable

from tests.bmc.persona import Persona
from tests.bmc.personas.dell import dell
from tests.bmc.personas.hpe import hpe

PERSONAS: dict[str, Callable[[], Persona]] = {"dell": dell, "hpe": hpe}
