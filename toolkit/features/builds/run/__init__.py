"""Builds: carried out."""
