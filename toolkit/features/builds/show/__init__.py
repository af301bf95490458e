"""Builds: for people and machines."""
