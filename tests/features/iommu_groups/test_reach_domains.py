"""What scripts that act on a node report, as an answer or as the error that it stands for."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from hashlib import sha256

import pytest

from toolkit.errors import (
    ApplyError,
    LockedError,
    StaleError,
    ToolkitError,
    TransportError,
    UsageError,
)
from toolkit.evidence import Evidence, Frame, State
from toolkit.features.enrol import run as enrol
from toolkit.features.image import run_passport as passport
from toolkit.features.image.io import chroot
from toolkit.features.image.io.chroot import ChrootTransport
from toolkit.features.iommu_groups import io
from toolkit.node.scripts import FOLDER
from toolkit.ssh.transport import Result, Sink, quiet


@dataclass
class Answers:
    """A transport that gives one answer, and keeps what it was asked."""

    result: Result
    name: str = "gpu7"
    scripts: list[str] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    closed: int = 0

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        self.scripts.append(script)
        self.limits.append(limit_s)
        self.sinks.append(sink)
        return self.result

    def close(self) -> None:
        self.closed += 1


def said(*frames: Frame, exit_: int = 0, complete: bool = True) -> Answers:
    evidence = Evidence({each.key: each for each in frames}, complete)
    return Answers(Result(exit_, evidence.dump(), ""))


def ok(
    key: str, source: str = "x", text: str = "", state: State = State.OK, exit_: int = 0
) -> Frame:
    return Frame(key, state, source, text, exit=exit_)


def test_a_look_only_looks() -> None:
    node = said(ok("uid", text="0\n"))
    assert set(io.ask(node).frames) == {"uid"}
    assert node.scripts == [io.look_script()]
    assert node.limits == [120]
    assert node.scripts[0].startswith("#!/bin/sh\n")
    assert node.scripts[0].endswith("\ndomains\n")
    for part in io._PARTS:
        assert (FOLDER / part).read_text() in node.scripts[0]
    assert io._PARTS == (
        "frames.sh",
        "routes.sh",
        "holding.sh",
        "lock.sh",
        "agreed.sh",
        "domains.sh",
    )


def test_a_node_that_says_nothing() -> None:
    with pytest.raises(TransportError) as raised:
        io.ask(Answers(Result(127, "", "")))
    assert str(raised.value) == "gpu7: the script ended with 127 and said nothing"
    assert "ssh gpu7 " in raised.value.hint


LOOK = Evidence(
    {
        "uid": ok("uid", text="0\n"),
        "groups": ok("groups", text="a\nb \udcff\n"),
        "modules": ok("modules", text="nvidia 1\n"),
        "domains-before": ok("domains-before", text="x\n"),
        "empty": ok("empty"),
    },
    True,
)


def test_a_node_that_says_nothing_to_an_enrolment() -> None:
    with pytest.raises(TransportError, match="gpu7: the script ended with 127, said nothing"):
        enrol.ask(Answers(Result(127, "", "")), "look", None)
    node = said(ok("uid", text="0\n"))
    assert set(enrol.ask(node, "look", None).frames) == {"uid"}
    assert node.limits == [120]


def test_a_judgement_rests_on_what_was_looked_at() -> None:
    whole = b"= groups\n|a\n|b \xff\n= modules\n= empty\n"
    assert io.guard_sum(LOOK) == sha256(whole).hexdigest()


def test_the_words_of_a_change_are_quoted() -> None:
    call = io.change_script(LOOK, ["1=a b", "2"]).rstrip("\n").rpartition("\n")[2]
    words = ["set_domains", io.guard_sum(LOOK), "60", "1=a b", "2", "end"]
    assert shlex.split(call) == words
    assert " 7 " in io.change_script(LOOK, [], wait_s=7)


AFTER = ok("groups-after", text="groups\n")
DONE = [ok("1.type", "echo identity >/sys/a"), ok("kept", "/var/lib/k"), ok("2", "bind")]


def test_what_was_changed() -> None:
    node = said(*DONE, AFTER)
    found = io.change(node, "script")
    assert found.steps == ("echo identity >/sys/a: done", "bind: done")
    assert found.groups == "groups\n"
    assert (node.scripts, node.limits) == (["script"], [1800])


@pytest.mark.parametrize(
    ("node", "kind", "says"),
    [
        (
            said(ok("lock", text=" pid 7 \n")),
            LockedError,
            "gpu7: pid 7",
        ),
        (said(ok("lock")), LockedError, "gpu7: another run holds the node"),
        (
            said(ok("state", "/var/lib/gdr")),
            ApplyError,
            "gpu7: /var/lib/gdr: cannot be written, so nobody can hold the node",
        ),
        (said(ok("expect"), AFTER), StaleError, "gpu7: who depends on its devices has changed"),
        (
            said(AFTER, exit_=9, complete=False),
            TransportError,
            "gpu7: the script broke off, with status 9",
        ),
        (said(*DONE, exit_=3), TransportError, "gpu7: the script broke off, with status 3"),
        (said(*DONE, AFTER, exit_=1), ApplyError, "gpu7: a step failed"),
        (
            said(
                *DONE,
                ok("3", "one", " Device or\n resource busy\n", State.FAILED, 1),
                ok("4.x", "two", "", State.FAILED, 1),
                ok("5", "three", "", State.TIMEOUT),
                ok("kept", "/k", "", State.FAILED, 1),
                ok("x.6", "no", "", State.FAILED, 1),
                AFTER,
                exit_=1,
            ),
            ApplyError,
            "gpu7: /k: cannot be written; one: failed Device or resource busy; two: failed; "
            "three: no answer, abandoned",
        ),
    ],
)
def test_a_change_that_did_not_come_to_a_good_end(
    node: Answers, kind: type[ToolkitError], says: str
) -> None:
    with pytest.raises(kind) as raised:
        io.change(node, "script")
    assert type(raised.value) is kind
    assert str(raised.value).startswith(says)
    assert kind is not ApplyError or str(raised.value) == says


def test_what_a_passport_tells_is_read_at_once() -> None:
    node = said(ok("kernel", text="6.1\n"))
    assert passport.read_parts(node).frames["kernel"].text == "6.1\n"
    [script] = node.scripts
    assert script.startswith("#!/bin/sh\n")
    for part in ("frames.sh", "probe_elf.sh", "passport.sh"):
        assert (FOLDER / part).read_text() in script
    assert node.limits == [300]


def test_files_are_put_in_place_whole() -> None:
    node = Answers(Result(0, "placed\n", ""))
    passport.place(node, {"/etc/a b/x.json": "one\ntwo\n", "/y": "z\n"})
    [script] = node.scripts
    beside = "\"$root\"'/etc/a b/.x.json.gdr-toolkit-new'"
    assert script.startswith("set -eu\numask 022\n")
    assert f"mkdir -p \"$root\"'/etc/a b'\ncat >{beside} <<'GDR_END'\none\ntwo\nGDR_END\n" in script
    assert f"chmod 644 {beside}\nsync {beside} 2>/dev/null || sync\n" in script
    assert f"mv -f {beside} \"$root\"'/etc/a b/x.json'\n" in script
    assert script.endswith("\necho placed\n")
    assert node.limits == [60]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (Result(1, "placed\n", "first\nno space\n"), "no space"),
        (Result(0, "odd\n", ""), "odd"),
        (Result(2, "", "x" * 300), "x" * 200),
    ],
)
def test_files_that_could_not_be_placed(result: Result, told: str) -> None:
    with pytest.raises(ApplyError) as raised:
        passport.place(Answers(result), {"/a": "", "/b": ""})
    assert str(raised.value) == f"gpu7: /a, /b could not be placed: {told}"


def test_a_script_looks_into_an_image() -> None:
    ground = Answers(Result(4, "out", "err"))
    image = ChrootTransport("image", "/a b", "6.1", ground=ground)
    lines: list[str] = []
    assert image.run("probe\n", limit_s=7, sink=lines.append) == Result(4, "out", "err")
    image.close()
    assert (image.name, ground.closed, ground.limits) == ("image", 1, [7])
    ground.sinks[0]("x")
    assert lines == ["x"]
    [script] = ground.scripts
    head, _, call = script.partition("\nenter_image '/a b' 6.1 <<'GDR_IMAGE'\n")
    assert head == "#!/bin/sh\n" + (FOLDER / "chroot.sh").read_text()
    reader = (FOLDER / "chroot_reader.sh").read_text()
    assert call == f"{reader}\nimage_commands\nprobe\n\nGDR_IMAGE\n"


def test_the_ground_is_this_machine_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def local(name: str) -> Answers:
        made.append(name)
        return Answers(Result(0, "6.1\n5.15 ", ""))

    monkeypatch.setattr(chroot, "LocalTransport", local)
    image = ChrootTransport("image", "/r")
    assert image.kernels() == ("6.1", "5.15")
    assert made == ["image"]
    ground = image._ground
    assert isinstance(ground, Answers)
    assert ground.limits == [60]
    assert "enter_image /r - <<" in ground.scripts[0]
    assert chroot._KERNELS in ground.scripts[0]


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (66, UsageError, "/r: no shell in it"),
        (69, TransportError, "image: /r: no shell in it"),
        (77, TransportError, "image: /r: no shell in it"),
    ],
)
def test_an_image_that_cannot_be_entered(status: int, kind: type[ToolkitError], says: str) -> None:
    ground = Answers(Result(status, "", "noise\n/r: no shell in it\n"))
    with pytest.raises(kind) as raised:
        ChrootTransport("image", "/r", ground=ground).run("probe\n")
    assert str(raised.value) == says


@pytest.mark.parametrize("status", [0, 1, 65, 67, 68, 70, 76, 78])
def test_any_other_status_is_the_scripts(status: int) -> None:
    ground = Answers(Result(status, "", ""))
    assert ChrootTransport("image", "/r", ground=ground).run("probe\n").exit == status
