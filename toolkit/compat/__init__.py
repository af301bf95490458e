"""What goes with what: versions, GPUs, HCAs, known breakages; rows of data, and their reader."""
