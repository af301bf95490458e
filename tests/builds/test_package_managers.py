"""The real apt, dnf and zypper install an upgrade's packages, and take back what they brought.

The packages are our own, and hold no file. dnf and zypper are Debian's, over an rpm database of
theirs; dnf5 has no package there.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tests.builds.grounds import tree
from tests.builds.layers import layer
from tests.builds.sandbox import Done, Sandbox
from tests.scripts.engine import bundle_of, sent
from toolkit.node.deliver import rollback_script

pytestmark = pytest.mark.builds

# Name, version, what it needs, and what is run as it is installed. own-driver stands for the
# driver, own-app is somebody else's; the last ends all that was started with it, once.
OWN = (
    ("own-driver", "1.0", "", ""),
    ("own-driver", "2.0", "own-library", ""),
    ("own-driver", "3.0", "own-library", ""),
    ("own-library", "2.0", "", ""),
    ("own-app", "2.0", "own-library", ""),
    ("own-failing", "2.0", "", "echo no space; exit 1"),
    ("own-cut", "2.0", "", "[ -e /lives ] || { touch /lives; kill -9 0; }"),
)
EPOCHS = {"own-driver": 3, "own-library": 1}  # of rpm's packages, as NVIDIA's driver has one
BEFORE = ["own-driver=1.0 installed"]
AFTER = ["own-driver=2.0 installed", "own-library=2.0 installed"]
CONTROL = (
    "Package: {}\nVersion: {}\nArchitecture: all\nMaintainer: X <x@y.example>\nDescription: x\n"
)
SPEC = """Name: {}
Epoch: {}
Version: {}
Release: 1
Summary: x
License: x
BuildArch: noarch
{}
%description
x
{}
%files
"""
PLACE = "/srv/repo"
REPO = f"[own]\nname=own\nbaseurl=file://{PLACE}\ngpgcheck=0\nenabled=1\n"
INSTALL = {"apt": ("apt-get", "-y"), "dnf": ("dnf", "-y"), "zypper": ("zypper", "-n")}
ENGINE_S = 240
FRONTEND = {"DPKG_FRONTEND_LOCKED": "1"}  # dpkg takes the lock of whoever calls it for its own


def _debs(box: Sandbox) -> None:
    box.shell("rm -rf /etc/apt/sources.list* /var/lib/apt/lists/*")
    box.write("etc/apt/sources.list", "deb [trusted=yes] file:/srv/repo ./\n")
    index = ""
    for name, version, needs, script in OWN:
        text = CONTROL.format(name, version) + f"Depends: {needs}\n" * bool(needs)
        box.write("root/deb/DEBIAN/control", text)
        box.write("root/deb/DEBIAN/postinst", f"#!/bin/sh\n{script}\n", 0o755)
        file = box.path("srv/repo").joinpath(f"{name}_{version}.deb")
        file.parent.mkdir(exist_ok=True)
        box.run("dpkg-deb", "-Znone", "-b", "/root/deb", f"/srv/repo/{file.name}")
        digest = sha256(file.read_bytes()).hexdigest()
        index += f"{text}Filename: ./{file.name}\nSize: {file.stat().st_size}\nSHA256: {digest}\n\n"
    box.write("srv/repo/Packages", index)
    box.run("apt-get", "update")
    box.run("apt-get", "-y", "install", "own-driver=1.0")


def _rpms(box: Sandbox) -> None:
    """A root of Debian in which rpm's database counts, and apt is not there any more."""
    names = ("dnf", "zypper", "createrepo-c", "rpm")
    box.shell("apt-get update && apt-get -y --no-install-recommends install " + " ".join(names))
    box.shell("rm -rf /usr/bin/apt-get /var/lib/apt/lists/* /var/cache/apt/*")
    box.write("etc/rpm/macros", "%_dbpath /var/lib/rpm\n%_topdir /root/rpm\n")
    box.write(
        "root/rpm/own-shell-1.0.spec", SPEC.format("own-shell", 0, "1.0", "Provides: /bin/sh", "")
    )
    for name, version, needs, script in OWN:
        needed = f"Requires: {needs}" if needs else ""
        # What a failing %post does to a package is a warning; %pre keeps it out.
        part = "%pre" if "exit" in script else "%post"
        scripts = f"{part}\n{script}" if script else ""
        words = SPEC.format(name, EPOCHS.get(name, 0), version, needed, scripts)
        box.write(f"root/rpm/{name}-{version}.spec", words)
    box.shell("cd /root/rpm && rpmbuild -bb --quiet --define '_rpmdir /srv/repo' *.spec")
    box.run("createrepo_c", "-q", "/srv/repo")
    for path in ("etc/yum.repos.d/own.repo", "etc/zypp/repos.d/own.repo"):
        box.write(path, REPO)
    box.run("zypper", "-n", "install", "own-shell", "own-driver=3:1.0")


@pytest.fixture(scope="module")
def roots() -> Iterator[dict[str, Sandbox]]:
    """A system of each package manager, on which the old driver is installed."""
    below = (tree("bookworm"),)
    told = sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    of_rpm = layer(f"rpm-managers-{told}", below, _rpms)
    with (
        Sandbox(layer(f"apt-{told}", below, _debs)) as apt,
        Sandbox(of_rpm) as dnf,
        Sandbox(of_rpm) as zypper,
    ):
        zypper.path("usr/bin/dnf").unlink()
        yield {"apt": apt, "dnf": dnf, "zypper": zypper}


