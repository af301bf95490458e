"""In which order modules go and come back, and what stands in the way: rows of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.features.reload.reload_rows import ROWS, TOLD
from tests.unit.holdings import LOADED, UVERBS, holding, modules, user
from toolkit.errors import Unsupported, UsageError
from toolkit.facts.modules.module_users import Holding
from toolkit.features.reload.plan import ROOTS, Reload, read_over, read_what, reload_of
from toolkit.features.reload.plan_obstacles import ObstacleKind


def judged(what: str, over: str = "", **texts: str) -> Reload:
    return reload_of(holding(**texts), read_what(what), read_over(over), ssh=True)


def told(found: Reload) -> list[tuple[ObstacleKind, str]]:
    return [(each.kind, each.name) for each in found.obstacles]


@pytest.mark.parametrize(
    ("what", "unload"),
    [
        ("peermem", ("nvidia_peermem",)),
        ("driver", ("nvidia_peermem", "nvidia_uvm", "nvidia")),
        (
            "rdma",
            (
                *("mlx5_ib", "nvidia_peermem", "rdma_ucm"),
                *("ib_uverbs", "mlx5_core", "rdma_cm", "ib_core"),
            ),
        ),
        ("ib-uverbs", ("mlx5_ib", "nvidia_peermem", "rdma_ucm", "ib_uverbs")),
        ("i40e", ("i40e",)),
        ("gdrdrv", ()),
    ],
)
def test_users_go_first_and_come_back_last(what: str, unload: tuple[str, ...]) -> None:
    found = judged(what)
    assert found.unload == unload
    assert found.load == tuple(reversed(unload))


def test_peermem_is_loaded_where_it_was_not() -> None:
    loaded = modules(nvidia=(1, "nvidia_uvm,"), ib_uverbs=(2, "rdma_ucm,mlx5_ib,"))
    text = "".join(line for line in loaded.splitlines(True) if "nvidia_peermem 65" not in line)
    found = judged("peermem", modules=text)
    assert (found.unload, found.load, found.obstacles) == ((), ("nvidia_peermem",), ())


def test_a_ring_of_modules_is_refused() -> None:
    with pytest.raises(Unsupported, match="modules use one another: mlx5_core, mlx5_ib"):
        judged("mlx5_core", modules=modules(mlx5_ib=(1, "mlx5_core,"), mlx5_core=(1, "mlx5_ib,")))


@given(st.data())
def test_the_order_is_one_that_the_kernel_allows(data: st.DataObject) -> None:
    names = [f"m{number}" for number in range(data.draw(st.integers(1, 9)))]
    above: dict[str, list[str]] = {
        name: data.draw(st.lists(st.sampled_from(names[i + 1 :]), unique=True))
        if names[i + 1 :]
        else []
        for i, name in enumerate(names)
    }
    text = "".join(
        f"{name} 1 {len(users)} {','.join([*users, '']) or '-'} Live 0x0\n"
        for name, users in above.items()
    )
    root = data.draw(st.sampled_from(names))
    found = reload_of(holding(modules=text), (root,), ssh=True)
    left = set(names)
    for name in found.unload:
        assert not left & set(above[name]), "rmmod would refuse"
        left.remove(name)
    assert found.unload[-1] == root
    assert found.load == found.unload[::-1]


@pytest.mark.parametrize(
    ("what", "texts", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_stands_in_the_way(
    what: str, texts: dict[str, str], expected: list[tuple[ObstacleKind, str]]
) -> None:
    assert told(judged(what, **texts)) == expected


@pytest.mark.parametrize(("name", "what", "texts"), [row[:3] for row in ROWS])
def test_an_obstacle_names_what_it_is_and_who_and_what_to_do(
    name: str, what: str, texts: dict[str, str]
) -> None:
    found = judged(what, **texts).obstacles
    assert [(each.text, each.hint) for each in found] == TOLD.get(name, [])


@pytest.mark.parametrize(
    ("what", "texts", "name", "text"),
    [
        pytest.param(
            "rdma",
            {"guests": "".join(f"0000:19:00.{at}\n" for at in range(2, 8))},
            "0000:19:00.2",
            "virtual functions are lent to guests: 0000:19:00.2, 0000:19:00.3, 0000:19:00.4, "
            "0000:19:00.5",
            id="many-guests",
        ),
        pytest.param(
            "driver",
            {"users": user(7, "py", *(f"/dev/nvidia{at}" for at in range(3)))},
            "py",
            "py, pid 7 of alice has /dev/nvidia0, /dev/nvidia1, /dev/nvidia2 open",
            id="three-devices",
        ),
        pytest.param(
            "driver",
            {"users": user(7, "py", *(f"/dev/nvidia{at}" for at in range(4)))},
            "py",
            "py, pid 7 of alice has /dev/nvidia0, /dev/nvidia1, /dev/nvidia2 and 1 more open",
            id="four-devices",
        ),
        pytest.param(
            "driver",
            {"users": user(7, "a,b", "/dev/nvidia0")},
            "7",
            "a,b, pid 7 of alice has /dev/nvidia0 open",
            id="a-name-that-would-be-two-words-of-over",
        ),
        pytest.param(
            "rdma",
            {"mounts": "swap 0:60 /dev/nvme1n1 s:/h rw,proto=rdma\n",
             "modules": modules(rpcrdma=(0, "-"), ib_core=(5, f"rpcrdma,{LOADED['ib_core'][1]}"))},
            "/dev/nvme1n1",
            "/dev/nvme1n1 (swap) is mounted, and nobody can tell over what",
            id="swap-over-what-nobody-can-tell",
        ),
    ],
)  # fmt: skip
def test_of_many_the_first_few_are_named(
    what: str, texts: dict[str, str], name: str, text: str
) -> None:
    found = judged(what, **texts).obstacles
    assert (found[0].name, found[0].text) == (name, text)


@pytest.mark.parametrize(
    ("word", "texts"),
    [
        ("ssh:ens1np0", {"ways": "session 192.0.2.1 ens1np0\n"}),
        ("route:ens1np0", {"ways": "session 192.0.2.1 eno1\nroute default ens1np0\n"}),
        ("job:python3", {"users": user(7, "python3", UVERBS)}),
        ("mount:/scratch", {"mounts": "beegfs 0:60 /scratch beegfs_nodev rw\n"}),
    ],
)
def test_who_names_it_goes_over_it_and_over_nothing_else(word: str, texts: dict[str, str]) -> None:
    assert judged("rdma", **texts).obstacles
    found = judged("rdma", word, **texts)
    assert (found.obstacles, found.over) == ((), (word,))
    assert judged("rdma", f"{word}x", **texts).obstacles


@pytest.mark.parametrize(
    "texts",
    [
        {"module_files": ""},
        {"modules": modules(ib_uverbs=(9, LOADED["ib_uverbs"][1]))},
        {"ways": ""},
        {"guests": "0000:19:00.2\n"},
    ],
)
def test_nobody_goes_over_what_the_kernel_refuses_or_nobody_knows(texts: dict[str, str]) -> None:
    for each in judged("rdma", **texts).obstacles:
        assert each.word == ""


@pytest.mark.parametrize("text", ["ssh", "ssh:", "kernel:ib_uverbs", "unknown:x", "eth0"])
def test_an_override_names_kind_and_thing(text: str) -> None:
    with pytest.raises(UsageError, match="KIND:NAME"):
        read_over(text)


@pytest.mark.parametrize("text", ["", "rdma;reboot", "../x", "a b", "peermem,"])
def test_what_is_no_module_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no module"):
        read_what(text)


def test_our_own_session_is_told_apart() -> None:
    found: Holding = holding(ways="session 192.0.2.1 ens1np0\n")
    judged_by = reload_of(found, ROOTS["rdma"], frozenset({"ssh:ens1np0"}), ssh=True)
    assert judged_by.ours == ("ens1np0",)
    assert not judged_by.obstacles
