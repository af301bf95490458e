"""Rollouts decided: batches, windows, budget. PURE."""
