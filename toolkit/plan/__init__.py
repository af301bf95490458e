"""Plans: what to change and in which order; artefacts, bundle. Nothing here does I/O."""
