"""Ansible: a folder with playbooks, inventory and bundles for a controller without us."""
