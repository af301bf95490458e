"""One text with the answers of two machines is two nodes; one machine's stays one."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.errors import UsageError
from toolkit.facts.text.machines import machines
from toolkit.facts.text.pasted_logs import Prompt, prompt_of
from toolkit.verbs.pasted_logs import import_named
from toolkit.verbs.saved import read_saved

WITH, WITHOUT = "nvidia_peermem 16384 0\nnvidia 56717312 1 nvidia_peermem\n", "nvidia 56717312 0\n"
HEAD = "Module                  Size  Used by\n"
RULE = "-" * 16
LOGGED = "Nov 11 08:00:01"
MATRIX = "\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \t{}\t0-31\nNIC0\t{}\t X \t\n\nLegend:\n\n  X\n"
NEAR, FAR = MATRIX.format("PIX", "PIX"), MATRIX.format("SYS", "SYS")


def before(name: str, text: str) -> str:
    return "".join(f"{name}{line}\n" for line in text.split("\n")[:-1])


FORMS = {
    "pdsh": before("gpu01: ", WITH) + before("gpu02: ", WITHOUT),
    "pdsh-mixed": f"gpu02: {WITHOUT}" + before("gpu01: ", WITH) + "pdsh@head: gpu03: timed out\n",
    "behind-its-command": "[root@head ~]# pdsh -w gpu[01-02] 'lsmod | grep nvidia' | sort\n"
    + before("gpu01: ", WITH)
    + before("gpu02: ", WITHOUT)
    + "[root@head ~]#\n",
    "kubectl-prefix": before("[pod/gpu01/ctr] ", WITH) + before("[pod/gpu02/ctr] ", WITHOUT),
    "clush-b": f"{RULE}\ngpu01\n{RULE}\n{WITH}{RULE}\ngpu02\n{RULE}\n{WITHOUT}",
    "ansible": f"gpu01 | CHANGED | rc=0 >>\n{WITH}gpu02 | SUCCESS | rc=0 >>\n{WITHOUT}",
    "pssh": f"[1] 10:00:00 [SUCCESS] gpu01\n{WITH}[2] 10:00:01 [SUCCESS] gpu02\n{WITHOUT}",
    "tail": f"==> gpu01.txt <==\n{WITH}\n==> gpu02.txt <==\n{WITHOUT}",
    "tail-of-folders": f"==> gpu01/a.log <==\n{WITH}\n==> gpu02/a.log <==\n{WITHOUT}",
    "ruled": f"=== gpu01 ===\n{WITH}\n=== gpu02 ===\n{WITHOUT}",
    "markdown": f"## gpu01\n```\n{WITH}```\n**gpu02**\n```\n{WITHOUT}```\n",
    "kubectl-exec": f"$ kubectl exec -n gpu -it gpu01 -c ctr -- lsmod\n{WITH}"
    f"$ kubectl exec gpu02 -n gpu -- lsmod\n{WITHOUT}",
    "oc-debug": f"$ oc debug node/gpu01 -- chroot /host lsmod\n{WITH}"
    f"$ oc -n x debug node/gpu02 -- lsmod\n{WITHOUT}",
    "salt": f"gpu01:\n{before('    ', WITH)}gpu02:\n{before('    ', WITHOUT)}",
}


@pytest.mark.parametrize("form", FORMS)
def test_each_machine_has_its_own_answer(form: str, tmp_path: Path) -> None:
    file = tmp_path / "ticket.txt"
    file.write_text(FORMS[form])
    read = {name: evidence.text("lsmod").strip() for name, evidence in read_saved(file)}
    assert {name: "peermem" in text for name, text in read.items()} == {
        "gpu01": True,
        "gpu02": False,
    }


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(
            f"On the first node:\n{NEAR}\n**Bad node**\n{FAR}",
            ["On the first node", "Bad node"],
            id="words",
        ),
        pytest.param(f"{NEAR}\nand the other\n\n{FAR}", ["", "answer 2"], id="no-heading"),
        pytest.param(f"{HEAD}{WITH}{HEAD}{WITHOUT}", ["", "answer 2"], id="no-heading-lsmod"),
        pytest.param(
            f"----NODE 0 (host)-----\n{NEAR}\n----NODE 1 (client)-----\n{FAR}",
            ["NODE 0", "NODE 1"],
            id="in-brackets-what-it-is",
        ),
        pytest.param(
            f"{LOGGED} localhost kernel: a\n{LOGGED} gpu01 kernel: b\n{LOGGED} gpu02 kernel: c\n"
            f"{LOGGED} gpu01.lan kernel: d\n",
            ["gpu01", "gpu02"],
            id="one-journal-of-two",
        ),
        pytest.param(
            "CA 'mlx5_0'\n\tCA type: MT4129\nCA 'mlx5_1'\n\tCA type: MT4129\nand here\n"
            "CA 'mlx5_0'\n\tCA type: MT4123\n",
            ["", "answer 2"],
            id="a-device-again",
        ),
        pytest.param(f"before:\n{WITH}\nafter:\n{WITHOUT}", ["", "answer 2"], id="a-module-again"),
        pytest.param(
            f"{RULE}\ngpu[01-03,07] (4)\n{RULE}\n{WITH}", ["gpu[01-03,07]"], id="alike-are-one"
        ),
    ],
)
def test_a_machine_is_called_what_the_text_calls_it(text: str, names: list[str]) -> None:
    assert [name for name, _ in machines(text, "x")] == names


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("modprobe: FATAL: Module a not found\ninsmod: ERROR: b\n", id="programs"),
        pytest.param(
            f"=== lsmod ===\n{WITH}\n=== dkms status ===\nnvidia/1: added\n", id="commands"
        ),
        pytest.param(f"==> lsmod.txt <==\n{WITH}\n==> topo.txt <==\n{NEAR}", id="files-of-one"),
        pytest.param("0: mlx5_0: node_type ca fw 1\n1: mlx5_1: node_type ca fw 1\n", id="rdma-dev"),
        pytest.param(
            "0: gpu01:1:1 [0] NCCL INFO a\n8: gpu02:2:2 [0] NCCL INFO b\n", id="tasks-of-one-job"
        ),
        pytest.param("$ sudo modinfo a\nfilename: /a.ko\nversion: 1\n", id="names-of-fields"),
        pytest.param(
            f"{LOGGED} localhost kernel: a\n{LOGGED} gpu01 kernel: b\n", id="a-host-that-boots"
        ),
        pytest.param(
            "== mlx5_0 ==\nnvidia/1: added\n== mlx5_1 ==\ngdrdrv/1: added\n", id="devices"
        ),
        pytest.param(f"$ lsmod\n{HEAD}{WITH}$ lsmod\n{HEAD}{WITHOUT}", id="asked-twice"),
    ],
)
def test_what_is_of_one_machine_is_not_parted(text: str) -> None:
    parted = machines(text, "x")
    keys = [frame.key for _, frames in parted for frame in frames]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", ["localhost", "(none)", "ubuntu", "debian", "fedora", "linux"])
def test_what_any_machine_is_called_while_it_boots_is_no_machine(name: str) -> None:
    assert len(machines(f"{LOGGED} {name} kernel: a\n{LOGGED} gpu01 kernel: b\n", "x")) < 2


def test_what_a_tool_ran_on_them_says_what_it_printed() -> None:
    text = "[root@head ~]# pdsh -w gpu[01-02] uname -r\ngpu01: 6.8.0-1\ngpu02: 6.8.0-2\n"
    told = {name: [(each.key, each.text) for each in found] for name, found in machines(text, "x")}
    assert told == {"gpu01": [("uname", "6.8.0-1\n")], "gpu02": [("uname", "6.8.0-2\n")]}


def test_a_file_that_is_said_to_be_of_one_node_is_refused_where_it_is_of_two(
    tmp_path: Path,
) -> None:
    (tmp_path / "x").write_text(FORMS["clush-b"])
    with pytest.raises(UsageError, match="holds the answers of 2 machines: gpu01, gpu02"):
        import_named(f"lsmod={tmp_path}/x")


@pytest.mark.parametrize(
    ("line", "host", "command"),
    [
        pytest.param(
            "\u279c  ~ git:(main) \u2717 dkms status", "", "dkms status", id="robbyrussell"
        ),
        pytest.param("\u276f lsmod | grep nv", "", "lsmod | grep nv", id="starship"),
        pytest.param("\u279c dmesg", "", "dmesg", id="no-folder"),
        pytest.param("PS /root> nvidia-smi", "", "nvidia-smi", id="powershell"),
        pytest.param(r"C:\Users\me>nvidia-smi", "", "nvidia-smi", id="cmd"),
        pytest.param("\u2514\u2500# lsmod", "", "lsmod", id="kali"),
        pytest.param("\u250c\u2500\u2500(root\u327fgpu01)-[~]", "gpu01", "", id="kali-above"),
        pytest.param("me@gpu01:~> lsmod", "gpu01", "lsmod", id="suse"),
        pytest.param("me@gpu01 ~ % lsmod", "gpu01", "lsmod", id="zsh"),
        pytest.param("/ # lsmod", "", "lsmod", id="busybox"),
        pytest.param("/workspace# lsmod", "", "lsmod", id="container"),
    ],
)
def test_prompts(line: str, host: str, command: str) -> None:
    assert prompt_of(line) == Prompt(host, command)


@pytest.mark.parametrize(
    "line", ["> quoted", "# a comment", "\u276fx", "/etc/a: b", "50% of it", "a -> b", "GPU0 X PIX"]
)
def test_what_is_no_prompt(line: str) -> None:
    assert prompt_of(line) is None
