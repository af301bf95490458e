"""Page of a fleet: one self-contained HTML file."""
