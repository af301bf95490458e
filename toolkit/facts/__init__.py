"""Text in, typed values out; one file per source of truth. Nothing here does I/O."""
