"""Slurm: carried out."""
