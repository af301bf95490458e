"""A gate before each job: one file of shell that knows how a node was that passed."""
