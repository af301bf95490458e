"""The document: what it holds, that it is read as it was written, and that it stays the same."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tests.unit.bills import told_of_the_schema
from tests.unit.passports import BORN, LOAD, PEER
from toolkit.errors import Unparsable
from toolkit.facts.passport import FileEntry, ModuleEntry, Passport, parse
from toolkit.features.image.run_passport import unsigned


def test_it_is_read_as_it_was_written() -> None:
    assert parse(BORN.json()) == BORN
    bare = Passport("0.1", "debian 12", "aarch64", ())
    assert parse(bare.json()) == bare


def test_the_same_passport_has_the_same_bytes_and_another_has_others() -> None:
    assert parse(BORN.json()).json() == BORN.json()
    other = replace(BORN, files=(FileEntry(LOAD, "f" * 64, "644"),))
    assert other.json() != BORN.json()
    serials = {json.loads(each.json())["sbom"]["serialNumber"] for each in (BORN, other)}
    assert len(serials) == 2


def test_modules_without_a_signature_are_named_with_what_that_means() -> None:
    [kernel] = BORN.kernels
    plain, inbox = (replace(PEER, name=name, signature=None) for name in ("nvidia", "mlx5_core"))
    inbox = replace(inbox, file=replace(inbox.file, path="/lib/modules/6.1/kernel/mlx5_core.ko"))

    def told(*modules: ModuleEntry) -> str:
        return unsigned(replace(BORN, kernels=(replace(kernel, modules=modules),)))

    assert told(PEER, inbox) == ""
    assert told(PEER, inbox, plain, plain).startswith("not signed: nvidia. A node with Secure Boot")


def test_each_path_stands_on_a_line_of_its_own_as_the_probe_takes_it() -> None:
    lines = [line.strip().rstrip(",") for line in BORN.json().split("\n")]
    paths = [line for line in lines if line.startswith('"path": "/')]
    assert paths == [f'"path": "{file.path}"' for file in BORN.every_file]
    assert BORN.json().isascii()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("", "cannot read", id="empty"),
        pytest.param("[]", "format", id="a-list"),
        pytest.param("[" * 200_000, "nested", id="brackets-without-end"),
        pytest.param(BORN.json()[:-200], "cannot read", id="cut"),
        pytest.param('{"format": "gdr-toolkit/passport/9"}', "passport/9", id="a-later-format"),
        pytest.param('{"format": "gdr-toolkit/passport/1"}', "KeyError", id="nothing-in-it"),
        pytest.param(BORN.json().replace(LOAD, "/etc/../x"), "no plain", id="a-path-that-climbs"),
        pytest.param(BORN.json().replace(LOAD, "/etc/$(id)"), "no plain", id="a-path-for-a-shell"),
        pytest.param(
            BORN.json().replace(f'"{PEER.file.sha256}"', '"f00"'), "no SHA-256", id="half-a-hash"
        ),
        pytest.param(BORN.json().replace('"x86_64"', "7"), "no text", id="a-number"),
    ],
)
def test_what_is_no_passport_is_refused(text: str, why: str) -> None:
    with pytest.raises(Unparsable, match=why):
        parse(text)


def test_its_bill_of_materials_holds_to_the_published_schema() -> None:
    """The schemas are CycloneDX's own, as its Python library brings them."""
    bill = json.loads(BORN.json())["sbom"]
    assert told_of_the_schema(bill) == []
    assert told_of_the_schema({**bill, "bomFormat": "SPDX"}) != []


def test_the_bill_has_what_was_placed_and_what_that_rests_on() -> None:
    bill = json.loads(BORN.json())["sbom"]
    components = {each["bom-ref"]: each for each in bill["components"]}
    peermem = components[PEER.file.path]
    assert (peermem["type"], peermem["name"]) == ("device-driver", "nvidia_peermem")
    assert peermem["hashes"] == [{"alg": "SHA-256", "content": PEER.file.sha256}]
    assert components[LOAD]["type"] == "file"
    needs = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    assert [path.rpartition("/")[2] for path in needs[PEER.file.path]] == [
        "ib_uverbs.ko",
        "nvidia.ko",
    ]


def test_the_kernels_own_modules_are_not_in_the_bill() -> None:
    kernel = BORN.kernels[0]
    inbox = replace(PEER, file=replace(PEER.file, path="/lib/modules/x/kernel/ib_core.ko"))
    born = replace(BORN, kernels=(replace(kernel, modules=(inbox,)),))
    refs = [each["bom-ref"] for each in json.loads(born.json())["sbom"]["components"]]
    assert refs == [LOAD]
