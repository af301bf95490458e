"""The cache of registries: quick where it holds, and never a reason to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

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
