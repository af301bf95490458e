"""One judgement each, in topic files. Nothing here does I/O."""
