"""Page: for people and machines."""
