"""BMCs over Redfish: read as evidence, and told what to change."""
