"""Drift: decided; pure."""
