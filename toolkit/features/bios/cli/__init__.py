"""BIOS settings over Redfish: on the command line."""
