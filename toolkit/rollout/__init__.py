"""Rollouts: journal, claims, budget, hooks, workers, history."""
