"""Builds: on the command line."""
