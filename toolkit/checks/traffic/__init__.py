"""Traffic that was measured, held against what ports and paths carry."""
