"""Checks on kernels: version, arguments, DKMS, Secure Boot, the next kernel."""
