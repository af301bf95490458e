"""Compare nodes: what differs between them."""
