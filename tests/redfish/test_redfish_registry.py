"""The cache of registries: quick where it holds, and never a reason to fail."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from toolkit.redfish.registry import RegistryCache, RegistryKey

KEY = RegistryKey("Dell Inc.", "PowerEdge R750", "1.8.2", "BiosAttributeRegistry.v1_0_0")
TEXT = '{"RegistryEntries": {"Attributes": []}}\n'


def test_what_one_run_fetched_the_next_has(tmp_path: Path) -> None:
    RegistryCache(tmp_path).put(KEY, TEXT)
    assert RegistryCache(tmp_path).get(KEY) == TEXT


@pytest.mark.parametrize(
    "other",
    [
        RegistryKey("Dell Inc.", "PowerEdge R750", "1.13.2", KEY.name),
        RegistryKey("Dell Inc.", "PowerEdge XE9680", "1.8.2", KEY.name),
        RegistryKey("Dell Inc.", "PowerEdge R750", "1.8.2", KEY.name, lockdown="on"),
    ],
    ids=["other-bios", "other-model", "locked-down"],
)
def test_another_machine_s_registry_is_not_taken(tmp_path: Path, other: RegistryKey) -> None:
    RegistryCache(tmp_path).put(KEY, TEXT)
    assert RegistryCache(tmp_path).get(other) is None


@pytest.mark.parametrize("version", ["", "1.8.2"])
def test_what_tells_no_version_or_name_is_not_kept(tmp_path: Path, version: str) -> None:
    unknown = RegistryKey("NVIDIA", "GB200", version, "" if version else "BiosAttributeRegistry")
    cache = RegistryCache(tmp_path)
    cache.put(unknown, TEXT)
    assert cache.get(unknown) is None
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_no_registry_and_without_a_folder_one_is_kept_for_the_run(
    tmp_path: Path,
) -> None:
    for cache in (RegistryCache(), RegistryCache(tmp_path)):
        cache.put(KEY, "")
        assert cache.get(KEY) is None
        assert list(tmp_path.iterdir()) == []
        cache.put(KEY, TEXT)
        assert cache.get(KEY) == TEXT


def test_a_change_is_planned_on_what_the_bmc_says_now(tmp_path: Path) -> None:
    RegistryCache(tmp_path).put(KEY, TEXT)
    fresh = RegistryCache(tmp_path, fresh=True)
    assert fresh.get(KEY) is None
    fresh.put(KEY, TEXT)
    assert fresh.get(KEY) == TEXT


@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "folder"])
def test_a_damaged_file_counts_for_nothing(tmp_path: Path, harm: str) -> None:
    RegistryCache(tmp_path).put(KEY, TEXT)
    (file,) = tmp_path.iterdir()
    data = file.read_bytes()
    if harm == "folder":
        file.unlink()
        file.mkdir()
    else:
        file.write_bytes(
            {"flip": data.replace(b"Attr", b"attr"), "cut": data[:-3], "empty": b""}[harm]
        )
    cache = RegistryCache(tmp_path)
    assert cache.get(KEY) is None
    cache.put(KEY, TEXT)
    assert cache.get(KEY) == TEXT


def test_a_folder_that_cannot_be_made_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = RegistryCache(tmp_path / "file" / "registries")
    cache.put(KEY, TEXT)
    assert cache.get(KEY) == TEXT


def test_nothing_is_left_lying_beside(tmp_path: Path) -> None:
    cache = RegistryCache(tmp_path)
    cache.put(KEY, TEXT)
    cache.put(KEY, TEXT)
    assert len(list(tmp_path.iterdir())) == 1


def test_equal_machines_wait_for_one_fetch_unless_one_of_them_had_none() -> None:
    cache, other = RegistryCache(), RegistryKey("Dell Inc.", "R760", "1.8.2", KEY.name)
    assert cache.turn(KEY) is cache.turn(replace(KEY))
    assert cache.turn(KEY) is not cache.turn(other)
    assert (cache.worth(KEY), cache.worth(RegistryKey("Dell Inc.", "R750", "", ""))) == (
        True,
        False,
    )
    cache.in_vain(KEY)
    assert (cache.worth(KEY), cache.worth(other)) == (False, True)


def test_a_file_holds_its_digest_then_the_registry_as_served_for_its_owner_alone(
    tmp_path: Path,
) -> None:
    text = TEXT.replace("[]", '"\udcff"')
    RegistryCache(tmp_path / "kept").put(KEY, text)
    (file,) = (tmp_path / "kept").iterdir()
    head, data = file.read_bytes().split(b"\n", 1)
    assert file.name == f"{KEY.digest}.json"
    assert (head, data) == (
        b"sha256 " + sha256(data).hexdigest().encode(),
        text.encode("utf-8", "surrogateescape"),
    )
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert RegistryCache(tmp_path / "kept").get(KEY) == text
