"""In which order modules go and come back, and what stands in the way: rows of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.features.reload.reload_rows import ROWS, TOLD
from tests.unit.holdings import FILES, LOADED, UVERBS, holding, modules, user
from toolkit.cli.options import Said
from toolkit.errors import ExitCode, Outcome, Unsupported, UsageError
from toolkit.facts.modules.module_users import Holding
from toolkit.features.reload import cli
from toolkit.features.reload.cli import reload_lines
from toolkit.features.reload.plan import (
    ROOTS,
    Reload,
    Reloading,
    ReloadResult,
    first_result,
    read_over,
    read_what,
    reload_of,
)
from toolkit.features.reload.plan_obstacles import ObstacleKind
from toolkit.report.table import Painter


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
    ("device", "module"),
    [
        ("/dev/infiniband/uverbs0", "ib_uverbs"),
        ("/dev/infiniband/umad0", "ib_umad"),
        ("/dev/infiniband/issm0", "ib_umad"),
        ("/dev/infiniband/rdma_cm", "rdma_ucm"),
        ("/dev/nvidia-uvm", "nvidia_uvm"),
        ("/dev/nvidia-uvm-tools", "nvidia_uvm"),
        ("/dev/nvidia-modeset", "nvidia_modeset"),
        ("/dev/nvidia-fs0", "nvidia_fs"),
        ("/dev/nvidiactl", "nvidia"),
        ("/dev/nvidia-caps/nvidia-cap1", "nvidia"),
        ("/dev/gdrdrv", "gdrdrv"),
    ],
)
def test_who_has_a_device_file_open_uses_its_module(device: str, module: str) -> None:
    loaded = modules(**{module: LOADED.get(module, (0, "-"))})
    found = told(judged(module, modules=loaded, users=user(7, "py", device)))
    assert (ObstacleKind.JOB, "py") in found


@pytest.mark.parametrize(
    "name",
    [
        *("nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem", "nv_peer_mem"),
        *("nvidia_fs", "gdrdrv", "mlx_compat", "mlxfw", "mlxdevm", "mlx5_core", "mlx5_ib"),
        *("mlx5_vdpa", "mlx5_fwctl", "mlx4_core", "mlx4_ib", "mlx4_en", "ib_core", "ib_uverbs"),
        *("ib_umad", "ib_cm", "iw_cm", "ib_ipoib", "rdma_cm", "rdma_ucm", "rdma_rxe", "siw"),
        *("ib_iser", "ib_isert", "ib_srp", "ib_srpt", "iscsi_tcp", "nvme_rdma", "nvmet_rdma"),
        *("rpcrdma", "svcrdma", "xprtrdma", "irdma", "bnxt_re", "efa", "hfi1", "rdmavt", "smc"),
        *("smc_diag", "rds_rdma", "ko2iblnd"),
    ],
)
def test_what_comes_back_as_it_went_holds_nothing_up(name: str) -> None:
    text = f"nvidia 1 1 {name}, Live 0x0\n{name} 1 0 - Live 0x0\n"
    files = f"{FILES}/lib/modules/6.8.0/{name}.ko\n"
    assert told(judged("driver", modules=text, module_files=files)) == []


@pytest.mark.parametrize("first", ["mlx_compat", "mlxfw", "mlxdevm", "mlx5_core", "ib_core"])
def test_the_rdma_core_is_whatever_of_it_is_loaded(first: str) -> None:
    assert judged("rdma", modules=f"{first} 1 0 - Live 0x0\n").unload == (first,)


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


def test_who_came_by_no_ssh_asks_for_no_session() -> None:
    assert reload_of(holding(ways=""), read_what("rdma"), ssh=False).obstacles == ()


def test_of_what_is_gone_over_each_is_told_in_order() -> None:
    texts = {"users": user(7, "python3", UVERBS), "mounts": "beegfs 0:60 /scratch x rw\n"}
    assert judged("rdma", "mount:/scratch,job:python3", **texts).over == (
        "job:python3", "mount:/scratch",
    )  # fmt: skip


READY, REFUSED = ReloadResult.READY, ReloadResult.REFUSED
WOULD, NOTHING = ReloadResult.WOULD_REBOOT, ReloadResult.NOTHING
DAEMON = user(7, "nvidia-persiste", UVERBS, uid=0)
JOB = user(8, "python3", UVERBS)


@pytest.mark.parametrize(
    ("what", "texts", "live", "reboot", "code"),
    [
        ("peermem", {}, READY, READY, ExitCode.OK),
        ("gdrdrv", {}, NOTHING, NOTHING, ExitCode.OK),
        ("peermem", {"modules": modules().partition("\n")[2]}, READY, READY, ExitCode.OK),
        ("peermem", {"users": DAEMON}, REFUSED, WOULD, ExitCode.STOPPED),
        ("peermem", {"users": DAEMON + JOB}, REFUSED, REFUSED, ExitCode.STOPPED),
        ("rdma", {"ways": ""}, REFUSED, WOULD, ExitCode.UNKNOWN),
        ("rdma", {"ways": "", "users": DAEMON}, REFUSED, WOULD, ExitCode.STOPPED),
        ("rdma", {"guests": "0000:19:00.2\n"}, REFUSED, REFUSED, ExitCode.STOPPED),
    ],
)
def test_what_would_come_of_it_with_and_without_a_reboot(
    what: str, texts: dict[str, str], live: ReloadResult, reboot: ReloadResult, code: ExitCode
) -> None:
    found, held = judged(what, **texts), holding(**texts)
    told = [first_result(found, held, frozenset(), reboot=each) for each in (False, True)]
    assert told == [live, reboot]
    if live is REFUSED:
        assert Reloading(live, found, held).exit_code is code


def test_a_report_names_who_holds_what_and_what_to_say_to_go_over_it() -> None:
    texts = {
        "users": "".join(user(pid, f"py{pid}", UVERBS) for pid in range(1, 10))
        + user(99, "viewer", "/dev/nvidia0"),
        "modules": modules(nvidia_peermem=(-1, "[permanent],")),
    }
    found = judged("peermem", **texts)
    one = Outcome("gpu01", Reloading(REFUSED, found, holding(**texts), ("load x: failed: y", "z")))
    short, whole = (
        "\n".join(reload_lines([one], Painter(coloured=False), verbose=each))
        for each in (False, True)
    )
    assert short.count("  open  py") == 8
    assert "  open  1 more processes: --verbose" in short
    assert whole.count("  open  py") == 9
    assert "more processes" not in whole
    assert "viewer" not in whole, "it has none of the modules that go"
    assert "  nvidia_peermem  used by no module\n" in short, "fewer references than none"
    assert "  load x: failed: y\n" in short
    assert ("\n  z\n" in whole, "\n  z\n" in short) == (True, False)
    assert "        or:   --over job:py1\n" in short
    stop = short[short.index("nvidia_peermem cannot be unloaded at all") :].split("\n")
    assert stop[1] == "        next: reboot it"
    assert "--over" not in stop[2], "nobody goes over what the kernel refuses"


def test_without_a_hint_or_a_module_to_take_out_there_is_no_line_for_it() -> None:
    texts = {"ways": "session 192.0.2.1 eno1\nroute default ens1np0\n"}
    found = judged("rdma", **texts)
    lines = reload_lines(
        [Outcome("gpu01", Reloading(REFUSED, found, holding(**texts)))], Painter(coloured=False)
    )
    at = lines.index("  stop  the default route leads over ens1np0, which mlx5_core drives")
    assert lines[at + 1] == "        or:   --over route:ens1np0"
    gone = modules().partition("\n")[2]
    ready = Reloading(READY, judged("peermem", modules=gone), holding(modules=gone))
    assert reload_lines([Outcome("gpu01", ready)], Painter(coloured=False))[1:3] == [
        "  out   -", "  in    nvidia_peermem",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("results", "demo", "asked"),
    [
        ([READY, READY, REFUSED], False, "reload modules on 2 nodes?"),
        ([WOULD], False, "reboot 1 node?"),
        ([READY, WOULD], False, "reload modules on 1 node, and reboot 1 node?"),
        ([REFUSED, NOTHING], False, None),
        ([READY, WOULD], True, None),
    ],
)
def test_it_is_asked_for_what_would_be_done_and_for_nothing_else(
    results: list[ReloadResult], demo: bool, asked: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    monkeypatch.setattr(cli, "consent", lambda text, _: heard.append(text))
    found = [Reloading(each, judged("peermem"), holding()) for each in results]
    cli._consent(found, Said({}), demo=demo)
    assert heard == ([asked] if asked else [])


def test_our_own_session_is_told_apart() -> None:
    found: Holding = holding(ways="session 192.0.2.1 ens1np0\n")
    judged_by = reload_of(found, ROOTS["rdma"], frozenset({"ssh:ens1np0"}), ssh=True)
    assert judged_by.ours == ("ens1np0",)
    assert not judged_by.obstacles
