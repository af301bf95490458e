"""Exercise: decided; pure."""
