"""Slurm: nodes by name, jobs, drain and resume, srun as a transport."""
