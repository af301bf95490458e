"""Kubernetes: carried out."""
