"""Checks on GPUs: driver, health, NVLink, storage."""
