"""What Vagrant says of its machines, as versions 2.3 and 2.4 print it, and what becomes of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from toolkit.errors import TransportError, Unparsable, UsageError
from toolkit.hosts.host import Host
from toolkit.ssh import vagrant
from toolkit.ssh.ssh_config import SshConfig
from toolkit.ssh.ssh_config_file import ConfigLine, parse_setting
from toolkit.ssh.vagrant import complaint, machine_host, parse_said, ssh_configs, states

# Vagrant 2.3.4 with vagrant-libvirt 0.11.2, a machine that runs between two that do not.
STATUS = """\
1795334088,node1,metadata,provider,libvirt
1795334088,node2,metadata,provider,libvirt
1795334089,node1,provider-name,libvirt
1795334089,node1,state,not_created
1795334089,node1,state-human-short,not created
1795334089,node1,state-human-long,The Libvirt domain is not created. Run `vagrant up` to create it.
1795334089,node2,provider-name,libvirt
1795334089,node2,state,running
1795334089,node2,state-human-short,running
1795334089,node2,state-human-long,The Libvirt domain is running. To stop it%!(VAGRANT_COMMA) run ...
1795334089,node3,state,shutoff
1795334089,,ui,info,Current machine states:\\n\\nnode1  not created (libvirt)\\n
"""
NO_VAGRANTFILE = """\
1795334091,,error-exit,Vagrant::Errors::NoEnvironmentError,A Vagrant environment or target machine \
is required to run this\\ncommand. Run `vagrant init` to create a new Vagrant environment. \
Or%!(VAGRANT_COMMA)\\nget an ID of a target machine
"""
V23 = """\
Host node1
  HostName 192.168.121.15
  User vagrant
  Port 22
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  PasswordAuthentication no

  IdentityFile /home/op/lab/.vagrant/machines/node1/libvirt/private_key
  IdentitiesOnly yes
  LogLevel FATAL

"""
# Vagrant 2.4 tries two insecure keys, and lets old algorithms in; a folder with a space.
V24 = """\
Host node1
  HostName 127.0.0.1
  User vagrant
  Port 2222
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  PasswordAuthentication no
  IdentityFile "/home/op/my lab/insecure_private_keys/vagrant.key.ed25519"
  IdentityFile /home/op/insecure_private_keys/vagrant.key.rsa
  IdentitiesOnly yes
  PreferredAuthentications gssapi-keyex,gssapi-with-mic,publickey,keyboard-interactive
  LogLevel FATAL
  ForwardAgent yes
  PubkeyAcceptedKeyTypes +ssh-rsa
  HostKeyAlgorithms +ssh-rsa
