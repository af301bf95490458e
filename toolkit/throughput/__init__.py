"""The throughput model, and what it is told of a node: pure."""
