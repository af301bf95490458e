"""Verbs of the spine on the command line: options in, text and exit code out."""