"""
PROXIED = V23.replace("  LogLevel", "  ProxyCommand ssh hyper.example.org -W %h:%p\n  LogLevel")
DIRECT = (("proxycommand", "none"), ("proxyjump", "none"))


def host(text: str, new_keys: str = "/run/keys") -> Host:
    return machine_host("node1", text, new_keys=new_keys)


def test_states_are_told_by_name_in_the_file_s_order() -> None:
    found = states(parse_said(STATUS))
    assert list(found.items()) == [
        ("node1", "not_created"),
        ("node2", "running"),
        ("node3", "shutoff"),
    ]


def test_what_plug_ins_print_is_passed_over() -> None:
    noise = "[fog][WARNING] Unrecognized arguments\n==> node2: hello, world\n1,2\n\n"
    assert parse_said(noise + STATUS.replace("\n", "\r\n")) == parse_said(STATUS)
    assert parse_said(noise) == ()


def test_commas_and_ends_of_lines_are_put_back() -> None:
    text = "1795334089,node1,ssh-config,Host node1\\n  HostName a%!(VAGRANT_COMMA)b\\n\n"
    assert ssh_configs(parse_said(text + STATUS)) == {"node1": "Host node1\n  HostName a,b\n"}


def test_an_error_is_told_by_its_class_and_its_first_sentence() -> None:
    assert complaint(parse_said(NO_VAGRANTFILE)) == (
        "NoEnvironmentError",
        "A Vagrant environment or target machine is required to run this command.",
    )
    assert complaint(parse_said(STATUS)) == ("", "")
    assert complaint(parse_said("1,,error-exit,Vagrant::Errors::Odd\n")) == ("", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            V23,
            Host(
                "vagrant://node1",
                "192.168.121.15",
                "vagrant",
                22,
                options=(
                    ("identityfile", "/home/op/lab/.vagrant/machines/node1/libvirt/private_key"),
                    ("identitiesonly", "yes"),
                    *DIRECT,
                ),
                new_keys="/run/keys",
            ),
            id="2.3",
        ),
        pytest.param(
            V24,
            Host(
                "vagrant://node1",
                "127.0.0.1",
                "vagrant",
                2222,
                options=(
                    (
                        "identityfile",
                        '"/home/op/my lab/insecure_private_keys/vagrant.key.ed25519"',
                    ),
                    ("identityfile", "/home/op/insecure_private_keys/vagrant.key.rsa"),
                    ("identitiesonly", "yes"),
                    ("pubkeyacceptedkeytypes", "+ssh-rsa"),
                    ("hostkeyalgorithms", "+ssh-rsa"),
                    *DIRECT,
                ),
                new_keys="/run/keys",
            ),
            id="2.4-two-keys-and-a-space",
        ),
    ],
)
def test_a_machine_is_a_host(text: str, expected: Host) -> None:
    assert host(text) == expected


def test_every_key_is_tried_by_its_unquoted_name() -> None:
    found = SshConfig(()).target(host(V24))
    assert found.key_files == (
        "/home/op/my lab/insecure_private_keys/vagrant.key.ed25519",
        "/home/op/insecure_private_keys/vagrant.key.rsa",
    )
    assert found.identities_only


def test_a_proxy_of_vagrant_s_is_taken_and_one_of_the_operator_s_is_not() -> None:
    lines = ("ProxyJump bastion", "ProxyCommand nc bastion 22")
    theirs = SshConfig(tuple(ConfigLine(*parse_setting(line), None) for line in lines))
    direct, proxied = theirs.target(host(V23)), theirs.target(host(PROXIED))
    assert (direct.jumps, direct.door.proxy) == ((), "")
    assert proxied.jumps == ()
    assert proxied.door.proxy == "ssh hyper.example.org -W 192.168.121.15:22"


@pytest.mark.parametrize(("text", "way"), [(V23, ""), (PROXIED, "ssh hyper.example.org")])
def test_the_openssh_client_reads_these_options_in_the_same_way(
    text: str, way: str, tmp_path: Path
) -> None:
    """``ssh -G`` says what it would do; the operator's own file has other plans."""
    config = tmp_path / "config"
    config.write_text("Host *\n  ProxyJump bastion\n  User somebody\n")
    words = [word for key, value in host(text).options for word in ("-o", f"{key}={value}")]
    done = subprocess.run(
        ["ssh", "-F", str(config), *words, "-G", "192.168.121.15"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert found.get("proxyjump", "none") == "none"
    assert found.get("proxycommand", "none").startswith(way or "none")
    assert found["identityfile"].endswith("private_key")


def test_keys_are_taken_on_trust_only_where_vagrant_itself_does() -> None:
    strict = V23.replace("  UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n", "")
    assert host(V23).new_keys == "/run/keys"
    assert host(strict).new_keys == ""


def test_a_file_that_it_includes_is_not_passed_over() -> None:
    text = V23.replace("  HostName", "  Include /home/op/more\n  HostName")
    with pytest.raises(UsageError, match=r"config\.ssh\.config names /home/op/more") as refused:
        host(text)
    assert "--ssh-config FILE" in refused.value.hint


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("Host node1\n  HostName\n  Port 22\n", id="no-address"),
        pytest.param(V23.replace("Port 22", "Port ssh"), id="no-number"),
    ],
)
def test_an_unknown_shape_is_refused_not_guessed(text: str) -> None:
    with pytest.raises(Unparsable, match="vagrant ssh-config"):
        host(text)


def test_a_vagrant_that_does_not_end_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "vagrant"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(vagrant, "_LIMIT_S", 0.2)
    with pytest.raises(TransportError, match=r"vagrant status has not ended after 0\.2 s"):
        vagrant._ask("status")
