"""Kernel modules: on disk, loaded, built by DKMS, and what they were built against."""
