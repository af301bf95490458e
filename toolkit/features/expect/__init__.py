"""Expected hardware: learned from the nodes of a site."""
