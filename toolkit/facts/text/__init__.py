"""Pasted texts and logs: recognized, turned into frames, scrubbed."""
