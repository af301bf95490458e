"""BIOS settings over Redfish: for people and machines."""
