"""CycloneDX's published schema, as its Python library brings it."""

from __future__ import annotations

import json
from importlib.resources import files

from jsonschema import Draft7Validator
from referencing import Registry, Resource


def told_of_the_schema(bill: object) -> list[str]:
    """What the schema of CycloneDX 1.5 finds wrong with a bill of materials."""
    held = files("cyclonedx.schema._res")
    schemas = {
        name: json.loads(held.joinpath(f"{name}.SNAPSHOT.schema.json").read_text())
        for name in ("bom-1.5", "spdx", "jsf-0.82")
    }
    base = "http://cyclonedx.org/schema"
    known = Registry().with_resources(
        (f"{base}/{name}.SNAPSHOT.schema.json", Resource.from_contents(each))
        for name, each in schemas.items()
    )
    checker = Draft7Validator(schemas["bom-1.5"], registry=known)
    return [each.message for each in checker.iter_errors(bill)]
