"""Exercise: bandwidth and latency tests between nodes, held against the prediction."""
