"""Builds of kernel modules: graph, sandboxes, executors, packages."""
