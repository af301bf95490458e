"""Where things lie on a BMC: on real captures, and on what vendors leave out."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from toolkit.errors import BmcError, BmcRefused
from toolkit.redfish.resource import (
    Resource,
    find,
    is_registry,
    link,
    members,
    parsed,
    registry_names,
    registry_place,
    text_of,
)

BIOS = {"@odata.id": "/r/Systems/1/Bios"}


class Served:
    """Resources by path, as a BMC would serve them; the rest it does not have."""

    def __init__(self, tree: Mapping[str, object]) -> None:
        self.tree = tree
        self.asked: list[str] = []

    def __call__(self, path: str) -> Resource:
        self.asked.append(path)
        found = self.tree.get(path, 404)
        if isinstance(found, int):
            raise BmcRefused(f"bmc: GET {path}: {found}", found)
        text = json.dumps(found)
        return Resource(path, text, parsed("bmc", path, text))


def test_the_system_with_settings_is_found_and_not_the_first() -> None:
    get = Served({"/a": {"Id": "HGX"}, "/b": {"Bios": BIOS}, "/r/Systems/1/Bios": {}})
    assert find("bmc", get, ["/a", "/b"]).system.path == "/b"


@pytest.mark.parametrize("status", [404, 500, 503])
def test_a_system_that_fails_does_not_hide_the_one_with_settings(status: int) -> None:
    get = Served({"/a": status, "/b": {"Bios": BIOS}, "/r/Systems/1/Bios": {}})
    assert find("bmc", get, ["/a", "/b"]).system.path == "/b"
    with pytest.raises(BmcRefused, match=f"GET /a: {status}"):
        find("bmc", Served({"/a": status, "/b": {}}), ["/a", "/b"])


def test_of_systems_without_end_no_more_are_asked_than_any_machine_has() -> None:
    get = Served({})
    with pytest.raises(BmcRefused):
        find("bmc", get, [f"/{number}" for number in range(1000)])
    assert get.asked == [f"/{number}" for number in range(32)]


def test_the_registry_of_a_bios_is_found_behind_those_of_many_adapters() -> None:
    """One registry a port: eight GPUs bring more of them than there are of all else."""
    listed = [{"@odata.id": f"/r/NetworkAttributes_{n}"} for n in range(60)]
    found = members({"Members": [*listed, {"@odata.id": "/r/Bios.v1"}]})
    assert list(registry_names({"AttributeRegistry": "Bios.v1"}, found)) == ["/r/Bios.v1"]


def test_without_settings_anywhere_it_is_said() -> None:
    with pytest.raises(BmcError, match="none of its 1 systems has BIOS settings"):
        find("bmc", Served({"/a": {"Id": "HGX"}}), ["/a"])


@pytest.mark.parametrize("name", ["SD", "Settings", "Pending"])
def test_what_is_pending_is_found_where_nothing_points_to_it(name: str) -> None:
    tree = {"/b": {"Bios": BIOS}, "/r/Systems/1/Bios": {}, f"/r/Systems/1/Bios/{name}": {}}
    pending = find("bmc", Served(tree), ["/b"]).pending
    assert pending is not None
    assert pending.path == f"/r/Systems/1/Bios/{name}"


def test_what_points_to_it_goes_before_guesses() -> None:
    settings = {"@Redfish.Settings": {"SettingsObject": {"@odata.id": "/r/bios/later"}}}
    tree = {"/b": {"Bios": BIOS}, "/r/Systems/1/Bios": settings, "/r/bios/later": {}}
    get = Served({**tree, "/r/Systems/1/Bios/SD": {}})
    pending = find("bmc", get, ["/b"]).pending
    assert pending is not None
    assert pending.path == "/r/bios/later"
    assert "/r/Systems/1/Bios/SD" not in get.asked


def test_nothing_pending_is_no_failure() -> None:
    assert (
        find("b", Served({"/b": {"Bios": BIOS}, "/r/Systems/1/Bios": {}}), ["/b"]).pending is None
    )


@pytest.mark.parametrize("status", [403, 500, 503])
def test_what_is_refused_is_not_taken_for_absent(status: int) -> None:
    with pytest.raises(BmcRefused):
        find("bmc", Served({"/b": {"Bios": BIOS}, "/r/Systems/1/Bios": status}), ["/b"])


@pytest.mark.parametrize("status", [400, 404, 405, 410, 501])
def test_what_a_bmc_does_not_have_it_says_by_one_of_these(status: int) -> None:
    tree = {"/a": {"Bios": BIOS}, "/r/Systems/1/Bios": status, "/b": {"Bios": "/bios"}, "/bios": {}}
    found = find("bmc", Served({**tree, "/bios/Settings": {}}), ["/a", "/b"])
    assert (found.system.path, found.pending and found.pending.path) == ("/b", "/bios/Settings")


@pytest.mark.parametrize(
    ("named", "listed", "first"),
    [
        pytest.param("Bios.v1", ["/r/Base.1", "/r/Bios.v1"], "/r/Bios.v1", id="by-its-name"),
        pytest.param("Bios.v1_0_0", ["/r/Bios.v1.0.0/"], "/r/Bios.v1.0.0/", id="other-punctuation"),
        pytest.param("Bios.v1_0", ["/r/Bios.v1_0_3"], "/r/Bios.v1_0_3", id="longer-there"),
        pytest.param("Bios.v1.0.3.json", ["/r/BIOS.v1"], "/r/BIOS.v1", id="longer-here"),
        pytest.param(
            "", ["/r/Base", "/r/BiosAttributeRegistry"], "/r/BiosAttributeRegistry", id="unnamed"
        ),
        pytest.param(
            "XyzSettings", ["/r/BiosAttributeRegistryA42"], "/r/BiosAttributeRegistryA42",
            id="misnamed",
        ),
    ],
)  # fmt: skip
def test_registries_are_matched_leniently(named: str, listed: list[str], first: str) -> None:
    assert next(registry_names({"AttributeRegistry": named}, listed)) == first


def test_of_registries_the_one_of_that_name_comes_first_and_each_but_once() -> None:
    listed = ["/r/BiosAttributeRegistryX", "/r/BIOSAttributeRegistry.v1_0", "/r/-", "/r/Base"]
    named = "BiosAttributeRegistry.v1"
    exact = f"/r/{named}"
    found = [*registry_names({"AttributeRegistry": named}, [*listed, exact])]
    assert found == [exact, "/r/BIOSAttributeRegistry.v1_0", "/r/BiosAttributeRegistryX"]


def test_no_registry_is_invented() -> None:
    listed = ["/r/Base.1.8", "/r/TaskEvent", "/r/NetworkAttributesRegistry"]
    assert list(registry_names({"AttributeRegistry": "BiosAttributeRegistry"}, listed)) == []


@pytest.mark.parametrize(
    ("location", "place"),
    [
        pytest.param([{"Language": "ja", "Uri": "/j"}, {"Language": "en-US", "Uri": "/e"}], "/e",
                     id="english-first"),
        pytest.param([{"Language": "ja", "Uri": "/j"}], "/j", id="else-what-there-is"),
        pytest.param([{"Uri": {"@odata.id": "/o"}}], "/o", id="uri-as-a-link"),
        pytest.param([{"Language": "en", "Uri": "https://bmc.example/x"}], "/x", id="absolute"),
        pytest.param([{"Language": "en", "PublicationUri": "http://d.example"}], "", id="abroad"),
        pytest.param("nonsense", "", id="no-list"),
        pytest.param([3, None, {"Uri": "/e"}], "/e", id="beside-what-is-no-place"),
    ],
)  # fmt: skip
def test_the_place_of_a_registry(location: object, place: str) -> None:
    assert registry_place({"Location": location}) == place


def test_a_registry_is_what_lists_attributes() -> None:
    assert is_registry({"RegistryEntries": {"Attributes": []}})
    assert not is_registry({"RegistryEntries": {"Attributes": None}})
    assert not is_registry({"Messages": {}})


@pytest.mark.parametrize("body", [{}, {"Bios": 3}, {"Bios": []}, {"Bios": {"@odata.id": 7}}])
def test_a_link_that_is_none_leads_nowhere(body: dict[str, object]) -> None:
    assert link(body, "Bios") == ""


def test_of_links_the_first_is_followed_and_text_is_told_without_blanks() -> None:
    system = {"Links": {"ManagedBy": [{"@odata.id": "/m"}, {"@odata.id": "/n"}]}}
    assert link(system, "Links", "ManagedBy") == "/m"
    found = [text_of({"Model": each}, "Model") for each in (" R750\t", "R750", 7, None)]
    assert found == ["R750", "R750", "", ""]


def test_members_that_are_none_are_left_out() -> None:
    assert members({"Members": [{"@odata.id": "/a"}, 3, {"x": 1}, {"@odata.id": "/b"}]}) == [
        "/a",
        "/b",
    ]
    assert members({"Members": {"@odata.id": "/a"}}) == []


@pytest.mark.parametrize("text", ['{"a": ', "[1]", '"x"', "{" * 100_000, "[" * 100_000])
def test_an_answer_cut_short_is_one_sentence(text: str) -> None:
    with pytest.raises(BmcError, match="bmc: its answer to /x is") as told:
        parsed("bmc", "/x", text)
    assert told.value.hint
