"""Where modules are built: this machine, a tree of it, a host over SSH; and what is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolkit.errors import TransportError, UsageError
from toolkit.features.builds.io.sandbox import SandboxJob, run_job
from toolkit.features.builds.run import places as flow
from toolkit.features.builds.run.places import BuildPlace, open_place
from toolkit.hosts.host import Host
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.verbs.access import Access, Fleet


class Wire:
    """A way to a builder, which says what it was given."""

    def __init__(self) -> None:
        self.closed = 0

    name = "builder"

    def run(self, script: str, *, limit_s: float = 0, sink: Sink = quiet) -> Result:
        sink("a line")
        return Result(0, f"{script} within {limit_s:g}", "")

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def surveyed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, Sequence[str]]]:
    told: list[tuple[object, Sequence[str]]] = []

    def survey(ground: object, kernels: Sequence[str]) -> str:
        told.append((ground, kernels))
        return "ground"

    monkeypatch.setattr(flow, "survey", survey)
    return told


@pytest.fixture
def wires(monkeypatch: pytest.MonkeyPatch) -> list[Wire]:
    """Those that were opened to the hosts that were asked for."""
    made: list[Wire] = []

    def connect(_: Host) -> Wire:
        made.append(Wire())
        return made[-1]

    @contextmanager
    def open_fleet(access: Access) -> Iterator[Fleet]:
        assert (access.exclude, access.limit, access.hosts_file) == ("", "", "")
        assert access.user == "bob"  # the rest is as it was said
        yield Fleet(tuple(map(Host, access.hosts.split(","))), connect, access)

    monkeypatch.setattr(flow, "open_fleet", open_fleet)
    return made


ACCESS = Access(hosts="gpu1", exclude="a", limit="b", hosts_file="c", user="bob")


def tree(path: Path) -> Path:
    for name in ("lib", "usr"):
        (path / name).mkdir(parents=True)
    return path


def facts(place: BuildPlace) -> tuple[str, str, str, bool]:
    return place.title, place.root, place.executor, place.here


@pytest.mark.parametrize(("executor", "by"), [("", "local"), ("dask://x:1", "dask://x:1")])
def test_this_machine_is_the_place_where_none_was_named(
    surveyed: list[tuple[object, Sequence[str]]], executor: str, by: str
) -> None:
    with open_place(Access(), executor=executor) as place:
        assert facts(place) == ("this machine", "", by, True)
        assert place.layer == ""
        assert str(place.survey(("6.1",))) == "ground"
        assert place.run_job is run_job
    assert surveyed == [("", ("6.1",))]


def test_a_tree_is_built_in_by_root_alone(
    surveyed: list[tuple[object, Sequence[str]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path / "bookworm")
    (tmp_path / "link").symlink_to(root)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with open_place(Access(), root=str(tmp_path / "link")) as place:
        assert facts(place) == (str(root), str(root), "local", True)
        place.survey(("6.1",))
    assert surveyed == [(str(root), ("6.1",))]
    with open_place(Access(), root=str(root), executor="dask://x:1") as place:
        assert place.executor == "dask://x:1"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="needs root"), open_place(Access(), root=str(root)):
        pass


@pytest.mark.parametrize("lacks", ["lib", "usr"])
def test_a_folder_that_is_no_system_is_refused(tmp_path: Path, lacks: str) -> None:
    (tree(tmp_path) / lacks).rmdir()
    with pytest.raises(UsageError, match="no tree of a system"):
        open_place(Access(), root=str(tmp_path)).__enter__()


def test_a_host_builds_by_a_connection_for_each_build(
    surveyed: list[tuple[object, Sequence[str]]], wires: list[Wire], tmp_path: Path
) -> None:
    with open_place(ACCESS, on="builder") as place:
        assert facts(place) == ("builder", "", "threads", False)
        place.survey(("6.1",))
        [wire] = wires
        assert (surveyed, wire.closed) == ([(wire, ("6.1",))], 1)
        job = SandboxJob("title", "", "script", 77.0, str(tmp_path / "log"))
        assert place.run_job(job) == "script within 77"
        assert (tmp_path / "log").read_text() == "a line\n"
        assert [each.closed for each in wires] == [1, 1]
    with pytest.raises(TransportError, match=r"^builder: the run was ended$"):
        place.run_job(job)
    assert len(wires) == 2


def test_what_is_under_way_on_a_host_is_cut_as_the_block_ends(
    surveyed: list[tuple[object, Sequence[str]]], wires: list[Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = open_place(ACCESS, on="builder", executor="threads")
    entered = place.__enter__()

    def survey(wire: Wire, _: Sequence[str]) -> None:
        place.__exit__(None, None, None)
        assert wire.closed == 1

    monkeypatch.setattr(flow, "survey", survey)
    entered.survey(())
    assert [each.closed for each in wires] == [2]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"on": "a", "root": "/b"}, "--on and --root name two places"),
        ({"executor": "threads"}, "--executor threads is for --on"),
        ({"executor": "odd"}, "odd"),
        ({"root": "/"}, "is this machine itself"),
        ({"on": "a", "executor": "local"}, "--on a and --executor local do not go together"),
        (
            {"on": "a", "executor": "dask://x:1"},
            "--on a and --executor dask://x:1 do not go together",
        ),
        ({"on": "a,b"}, "--on a,b names 2 hosts"),
    ],
)
@pytest.mark.usefixtures("wires")
def test_what_makes_no_sense_is_refused(words: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        open_place(ACCESS, **words).__enter__()
