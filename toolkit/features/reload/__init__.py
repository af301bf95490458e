"""Reload kernel modules where nobody depends on them."""
