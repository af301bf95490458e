"""Images: on the command line."""
