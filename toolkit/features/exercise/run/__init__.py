"""Exercise: carried out."""
