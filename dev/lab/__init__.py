"""Whole machines for tests: Debian on a disk with GRUB, under QEMU's own emulation.

For developers of the toolkit and for projects that test against it; not part of the package.
"""
