"""BIOS settings over Redfish: carried out."""
