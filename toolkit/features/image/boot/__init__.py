"""Images: booted in QEMU."""
