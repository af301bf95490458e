"""BIOS settings over Redfish: decided; pure."""
