"""What a node's paths can carry: value, interval and limiting term, from its own evidence."""
