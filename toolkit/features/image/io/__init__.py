"""Images: on disk and on nodes."""
