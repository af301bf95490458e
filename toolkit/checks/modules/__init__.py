"""Checks on kernel modules: nvidia-peermem and OFED, loaded and loadable."""
