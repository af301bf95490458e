"""Firmware: machine, BIOS settings, Redfish documents, secure boot."""
