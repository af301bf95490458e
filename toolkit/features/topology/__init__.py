"""Topology of a node as text, JSON and pictures."""
