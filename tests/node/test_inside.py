"""What --inside takes, how a container that is not there is told, and how pods are entered."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolkit.errors import TransportError, UsageError
from toolkit.evidence import Evidence, Frame, State
from toolkit.node.collect import Register, probe_script
from toolkit.node.inside import Inside, frames_below, parse_inside, refuse_missing
from toolkit.verbs.inside import enter, opened_inside


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("docker:train-7.a_b", "docker", "train-7.a_b"),
        ("podman:4f0c", "podman", "4f0c"),
        ("enroot:12019", "enroot", "12019"),
        ("chroot:/srv/a b", "chroot", "/srv/a b"),
        ("kubectl:train/worker-0/job", "kubectl", "train/worker-0/job"),
        ("image:./train.sqsh", "image", "./train.sqsh"),
        ("slurm:--container-image=a.sqsh -pgpu", "slurm", "--container-image=a.sqsh -pgpu"),
    ],
)
def test_what_it_takes(text: str, kind: str, name: str) -> None:
    assert parse_inside(text) == Inside(kind, name)


@pytest.mark.parametrize(
    "text",
    ["", "train", "docker:", "docker:a b", "docker:-v", "docker:a;reboot", "docker:$(id)",
     "podman:../x", "lxc:a", "kubectl:worker-0", "kubectl:Train/w", "kubectl:a/b/c/d",
     "kubectl:-n/w", "chroot:srv", "chroot:/a\nb", "image:"],
)  # fmt: skip
def test_what_no_container_is_called_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as why:
        parse_inside(text)
    assert why.value.hint.startswith("say docker:NAME, podman:NAME")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--container-image=a reboot", "'reboot' is no option, and srun would run it"),
        ("--container-image a", "'a' is no option"),
        ("--partition=gpu", "no container is named"),
        ("--container-image='a", "No closing quotation"),
    ],
)
def test_srun_is_given_no_word_that_it_would_run(options: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_inside(f"slurm:{options}")


@pytest.mark.parametrize("name", ["/srv/it's", "/srv/$(reboot)", "/srv/`id`", '/srv/"a"'])
def test_a_name_is_quoted_for_the_nodes_shell(name: str) -> None:
    """The shell itself says what it took: nothing of the name was run."""
    line = parse_inside(f"chroot:{name}").parts()[0]
    with os.popen(f'{line}\nprintf %s "$inside_name"') as said:  # noqa: S605 that is the test
        assert said.read() == name


def test_a_probe_that_looks_into_nothing_is_what_it_was() -> None:
    assert "inside_program() {" not in probe_script()
    assert "register_program() {" in probe_script(Register(), Inside("docker", "a"))


def evidence(*frames: Frame, boot: str = "b1") -> Evidence:
    own = Frame("boot-id", State.OK, "boot_id", f"{boot}\n")
    return Evidence({each.key: each for each in (own, *frames)}, complete=True)


def test_a_container_of_another_machine_is_refused() -> None:
    """A pod runs where the cluster put it, which may not be the host that was named."""
    inner = frames_below(evidence(boot="b2"), Inside("kubectl", "a/b"), "entered")
    with pytest.raises(TransportError, match="gpu1: kubectl a/b runs on another machine"):
        refuse_missing("gpu1", evidence(*inner))
    same = frames_below(evidence(), Inside("kubectl", "a/b"), "entered")
    assert refuse_missing("gpu1", evidence(*same)).frames["inside"].state is State.OK


def test_a_node_without_that_runtime_is_refused_in_one_sentence() -> None:
    with pytest.raises(TransportError, match="gpu1: there is no enroot on the node"):
        refuse_missing("gpu1", evidence(Frame("inside", State.ABSENT, "enroot")))


def test_what_there_is_is_named_and_not_without_end() -> None:
    names = "".join(f"job{number}\n" for number in range(12))
    missing = Frame("inside", State.FAILED, "docker a", "Error: No such container: a\n", 1)
    with pytest.raises(TransportError, match="gpu1: docker a: No such container: a") as why:
        refuse_missing("gpu1", evidence(missing, Frame("inside/others", State.OK, "x", names)))
    assert why.value.hint.startswith("there is: job0, job1, ")
    assert why.value.hint.endswith("job7 and 4 more")
    with pytest.raises(TransportError) as why:
        refuse_missing("gpu1", evidence(missing, Frame("inside/others", State.OK, "x", "a\nb\n")))
    assert why.value.hint == "there is: a, b"


def test_what_is_below_inside_stands_for_the_nodes_own_and_nothing_else_does() -> None:
    own = [Frame(key, State.OK, "node", "node\n") for key in ("libraries", "ucx-info", "kernel")]
    inner = Frame("libraries", State.OK, "in it", "in it\n")
    below = frames_below(
        Evidence({"libraries": inner, "kernel": inner}), Inside("docker", "a"), "x"
    )
    seen = evidence(*own, *below).within()
    assert seen.text("libraries") == "in it\n"
    assert seen.text("kernel") == "node\n"
    assert "ucx-info" not in seen.frames
    plain = evidence(*own)
    assert plain.within() is plain
    assert Evidence.parse(evidence(*own, *below).dump()).within() == seen, "saved, and read again"


def test_pods_and_steps_are_entered_by_words_and_no_shell() -> None:
    assert enter(Inside("kubectl", "ns/pod/c"), "gpu1") == (
        *("kubectl", "exec", "-i", "-n", "ns", "pod", "-c", "c", "--"),
    )
    assert enter(Inside("slurm", "--container-image='a b.sqsh' -pgpu"), "gpu1.example") == (
        *("srun", "--quiet", "-N1", "-n1", "-w", "gpu1", "--container-image=a b.sqsh", "-pgpu"),
    )


def test_an_image_that_is_none_is_said_before_any_node_is_asked(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no image")
    with pytest.raises(UsageError, match="no image that we know") as why:
        opened_inside(f"image:{tmp_path / 'a'}")
    assert "\n" not in str(why.value)
