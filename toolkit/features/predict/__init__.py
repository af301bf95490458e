"""Predict what a node's paths can carry: value, interval and limiting term."""
