"""--root: a folder is worked on aside, and the result takes its place in one step."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.images.little import HOST_KEY, little_root, loops, mounts, names
from toolkit.errors import LockedError, StaleError, UsageError
from toolkit.features.image.io.index import TreeChange, TreeDifference, differences, look
from toolkit.features.image.io.media import ImageSource, Medium, stage

pytestmark = pytest.mark.builds


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return little_root(tmp_path / "golden, image")


def source(path: Path) -> ImageSource:
    return ImageSource(Medium.ROOT, path)


def test_what_is_committed_takes_the_place_of_the_old_image(image: Path) -> None:
    before, old = look(image), image.stat().st_ino
    with stage(source(image)) as staged:
        assert staged.run("echo new >/etc/new && rm /etc/pipe && echo x >>/etc/one\n").exit == 0
        staged.write("/usr/lib/gdr-toolkit/passport.json", b"{}\n")
        assert not (image / "etc/new").exists()
        found = staged.commit()
    assert image.stat().st_ino != old
    assert (image / "etc/new").read_text() == "new\n"
    assert found == differences(before, look(image))
    assert found == (
        TreeDifference("/etc/new", TreeChange.ADDED),
        TreeDifference("/etc/one", TreeChange.CONTENT),
        TreeDifference("/etc/pipe", TreeChange.REMOVED),
        TreeDifference("/etc/two", TreeChange.CONTENT),
        TreeDifference("/usr/lib/gdr-toolkit", TreeChange.ADDED),
        TreeDifference("/usr/lib/gdr-toolkit/passport.json", TreeChange.ADDED),
    )
    assert names(image.parent) == [image.name]


def test_owners_links_devices_and_attributes_come_through(image: Path) -> None:
    with stage(source(image)) as staged:
        staged.write("/etc/new", b"")
        staged.commit()
    one = (image / "etc/one").stat()
    assert (one.st_uid, one.st_gid, one.st_nlink) == (12, 34, 2)
    assert one.st_ino == (image / "etc/two").stat().st_ino
    assert stat.S_ISCHR((image / "etc/device").lstat().st_mode)
    assert os.getxattr(image / "etc/os-release", "trusted.of-a-test") == b"kept"


def test_leaving_without_commit_leaves_the_old_image(image: Path) -> None:
    before, old = look(image), image.stat().st_ino

    def interrupted() -> None:
        with stage(source(image)) as staged:
            staged.run("rm -r /etc\n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert look(image) == before
    assert image.stat().st_ino == old
    assert names(image.parent) == [image.name]


def test_nothing_of_the_builder_is_seen_in_there(image: Path) -> None:
    with stage(source(image)) as staged:
        told = staged.run(
            "for each in /proc /sys /dev; do ls $each; echo --; done; hostname\n"
            "cat /proc/self/net/dev\n"
        ).stdout
    processes, settings, devices, rest = told.split("--\n")
    assert {each for each in processes.split() if not each.isdigit()} == {"self", "thread-self"}
    assert settings == ""
    assert set(devices.split()) <= {
        *("fd", "full", "null", "ptmx", "pts", "random", "shm"),
        *("stderr", "stdin", "stdout", "tty", "urandom", "zero"),
    }
    assert rest.startswith("golden\n")
    assert [row.split(":")[0].strip() for row in rest.splitlines() if ":" in row] == ["lo"]


def test_nothing_of_the_builder_stays_in_it(image: Path) -> None:
    leaks = """
        echo nameserver 192.0.2.1 >/tmp/r && rm /etc/resolv.conf && cat /tmp/r >/etc/resolv.conf
        echo 0123456789abcdef0123456789abcdef >/etc/machine-id
        echo made >/etc/ssh/ssh_host_rsa_key && echo replaced >/etc/ssh/ssh_host_ed25519_key
        mkdir -p /var/lib/dkms/x/1/build /var/lib/dkms/x/1/6.1/x86_64/log
        echo secret >/var/lib/dkms/mok.key
        echo log >>/var/log/apt/history.log && echo log >/var/log/dpkg.log
        echo list >/var/lib/apt/lists/x && echo deb >/var/cache/apt/x
        echo left >/tmp/x && echo left >/var/tmp/x && echo left >/run/x && echo >/dev/shm/x
        [ -x /usr/sbin/policy-rc.d ]
    """
    with stage(source(image)) as staged:
        assert staged.run(leaks).exit == 0
        assert [each.path for each in staged.differences()] == [
            *("/var/lib/dkms", "/var/lib/dkms/x", "/var/lib/dkms/x/1", "/var/lib/dkms/x/1/6.1"),
            "/var/lib/dkms/x/1/6.1/x86_64",
        ]
        staged.commit()
    assert (image / "etc/resolv.conf").readlink() == Path("/run/resolv.conf")
    assert (image / HOST_KEY).read_text() == "the image's own\n"
    assert stat.S_IMODE((image / HOST_KEY).stat().st_mode) == 0o600
    assert (image / "var/log/apt/history.log").read_text() == "as it was\n"


def test_a_link_of_the_image_never_leads_into_this_machine(image: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs").write_text("of this machine\n")
    (image / "trap").symlink_to(outside)
    alike = image / str(outside).lstrip("/")  # the same path, in the image
    alike.mkdir(parents=True)
    with stage(source(image)) as staged:
        staged.write("/trap/fine", b"inside")
        with pytest.raises(FileNotFoundError):
            staged.read("/trap/theirs")
        staged.commit()
    assert names(outside) == ["theirs"]
    assert (alike / "fine").read_bytes() == b"inside"


def test_scripts_cannot_touch_the_machine_that_they_do_not_belong_to(image: Path) -> None:
    with stage(source(image)) as staged:
        status = staged.run("cat /proc/self/status\n").stdout
    held = int(status.partition("CapEff:")[2].split()[0], 16)
    for forbidden in (16, 17, 22, 25, 34):  # sys_module, sys_rawio, sys_boot, sys_time, syslog
        assert not held >> forbidden & 1


def test_what_a_script_started_ends_with_the_stage(image: Path) -> None:
    with stage(source(image)) as staged:
        staged.run("sleep 4321 >/dev/null 2>&1 </dev/null &\n")
    rows = subprocess.run(("ps", "-eo", "args"), capture_output=True, text=True, check=True).stdout
    assert "sleep 4321" not in rows.splitlines()


def test_nothing_stays_mounted(image: Path) -> None:
    with stage(source(image)) as staged:
        assert mounts(image.parent) == []
        staged.commit()
    assert mounts(image.parent) == loops(image.parent) == []


def test_a_second_run_over_one_image_is_refused_by_name(image: Path) -> None:
    with stage(source(image)):
        told = rf"golden, image: another run is at work on it: process {os.getpid()} since "
        with pytest.raises(LockedError, match=told), stage(source(image)):
            pass
    with stage(source(image)):  # and then it is free again
        pass


def test_an_image_that_somebody_changed_meanwhile_is_not_replaced(image: Path) -> None:
    with stage(source(image)) as staged:
        (image / "etc/theirs").write_text("must not be lost\n")
        with pytest.raises(StaleError, match="somebody changed it while its copy was worked on"):
            staged.commit()
    assert (image / "etc/theirs").exists()


def test_what_is_no_image_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder"), stage(source(tmp_path / "none")):
        pass
    with pytest.raises(UsageError, match="is this machine itself"), stage(source(Path("/"))):
        pass
    (tmp_path / "empty").mkdir()
    missing = "there is no folder /dev in it"
    with pytest.raises(UsageError, match=missing), stage(source(tmp_path / "empty")):
        pass
    assert names(tmp_path) == ["empty"]
