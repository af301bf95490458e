"""Kubernetes: on the command line."""
