"""Kubernetes: on disk and on nodes."""
