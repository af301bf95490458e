"""Checks on firmware: BIOS settings, by the system and by the BMC."""
