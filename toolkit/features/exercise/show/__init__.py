"""Exercise: for people and machines."""
