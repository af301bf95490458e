"""Transports: Paramiko, OpenSSH, this machine; login, host keys, become, the pool of hosts."""
