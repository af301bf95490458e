"""BMCs over Redfish: read as evidence, and told what to change."""

LIMIT_S = 120.0  # for all that a BMC is asked at one time, unless the operator says otherwise
