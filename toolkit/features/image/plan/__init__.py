"""Images: decided; pure."""
