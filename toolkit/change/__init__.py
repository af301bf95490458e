"""What to change and in which order: artefacts, plan, bundle. Nothing here does I/O."""
