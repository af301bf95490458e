"""Node sets: hosts, addresses, and the inventories that name them."""
