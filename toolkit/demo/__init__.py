"""Simulated GPU nodes, served over real SSH on loopback: the embedded default.

A node is a directory tree with its own /proc, /sys, /etc, /boot and /lib/modules, and
a folder of small commands that act on that tree alone. Nothing here needs root, and
nothing here touches the machine that it runs on.
"""
