"""Builds: decided; pure."""
