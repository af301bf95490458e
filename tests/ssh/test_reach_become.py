"""Becoming root: the remote command under real shells, and with sudos of every mood."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from toolkit.errors import BecomeError
from toolkit.ssh.become import Become, StderrParts, read_marks, refusal
from toolkit.ssh.limits import GATHERED

SCRIPT = 'f() { echo "as $(id -u)"; echo aside >&2; return 255; }\nf\n'
AWKWARD = "p'a\"s$(s)\\n w!rd`#"

# A sudo that acts as the real one does, and notes each password that it is given.
SUDO = """\
#!/bin/sh
mode=$(cat "$MOOD") ask=
while :; do case $1 in
    -n) ask=never; shift ;;
    -S) ask=stdin; shift ;;
    -p) shift 2 ;;
    -v) set -- true; break ;;
    *) break ;;
esac; done
case $mode in
    free) exec "$@" ;;
    sudoers) echo "op is not in the sudoers file.  This incident will be reported." >&2; exit 1 ;;
esac
[ $ask = stdin ] || { echo "sudo: a password is required" >&2; exit 1; }
for try in 1 2 3; do
    IFS= read -r word || break
    printf '%s\\n' "$word" >>"$MOOD.heard"
    [ "$word" != "$(cat "$MOOD.password")" ] || exec "$@"
    echo "Sorry, try again." >&2
done
echo "sudo: $try incorrect password attempts" >&2
exit 1
"""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH on which nobody is root and sudo is ours; returns the file with its mood."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "id").write_text("#!/bin/sh\necho 1000\n")
    (folder / "sudo").write_text(SUDO)
    for file in folder.iterdir():
        file.chmod(0o755)
    mood = tmp_path / "mood"
    mood.write_text("password")
    (tmp_path / "mood.password").write_text(AWKWARD)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("MOOD", str(mood))
    return mood


def run(become: Become, script: str = SCRIPT, shell: str = "sh") -> tuple[str, StderrParts]:
    words = [*shell.split(), "-c", become.command]
    done = subprocess.run(words, input=become.feed(script), capture_output=True, check=False)
    return done.stdout.decode(), read_marks(done.stderr.decode())


SHELLS = ["sh", "dash", "bash", "busybox sh"]


@pytest.mark.shell
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("mood", ["free", "password"])
def test_a_password_is_used_where_asked_for_and_never_run(
    node: Path, shell: str, mood: str
) -> None:
    node.write_text(mood)
    out, told = run(Become(password=AWKWARD), shell=shell)
    assert out == "as 1000\n"
    assert (told.begun, told.status, told.stderr) == (True, 255, "aside\n")


@pytest.mark.shell
@pytest.mark.parametrize("shell", SHELLS)
def test_without_a_password_sudo_is_asked_once(node: Path, shell: str) -> None:
    node.write_text("free")
    out, told = run(Become(), shell=shell)
    assert (out, told.status, told.stderr) == ("as 1000\n", 255, "aside\n")


def test_without_become_sudo_is_not_asked(node: Path) -> None:
    out, told = run(Become(wanted=False, password=AWKWARD))
    assert (out, told.status) == ("as 1000\n", 255)


def test_root_needs_no_sudo(node: Path) -> None:
    (node.parent / "bin/id").write_text("#!/bin/sh\necho 0\n")
    node.write_text("sudoers")
    assert run(Become())[0] == "as 0\n"
    assert run(Become(password=AWKWARD))[0] == "as 0\n"


def test_a_wrong_password_is_tried_once_and_the_script_is_no_password(node: Path) -> None:
    out, told = run(Become(password="wrong"))  # noqa: S106 it is meant to be wrong
    assert out == ""
    assert "does not take the password" in str(refusal("gpu1", told))
    assert (node.parent / "mood.heard").read_text() == "wrong\n"


@pytest.mark.parametrize(
    ("mood", "password", "sentence", "hint"),
    [
        pytest.param("password", None, "sudo wants a password", "--ask-become-pass", id="none"),
        pytest.param("sudoers", None, "not in the sudoers file", "visudo", id="not-a-sudoer"),
        pytest.param("sudoers", "x", "not in the sudoers file", "visudo", id="with-password"),
    ],
)
def test_each_refusal_has_its_own_sentence(
    node: Path, mood: str, password: str | None, sentence: str, hint: str
) -> None:
    node.write_text(mood)
    out, told = run(Become(password=password))
    why = refusal("gpu1", told)
    assert out == ""
    assert isinstance(why, BecomeError)
    assert sentence in str(why)
    assert hint in why.hint


def test_a_node_without_sudo_is_said_to_have_none(
    node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "id").symlink_to(node.parent / "bin/id")
    (bare / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    monkeypatch.setenv("PATH", str(bare))
    _, told = run(Become())
    why = refusal("gpu1", told)
    assert "there is no sudo" in str(why)
    assert why is not None
    assert "root@gpu1" in why.hint


@pytest.mark.root
@pytest.mark.sshd
@pytest.mark.sudo
@pytest.mark.parametrize(
    ("password", "sentences"),
    [
        pytest.param(None, ["gpu1: sudo wants a password"], id="none"),
        # Which of the two comes first is for the machine's PAM to say.
        pytest.param(
            "x",
            ["gpu1: sudo does not take the password", "gpu1: the user may not run sudo"],
            id="wrong",
        ),
    ],
)
def test_the_real_sudo_refuses_in_words_that_we_know(
    password: str | None, sentences: list[str]
) -> None:
    nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups sh"
    _, told = run(Become(password=password), shell=nobody)
    assert str(refusal("gpu1", told)) in sentences


ASKED = Become(password="x")  # noqa: S106 of nobody


@pytest.mark.parametrize("become", [Become(), Become(wanted=False), ASKED, Become(wrapped=True)])
def test_the_command_reads_the_same_in_every_login_shell(become: Become) -> None:
    """csh expands "!" and ends a quote at a newline, fish knows \\' and \\\\ within quotes."""
    _, outer, between, inner, end = become.command.split("'")
    assert (between, end) == (" ", "")
    for word in (outer, inner):
        assert not set("!\n") & set(word)
        assert "\\\\" not in word


