"""Drift: what a node should have, has on disk, and has in effect."""
