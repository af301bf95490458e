"""Prediction: decided; pure."""
