"""Where the corpus of real captures lies, and which of its files our parsers answer for."""

from __future__ import annotations

from pathlib import Path

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"
POINTS = CORPUS.parent / "throughput-points.csv"  # published measurements
REDFISH = CORPUS.parent / "redfish"  # whole captures of BMCs, as a mockup server lays them out

# The captures that a parser covers, kept here so that a clone without the corpus can say
# how many were not read. The corpus has more; all of those are tried on all parsers.
COVERED = (
    "dkms/dkms2x_mlnx49_three_kernels.txt",
    "dkms/dkms2x_ofed54_then_nvme_added.txt",
    "dkms/dkms3x_mlnx_ofed_2510_and_nvidia580.txt",
    "dkms/dkms3x_nvidia_missing_on_one_kernel.txt",
    "iommu/cmdline_dmesg_amd_passthrough.txt",
    "iommu/cmdline_ubuntu2404_iommu_pt_realloc.txt",
    "modinfo/ofed_info_s.txt",
    "osrelease/amazon_2023.txt",
    "osrelease/cbl-mariner_2.txt",
    "osrelease/oracle_8.txt",
    "osrelease/redhat_9.txt",
    "osrelease/sles_15.txt",
    "osrelease/ubuntu_2204.txt",
    "peermem/lsmod_gpuoperator_good_old.txt",
    "peermem/lsmod_gpuoperator_no_peermem.txt",
)
