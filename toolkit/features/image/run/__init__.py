"""Images: carried out."""