@pytest.fixture(params=sorted(INSTALL))
def manager(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def box(roots: dict[str, Sandbox], manager: str) -> Iterator[Sandbox]:
    with roots[manager].branch() as made:
        yield made


@pytest.fixture
def apt(roots: dict[str, Sandbox]) -> Iterator[Sandbox]:
    with roots["apt"].branch() as made:
        yield made


def install(box: Sandbox, *names: str) -> Done:
    """By the engine, as a bundle has it do so: each in its version 2.0."""
    release = "" if box.path("usr/bin/apt-get").exists() else "-1"
    # As offered.sh has it of each: dnf leaves the epoch out.
    told = EPOCHS if release and not box.path("usr/bin/dnf").exists() else {}
    pins = " ".join(f"{n}={f'{told[n]}:' if n in told else ''}2.0{release}" for n in names)
    steps = (
        "undo first 'INSTALL_PACKAGES uninstall'",
        f"trigger 'INSTALL_PACKAGES install {pins}'",
    )
    return box.run("sh", "-s", text=sent(bundle_of({}, *steps, expect=())), check=False)


def take_back(box: Sandbox) -> Done:
    return box.run("sh", "-s", text=rollback_script("all", 5), check=False)


def has(box: Sandbox) -> list[str]:
    """Which of our packages are there, and how far they are installed."""
    if box.path("usr/bin/apt-get").exists():
        words = ("dpkg-query", "-W", "-f", "${Package}=${Version} ${db:Status-Status}\n")
    else:
        words = ("rpm", "-qa", "--qf", "%{NAME}=%{VERSION} installed\n")
    lines = sorted(box.run(*words).out.splitlines())
    return [each for each in lines if each.split("=")[0] in {name for name, *_ in OWN}]


def test_what_came_goes_but_not_what_others_rest_on(box: Sandbox, manager: str) -> None:
    done = install(box, "own-driver")
    assert (done.status, has(box)) == (0, AFTER), done.out
    box.run(*INSTALL[manager], "install", "own-app")
    back = take_back(box)
    assert "others need what would go: own-app" in back.out
    assert (back.status, has(box)) == (5, ["own-app=2.0 installed", *AFTER]), back.out
    box.run(*(("dpkg", "-r") if manager == "apt" else ("rpm", "-e")), "own-app")
    back = take_back(box)
    assert (back.status, has(box)) == (0, BEFORE), back.out


def test_what_others_changed_since_is_left(apt: Sandbox) -> None:
    install(apt, "own-driver")
    apt.run(*INSTALL["apt"], "install", "own-driver=3.0")
    back = take_back(apt)
    assert "changed since by other hands, so left as it is: own-driver=3.0" in back.out
    assert (back.status, has(apt)[0]) == (5, "own-driver=3.0 installed"), back.out


def test_a_package_whose_script_fails_is_taken_back_with_the_rest(box: Sandbox) -> None:
    done = install(box, "own-failing", "own-driver")
    assert done.status == 5, done.out
    assert "no space" in done.out
    back = take_back(box)
    assert (back.status, has(box)) == (0, BEFORE), back.out


def test_an_install_that_is_cut_off_is_taken_back_by_what_is_there(
    box: Sandbox, manager: str
) -> None:
    """Of apt's even what can never be set up."""
    done = install(box, "own-cut", "own-driver", *["own-failing"] * (manager == "apt"))
    assert done.status == 128 + 9, done.out
    assert has(box) != BEFORE
    if manager == "apt":
        again = install(box, "own-app")
        assert (again.status, "dpkg was interrupted" in again.out) == (5, True), again.out
    back = take_back(box)
    assert (back.status, has(box)) == (0, BEFORE), back.out


def test_a_held_package_is_told_and_left(apt: Sandbox) -> None:
    apt.run("apt-mark", "hold", "own-driver")
    done = install(apt, "own-driver")
    assert (done.status, "Held packages were changed" in done.out) == (5, True), done.out
    assert (take_back(apt).status, has(apt)) == (0, BEFORE)


def test_another_apt_is_waited_for_and_what_it_brings_is_not_ours(apt: Sandbox) -> None:
    """Its lock is held by us, and what it brings is put there before it lets go."""
    ended: list[Done] = []
    with apt.path("var/lib/dpkg/lock-frontend").open("a") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        ours = threading.Thread(target=lambda: ended.append(install(apt, "own-driver")))
        ours.start()
        end = time.monotonic() + ENGINE_S
        while not any("Waiting for cache lock" in each.read_text() for each in _logs(apt)):
            assert time.monotonic() < end, "it did not wait"
            assert ours.is_alive(), ended
            time.sleep(0.1)
        apt.write("lives", "")
        apt.run("dpkg", "-i", "/srv/repo/own-cut_2.0.deb", env=FRONTEND)
        fcntl.lockf(lock, fcntl.LOCK_UN)
        ours.join(ENGINE_S)
    assert ended[0].status == 0, ended[0].out
    take_back(apt)
    assert has(apt) == ["own-cut=2.0 installed", *BEFORE]


def _logs(box: Sandbox) -> list[Path]:
    return [*box.path("var/lib/gdr-toolkit/runs").glob("*/log")]
