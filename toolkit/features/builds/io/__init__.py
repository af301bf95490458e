"""Builds: on disk and on nodes."""
