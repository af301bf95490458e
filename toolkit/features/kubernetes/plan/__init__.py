"""Kubernetes: decided; pure."""
