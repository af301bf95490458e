"""What is built for which kernel, after what, and whether the result may be installed. PURE."""
