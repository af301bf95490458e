"""BIOS settings over Redfish: compared with what is wanted, planned, changed."""
