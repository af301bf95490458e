"""The same verdicts for different readers."""
