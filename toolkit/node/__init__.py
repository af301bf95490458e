"""One node over a transport: evidence is collected, bundles are delivered, it is rebooted."""
