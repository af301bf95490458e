"""Built modules: cache, signatures, what may be delivered to a node."""
