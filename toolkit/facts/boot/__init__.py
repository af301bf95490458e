"""Boot: kernels, command line, boot loader, initramfs."""
