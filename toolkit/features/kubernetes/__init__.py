"""Kubernetes: manifests that read and change nodes, and their rollout."""
