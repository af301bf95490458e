"""Images: the same plan in a tree that does not run; passport, boot."""
