"""What is to be said of each capture of the corpus, from what its source established.

Written from the column ``ground_truth`` of the corpus and nothing else: not from what our
checks happen to say. ``test_judged`` holds the verdicts against it, one by one, and this table
against the corpus. A capture without a row is held against the index's word for it, and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Case:
    """One capture. Each check that it names has to say so; whatever else fails is a false alarm.

    Nothing is excused: what is wrong beside the ground truth has to be told as well.
    """

    fails: str = ""  # the check that has to fail
    words: str = ""  # pattern that the failure has: the right reason, not just a failure
    passes: tuple[str, ...] = ()  # checks that have to pass, each of them
    also: Mapping[str, str] = field(default_factory=dict)  # further faults: check, and its words
    # What the file does not tell: the check that would judge it has to say so, in such words.
    lacks: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""  # why it is not of any kind that is imported

    @property
    def claims(self) -> bool:
        """Whether it names anything that has to be said; inventory has nothing."""
        return bool(self.fails or self.passes or self.also or self.lacks or self.refused)


RATE = "the rates? of its ports? (?:is|are) not told"
RANKS = "on how many nodes is not told"

TOPOLOGY = {
    "topo/esc8000a-e12_4xRTX6000Ada_4nic_node.txt": Case(fails="pcie.distance", words="NODE"),
    "topo/gke_a4_b200_8nic.txt": Case(passes=("pcie.distance",)),
    "topo/dgx1_v100_mlx5names_nolegendnic.txt": Case(passes=("pcie.distance",)),
    "topo/single_h100_vm_no_nic_ansi.txt": Case(fails="rdma.devices", words="no RDMA device"),
    "topo/xuesong_two_1080ti_phb.txt": Case(fails="rdma.devices", words="no RDMA device"),
    "topo/sglang30401_8xH100_8nic_pix.txt": Case(passes=("pcie.distance",)),
    "topo/azure_gb300_4nic_node.txt": Case(lacks={"pcie.distance": "whether NVLink-C2C joins"}),
    "topo/rtx4080s_single_no_nic.txt": Case(fails="rdma.devices", words="no RDMA device"),
    "ncclxml/aws_p4d_static.txt": Case(passes=("pcie.distance",)),
    "ncclxml/azure_ndv4_static.txt": Case(passes=("pcie.distance",)),
    "ncclxml/azure_ncv4_dump_nogdrnic.txt": Case(fails="rdma.devices", words="no RDMA device"),
    "ncclxml/oci_h100_dump_gdr1.txt": Case(passes=("pcie.distance",)),
    "ncclxml/hpe_dgxa100_variant.txt": Case(passes=("pcie.distance",)),
}
LSPCI = {
    "lspci/xe9680_h100_gpu_block.txt": Case(passes=("pcie.link",)),
    "lspci/xe9680_cx7_nic_block.txt": Case(passes=("pcie.link",)),
    "lspci/xe9680_bridges_acs_srcvalid_only.txt": Case(),
    "lspci/xe9680_broadcom_1g_width_downgraded.txt": Case(),
    "lspci/esc8000_rtx6000ada_gpu_idle_2.5GT.txt": Case(passes=("pcie.link",)),
    "lspci/esc8000_cx7_nic_block.txt": Case(passes=("pcie.link",)),
    "lspci/esc8000_tree_tv.txt": Case(fails="pcie.distance", words="NODE|SYS"),
    # Lines of grep without addresses: none can be laid to a bridge on a path.
    "lspci/esc8000_grep_acsctl_all_clear.txt": Case(
        lacks={"acs.redirect": "of 46 ACSCtl lines 0 redirect.*not printed"}
    ),
    "lspci/a100_nn_list.txt": Case(),
}
DRIVER = {
    "nvsmi/h100x8_q_535.161.08.txt": Case(
        passes=("gpu.class", "pcie.bar1"), also={"gpu.throttle": "HW Power Brake Slowdown"}
    ),
    "nvsmi/rtx4090_q_535.154.05.txt": Case(
        fails="gpu.class",
        words="GeForce",
        also={"pcie.bar1": "256 MiB"},
    ),
    "nvsmi/a10_q_535.129.03.txt": Case(
        passes=("gpu.class", "pcie.bar1"),
        also={"gpu.ecc": "Remapped Rows, Pending"},
    ),
    "nvsmi/l40s_q_595.80.txt": Case(
        passes=("gpu.class", "pcie.bar1"),
        also={"nvidia.persistence": "off on 1 of 1"},
    ),
    "nvsmi/h200_query_gpu_csv_590.txt": Case(
        passes=("gpu.class", "nvidia.persistence"),
    ),
    "nvsmi/h100_q_535.183.01.txt": Case(
        passes=("gpu.class", "pcie.bar1"), also={"gpu.throttle": "HW Power Brake Slowdown"}
    ),
    "nvsmi/plain_geforce_525_ERR_fan.txt": Case(
        fails="gpu.class", words="GeForce", also={"nvidia.persistence": "off on 1 of 1"}
    ),
    "nvsmi/h200_mig_q_590.48.01.txt": Case(passes=("pcie.bar1", "nvidia.mig_vgpu")),
    "nvsmi/h100x8_xml_570.86.15.xml": Case(
        passes=("gpu.class", "pcie.bar1", "nvidia.fabric_state", "gpu.ecc", "gpu.reset"),
        also={"nvidia.persistence": "off on 8 of 8"},
    ),
    "nvsmi/unable_to_determine_handle.txt": Case(
        refused="the sentence that nvidia-smi printed is not in the file"
    ),
    "nvsmi/nvlink_s_a100_p4de.txt": Case(passes=("nvlink.links",)),
    "nvsmi/rtx2080s_q_610.57.04.txt": Case(
        fails="gpu.class",
        words="GeForce",
        also={"nvidia.persistence": "off on 1 of 1", "pcie.bar1": "256 MiB"},
    ),
}
NCCL = {
    "nccllog/2.18.5_xe8640_h100_gdr_pxn.txt": Case(passes=("nccl.log",)),
    "nccllog/2.18.5_xe9680L_h200_gdrlevel_pix.txt": Case(passes=("nccl.log",)),
    "nccllog/2.9.9_p4d_efa_gdr.txt": Case(passes=("nccl.log",)),
    "nccllog/2.10.3_jeanzay_a100_opa_nogdr.txt": Case(
        fails="nccl.log", words="(?i)without GPUDirect|not used|off|no .*GDRDMA|hfi1"
    ),
    "nccllog/2.11.4_dss8440_a100pcie_socket.txt": Case(
        fails="nccl.log", words="No device found.*Socket"
    ),
    "nccllog/cscs_gh200_plugin_missing.txt": Case(
        fails="nccl.log", words="(?i)plugin|ofi|Libfabric"
    ),
    "nccllog/2.27.3_l40s_gdr_off_distance8.txt": Case(
        fails="nccl.log", words="(?i)distance|SYS|8 > 5"
    ),
    "nccllog/softroce_rxe_gdr_disabled.txt": Case(
        fails="nccl.log", words="(?i)rxe|software|Soft-RoCE"
    ),
    "nccllog/ocp_r760xa_a40_gdr_on.txt": Case(passes=("nccl.log",)),
    "nccllog/2.30.3_net_socket_channels.txt": Case(fails="nccl.log", words="(?i)socket|TCP"),
    "nccllog/ofi_register_rail_einval.txt": Case(
        fails="rdma.registration",
        words="Unable to register memory.*Invalid argument",
        also={"nccl.log": "Unable to register memory"},
    ),
    "nccllog/gke_a4_gib_plugin_gdr_on.txt": Case(passes=("nccl.log",)),
    "nccltest/a4_b200_aligned_8nic.txt": Case(lacks={"traffic.collective": RATE}),
    "nccltest/aks_a100_sriov_good.txt": Case(lacks={"traffic.collective": RANKS}),
    "nccltest/aks_a100_ipoib_bad.txt": Case(lacks={"traffic.collective": RANKS}),
    "nccltest/gh200_slingshot_tcp_fallback.txt": Case(lacks={"traffic.collective": RATE}),
    # That the figure is the largest message's, not the average at the foot: 437.9, not 52.97.
    "nccltest/p5_2node_efa_437.txt": Case(lacks={"traffic.collective": f"437.9 GB/s.*{RANKS}"}),
}
FABRIC = {
    "ib/ibstat_h100_some_down.txt": Case(fails="rdma.port", words="(?i)down|disabled"),
    "ib/ibv_devinfo_cx7_roce_all_down.txt": Case(
        fails="rdma.port",
        words="(?i)down",
        also={"rdma.firmware": "28.41.1000.*28.43.2566"},
    ),
    "ib/ibv_devinfo_mlx4.txt": Case(passes=("rdma.port",)),
    "ib/ibdev2netdev_dgx1.txt": Case(passes=("rdma.port",)),
    "ib/ibstat_arthurchiao_roce.txt": Case(fails="rdma.port", words="(?i)down|disabled"),
    "ib/ibstat_h100_roce_all_active.txt": Case(passes=("rdma.port",)),
    "ib/ibstat_h100_roce_two_disabled.txt": Case(fails="rdma.port", words="mlx5_11.*mlx5_5"),
    "ib/ibdev2netdev_spark_two_cables.txt": Case(passes=("rdma.port",)),
    "perftest/h200_host_completion_error_10.txt": Case(
        lacks={"traffic.pair": "status 10.*47.7 GB/s before.*both ends the same -s or -a"}
    ),
    "perftest/azure_a100_ib_write_bw_host.txt": Case(lacks={"traffic.pair": f"197 Gb/s.*{RATE}"}),
    "perftest/superbench_ib_loopback.txt": Case(
        lacks={"traffic.pair": f"195 Gb/s. by ib0.*within one port.*{RATE}"}
    ),
    "perftest/crater_ib_write_bw_loopback_ok.txt": Case(lacks={"traffic.pair": f"95 Gb/s.*{RATE}"}),
    "perftest/dgx1_roce_rdmacm_92g_cpufreq.txt": Case(lacks={"traffic.pair": f"92 Gb/s.*{RATE}"}),
    "mst/mst_status_cx6_ocp.txt": Case(),
    # The kernel adds "limited by" where a link is below what the card can (drivers/pci/pci.c,
    # __pcie_print_link_status); here it does not, so this card is of Gen3 x8 and runs as such.
    "dmesg/genoa_mlx5_x8_gen3_limited.txt": Case(
        lacks={"pcie.link": "all that the card can; whether its port is faster is not told"}
    ),
    "dmesg/h100_boot_mlx5_27w_filtered.txt": Case(),
    "dmesg/xid79_then_sxid20034.txt": Case(
        fails="gpu.xid",
        words="0000:91:00.0: Xid 79",
        also={"gpu.lost": "0000:91:00.0", "nvlink.sxid": "20034"},
    ),
    "dmesg/h100_xid119_gsp_timeout.txt": Case(fails="gpu.xid", words="0000:9b:00.0: Xid 119"),
    "dmesg/gb200_xid149_nonfatal_ber.txt": Case(),
    "dmesg/erdma_out_of_mr_size.txt": Case(fails="rdma.registration", words="(?i)out of mr size"),
    "fabric/fm_nonfatal_12028.txt": Case(),
    "fabric/fm_fatal_20034.txt": Case(fails="nvlink.sxid", words="20034"),
    "fabric/fm_nothing_to_do.txt": Case(),
    "dmesg/b200_fallen_multiline_no_xid.txt": Case(fails="gpu.lost", words="0000:18:00.0"),
}
COMPANIONS = {
    "gds/gdscheck_1.14_esc8000_good.txt": Case(passes=("gds.nvidia_fs", "gds.iommu")),
    "gds/gdscheck_0.9.1_k1200_fail.txt": Case(fails="gds.nvidia_fs", words="K1200.*architecture"),
    "ucx/ucx_info_cuda_gdrcopy_old.txt": Case(passes=("ucx.paths",)),
    "gds/gdsio_gpud_vs_cpuonly_wrx90.txt": Case(
        lacks={"traffic.storage": "whether cuFile went directly.*the drives may be the limit"}
    ),
    "ucx/fi_info_cxi_ok.txt": Case(passes=("libfabric.provider",)),
    "dcgm/dcgmi_diag_r2_p4de_pass.txt": Case(passes=("dcgm.diag",)),
    "ucx/ucx_perftest_cuda_10GBs.txt": Case(lacks={"traffic.pair": f"GPU memory.*{RATE}"}),
    "peermem/gdrcopy_sanity_pass.txt": Case(passes=("gdrcopy.driver",)),
}
MODULES = {
    "peermem/gb10_secureboot_key_rejected.txt": Case(
        fails="module.signed", words="key was rejected"
    ),
    "peermem/disagrees_version_err22.txt": Case(
        fails="peermem.unknown_symbol", words="version.*-22"
    ),
    "peermem/kmsg_p2p_free_callback_error.txt": Case(),
    "peermem/lsmod_gpuoperator_good_old.txt": Case(passes=("peermem.loaded",)),
    "peermem/lsmod_gpuoperator_no_peermem.txt": Case(
        fails="peermem.loaded", words="not loaded", also={"path.selected": "not loaded"}
    ),
    "peermem/lsmod_nvidia_fs_with_peermem.txt": Case(passes=("peermem.loaded",)),
    "k8s/peermem_ctr_loaded_after_wait.txt": Case(passes=("peermem.loaded",)),
    "peermem/lsmod_ib_core_list_without_peermem.txt": Case(),
}
IOMMU = {
    "iommu/cmdline_dmesg_amd_passthrough.txt": Case(passes=("iommu.passthrough",)),
    "iommu/dmesg_proxmox_dmar_enabled.txt": Case(
        fails="iommu.passthrough", words="(?i)translat|enabled"
    ),
    "iommu/cmdline_ubuntu2404_iommu_pt_realloc.txt": Case(passes=("iommu.passthrough",)),
    "iommu/grub_esc8000_amd_iommu_off_and_pt.txt": Case(passes=("iommu.boot",)),
    "iommu/rdma_topo_check_gb300_acs_fail.txt": Case(
        fails="acs.mask", words="grace_rp 0009:00:00.0 .*0x1d != 0x1c"
    ),
    "iommu/iommu_groups_shared_gpu.txt": Case(),
}
DKMS = {
    "dkms/mlnx_ofed49_ok_env_symvers.txt": Case(
        lacks={"ofed.headers_link": "not part of this evidence"}
    ),
    "dkms/dkms2x_mlnx49_three_kernels.txt": Case(passes=("dkms.state",)),
    "dkms/dkms2x_ofed54_then_nvme_added.txt": Case(passes=("dkms.state",)),
    "dkms/dkms3x_nvidia_missing_on_one_kernel.txt": Case(fails="dkms.state", words="5.15.0-89"),
    "dkms/dkms3x_mlnx_ofed_2510_and_nvidia580.txt": Case(passes=("dkms.state",)),
    "dkms/nvidia_dkms_gcc_mismatch_ftrivial.txt": Case(
        fails="dkms.last_failure", words="(?i)gcc|compiler"
    ),
    "dkms/nv_peer_mem_dkms_install_ok.txt": Case(passes=("dkms.last_failure",)),
    "dkms/lambda_mlnx_ofed_fail_614.txt": Case(fails="dkms.last_failure", words="mlnx-ofed|6.14"),
    "modinfo/ofed_info_s.txt": Case(),
}
PLATFORM = {
    # That the node has eight GPUs is not in the file.
    "k8s/allocatable_7_of_8_gpus.txt": Case(lacks={"gpu.count": "not part of this evidence"}),
    **dict.fromkeys(
        (
            "dmi/dell_c4140.txt",
            "dmi/gigabyte_g482_z54.txt",
            "dmi/lenovo_sr650v2.txt",
            "dmi/dell_xe9680_gpud.txt",
            "osrelease/ubuntu_2204.txt",
            "osrelease/redhat_9.txt",
            "osrelease/sles_15.txt",
            "osrelease/amazon_2023.txt",
            "osrelease/cbl-mariner_2.txt",
            "osrelease/oracle_8.txt",
        ),
        Case(),
    ),
    "redfishbios/dell_mmioabove4gb_on.txt": Case(passes=("bios.above_4g", "bios.dma_protection")),
    "redfishbios/hpe_amd_acs_enabled.txt": Case(
        fails="bios.acs", words="AccessControlService", passes=("bios.dma_protection",)
    ),
    "redfishbios/smc_acs_disabled_above4g_on.txt": Case(passes=("bios.acs", "bios.above_4g")),
    "redfishbios/hpe_intel_vtd_acs_sriov.txt": Case(fails="bios.acs", words="AccessControlService"),
}
EXPECTED: dict[str, Case] = {
    **TOPOLOGY,
    **LSPCI,
    **DRIVER,
    **NCCL,
    **FABRIC,
    **COMPANIONS,
    **MODULES,
    **IOMMU,
    **DKMS,
    **PLATFORM,
}