def test_a_password_does_not_show() -> None:
    become = Become(password=AWKWARD)
    assert AWKWARD not in become.command
    assert AWKWARD not in repr(become)


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        pytest.param("", StderrParts(False, None, "", ""), id="nothing"),
        pytest.param("motd\n", StderrParts(False, None, "motd\n", ""), id="noise-alone"),
        pytest.param("gdr-begin\nx\n", StderrParts(True, None, "", "x\n"), id="lost-midway"),
        pytest.param("gdr-begin\n\ngdr-end 0\n", StderrParts(True, 0, "", ""), id="silent"),
        pytest.param(
            "a\ngdr-begin\nx\n\ngdr-end 3\n", StderrParts(True, 3, "a\n", "x\n"), id="whole"
        ),
        pytest.param("gdr-begin\nx\ngdr-end 3\n", StderrParts(True, 3, "", "x"), id="unended-line"),
        pytest.param(
            f"gdr-begin\nx {' ' * GATHERED}\ngdr-end 3\n",
            StderrParts(True, 3, "", "x "),
            id="what-is-sent-before-the-mark",
        ),
        pytest.param(
            "gdr-begin\n\ngdr-end 3", StderrParts(True, None, "", "\ngdr-end 3"), id="cut-mark"
        ),
        pytest.param("no\n\ngdr-end 1\n", StderrParts(False, 1, "no\n", ""), id="never-began"),
        pytest.param(
            "gdr-begin\n\ngdr-end 9\nmore\n\ngdr-end 3\n",
            StderrParts(True, 3, "", "\ngdr-end 9\nmore\n"),
            id="a-script-that-prints-marks",
        ),
    ],
)
def test_marks_are_read(stderr: str, told: StderrParts) -> None:
    assert read_marks(stderr) == told


def test_a_script_that_was_cut_on_its_way_runs_nothing(tmp_path: Path) -> None:
    fed = Become().feed("false_() { false; }\ntouch_it() { :; }\ntouch x\n")
    for cut in range(len(fed) - 1):
        done = subprocess.run(
            ["sh", "-xs"], input=fed[:cut], capture_output=True, cwd=tmp_path, check=False
        )
        assert (done.stdout, done.stderr.count(b"+ ")) == (b"", 0), fed[:cut]
    assert list(tmp_path.iterdir()) == []
