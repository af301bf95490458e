"""GPUs: the NVIDIA driver, nvidia-smi, GDRCopy, GPUDirect Storage."""
