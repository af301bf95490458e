"""Topology: for people and machines."""
