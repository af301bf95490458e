"""Drift: for people and machines."""
