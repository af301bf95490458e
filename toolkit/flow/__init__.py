"""The verbs, one file each: the only code that knows both wings."""
