"""What developers of the toolkit run: tiers of tests, lock files, generated pages. Not shipped."""
