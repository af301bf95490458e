"""The kinds of text that other tools print, each told by its command and by its shape.

A text that holds several has each of them from its head to the head of the next.
"""

from __future__ import annotations

import re
from functools import cache

from msgspec import Struct

from toolkit.errors import UsageError


class Kind(Struct, frozen=True):
    """One sort of text."""

    name: str  # what an operator says: "topo"
    frame: str  # the frame that it becomes: "nvidia-topology"
    command: str  # pattern of the commands that print it, without sudo; "" for none
    shape: str  # pattern of its content, searched with ^ and $ at lines
    # Pattern that a line has at its beginning where such a text begins, or goes on, amid others;
    # None where its shape is that too, "" where nothing tells it amid others.
    opens: str | None = None
    lines: int = 0  # that it has at most; 0 for any number


_PROC_MODULE = r"\w+ \d+ \d+ \S+ (?:Live|Loading|Unloading) 0x"
_PCI = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_NO_P2P = r"(?!\s*(?:OK|[CGTD]?NS|DR)\b)"  # words of "nvidia-smi topo -p2p"
# What stands before a line of the kernel's: util-linux sys-utils/dmesg.c, print_record;
# systemd src/shared/logs-show.c, output_short; syslog daemons; Documentation/ABI/testing/dev-kmsg.
_CLOCK = r"\d\d:\d\d:\d\d"
_SINCE = r"\[ *\d+\.\d{6}(?: +<[ .\d]+>)?\](?:\[ *[TC]\d+\])? "
_ISO = rf"\d{{4}}-\d\d-\d\dT{_CLOCK}(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"
_DMESG = (
    rf"(?:{_ISO} )?(?:<\d+>)?(?:(?:kern|user|daemon|syslog) *:\w+ *: )?"
    rf"(?:{_SINCE}|\[ +\+\d+\.\d{{6}}\] |\[\S{{3,5}} ?\d?\d \d\d:\d\d\] "
    rf"|\[\S+ \S+ [ \d]?\d {_CLOCK} \d{{4}}(?: +<[ .\d]+>)?\] )"
    rf"|kern *:\w+ *: |\d+,\d+,\d+,[-c][^;\n]*;|\d{{4}}-\d\d-\d\dT{_CLOCK},\d{{6}}[+-]\d\d:\d\d "
    rf"|(?:[A-Za-z]\S{{2,4}} [ \d]?\d {_CLOCK}(?:\.\d+)?|{_ISO}|\d{{10}}\.\d{{6}}"
    rf"|\[ *\d+\.\d{{6}}(?: <[ .\d]+[ *]>| +)?\]|\S{{3}} \d{{4}}-\d\d-\d\d {_CLOCK}(?:\.\d+)? \S+) "
    r"(?:\S+ )?kernel: "
)
# Bare lines of the kernel's, as journalctl -o cat and dmesg -t print them, and of those who cut:
# kernel/module/main.c, version.c and signing.c; drivers by dev_err and ibdev_err.
_BARE = (
    r"NVRM: |(?:mlx[45]_(?:core|ib)|infiniband|pcieport|nvidia|bnxt_\w+|efa|ionic|irdma|ice)"
    rf"(?:@\S+)? (?:{_PCI}|\w+_\d+|[a-z]+p\d+s\w+)(?: \S+)?: |mlx5_\w+:\d+:\(pid \d+\): "
    r"|[a-z]\w*: (?:Unknown symbol \w+ \(err|disagrees about version of symbol |no symbol version "
    r"for |version magic '|loading out-of-tree module |module verification failed|module license ')"
    r"|(?:DMAR|AMD-Vi|iommu): |nvidia-nvswitch\d+: |nvidia-peermem nv_"
    r"|(?:[\w.-]+ )?kernel: "
    r"(?=\[ *\d|NVRM: |nv|mlx|infiniband|ib_|rdma|DMAR|AMD-Vi|iommu|pci|gdrdrv)"
)
# nvidia-smi -q without its head: sections that grep or a hand has left.
_SMI_SECTION = (
    r"(?:[ \t]*(?:(?:BAR1|FB) Memory Usage|Remapped Rows|Retired Pages|GPU Link Info"
    r"|GPU Reset Status|Clocks \w+ Reasons)[ \t]*$|[ \t]+GPU Recovery Action +: "
    r"|[ \t]+Fabric[ \t]*\n[ \t]+State +:)"
)
# A program's words for cudaErrorSystemNotReady; a bare 802 may be a count, or of IEEE 802.3ad.
CUDA_802 = (
    r".{0,300}?(?:\b(?:CUDA|[Cc]uda|cu[A-Z])\w*.{0,120}?(?:[Ee]rr(?:or)?|[Rr]eturned|code|fail(?:ure|ed)"
    r"|result|status)\W{0,4}(?:(?:code|with) )?802\b(?!\.?\w)"
    r"|(?:: |-> ?|\b[Ee]rror\b.{0,80}?)system not yet initialized)"
)
_CHANNEL = r"[ \t]*\d+(?:\[\w+\])? -> \d+(?:\[\w+\])? \[(?:send|receive)\] via NET/"
# Of a run that came to no table: linux-rdma/perftest src/*_memory.c, perftest_resources.c.
_CUDA_OF_PERFTEST = (
    r"[ \t]*(?:Couldn't allocate MR\b|initializing CUDA\s*$|Calling ibv_reg_dmabuf_mr\("
    r"|(?:using DMA-BUF for|allocated(?: \d+ bytes of)?) GPU buffer )"
)
# NVIDIA/nvshmem src/include/non_abi/nvshmemx_error.h and src/host/init/debug.cpp.
_OF_NVSHMEM = (
    r"\S{0,200}?(?:nvshmem|/transport/ib\w+/)\S{0,200}?\.(?:cpp|cc|cu|h)(?::\w+)?[: ]\d+:? "
    r"|\S{1,99}:\d+:\d+ \[\d+\] .{0,200}?NVSHMEM (?:INFO|WARN|TRACE|ABORT) "
)
# ofiwg/libfabric src/log.c, fi_log: the process and the time came later than the provider.
_OF_LIBFABRIC = r".{0,99}?libfabric:[\w:;]{3,99}\(\):\d+<(?:warn|trace|info|debug)> "
# A line of a log, and no sentence about one: it tells where in a source it stands, or begins with a
# level or a clock, or ends with the errno. Bounded, so that a line without end takes no more time.
_ERRNO = (
    r"(?:\berr(?:no|or|or_code)?\W{0,2}-?\d+|[:,] (?:Bad address|Cannot allocate memory"
    r"|Invalid argument|Operation not (?:permitted|supported)|No such \w+(?: or \w+)?"
    r"|Protocol not supported|Input/output error|Numerical result out of range"
    r"|Connection (?:timed out|refused)|Network is unreachable|No route to host)"
    r"(?: \[\d+\])?|\[\d+\])"
    r"\W{0,3}(?: \([^()\n]{1,60}\))?\s*$"
)
_NO_LOG = r"(?!.{0,300}?(?:%[sdmup]|\?\s*$|: (?:fatal )?error: ))"
_SAID_BY_A_LOG = (
    r"(?=.{0,200}?\.(?:cpp|cc|cu|c|h|py|rs|go):\d+\b|[IWEF]\d{4,8} \d\d:|\[?\d{4}-\d\d-\d\d"
    rf"|.{{0,300}}?{_ERRNO}){_NO_LOG}"
)
_OF_VERBS = (
    rf"{_SAID_BY_A_LOG}.{{0,300}}?(?:\b(?:ibv_(?:exp_)?(?:reg|create|modify|open|alloc)|mlx5dv_"
    r"|fi_mr_reg)\w*\b.{0,300}?\b(?:[Ff]ail|[Ee]rror|[Cc]annot|[Cc]ouldn't|[Uu]nable)"
    r"|\b[Ff]ail\w* to (?:register (?:\w+ )?(?:memory|MR|mr)|(?:modify|create) (?:QP|CQ))\b"
    r"|\b[Rr]egister\w*M(?:emory|[rR])\w* failed|\bnv\w*[_-]peer_?mem)"
    r"|Failed to modify QP to (?:INIT|RTR|RTS)\s*$"  # rdma-core libibverbs/examples
)
VERBS_LINE = rf"(?:{_OF_NVSHMEM}|{_OF_LIBFABRIC}|{_OF_VERBS})"
# A line is looked at alone: \s at its beginning would try all blank lines behind each of them.
# The more telling shape first: an NCCL log may quote anything, an address opens many lines.
KINDS = (
    # openucx/ucx src/ucs/debug/log.c, UCS_LOG_FMT: seconds since the epoch, where dmesg counts from
    # the boot.
    Kind("ucx-log", "ucx-log", "",
         r"^\[\d{10}\.\d{6}\] \[[^\]\n]+:\d+ *:\S+\] +\w+\.cc?:\d+ +UCX +[A-Z]"),
    Kind("nccl-log", "nccl-log", "", r"NCCL (?:INFO|WARN|TRACE) |"
         rf"GPU Direct RDMA (?:Enabled|Disabled) for|^{_CHANNEL}",
         rf".*\bNCCL (?:INFO|WARN|TRACE) |NCCL version \d|{_CHANNEL}|"
         r".*\bGPU Direct RDMA (?:Enabled|Disabled) for "),
    Kind("nccl-topology", "nccl-topology", "", r"^[ \t]*<(?:system|busid|graphs)\b[^>]*version=",
         r"<system version="),
    Kind("topo", "nvidia-topology", r"nvidia-smi topo (?:-mp?|--matrix)\b",
         rf"^[ \t]*GPU0\b.*CPU Affinity|^[ \t]*GPU0\s+X\s{_NO_P2P}",
         rf"[ \t]*(?:\x1b\[\d*m)?GPU0\s+(?:X\s{_NO_P2P}|GPU1\s|NIC0\s|mlx\S+\s|CPU Affinity)"),
    Kind("nvlink-status", "nvlink-status", r"nvidia-smi nvlink (?:.* )?(?:-s|--status)\b",
         r"^[ \t]*Link \d+: (?:[\d.]+ GB/s|<inactive>)\s*$",
         r"GPU \d+: .+ \(UUID: [^)]*\)\s*\n\s*Link \d+: "),
    Kind("nvidia-smi-table", "nvidia-smi-table", r"nvidia-smi(?: -i \S+)?\s*$",
         r"^\| NVIDIA-SMI \d[\d.]+ ",
         r"(?:\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}\s*\n)?[ \t]*(?:\+-+\+[ \t]*\n[ \t]*)?"
         r"\| NVIDIA-SMI \d"),
    Kind("nvidia-smi-q", "nvidia-smi-q", r"nvidia-smi (?:-q|--query)(?: |$)",
         r"^=+NVSMI LOG=+$|^[ \t]*<nvidia_smi_log>|^Unable to determine the device handle for |"
         rf"^{_SMI_SECTION}|^GPU [0-9A-F]{{8}}:[0-9A-F]{{2}}:[0-9A-F]{{2}}\.\d[ \t]*$|"
         r"^Failed to initialize NVML: "
         r"|^NVIDIA-SMI has failed because |^No devices were found\s*$"),
    Kind("dcgmi-diag", "dcgmi-diag", r"dcgmi diag\b", r"^\| Diagnostic\s+\| Result\b"),
    Kind("rdma-topo", "rdma-topo", r"rdma_topo check\b",
         r"^(?:OK|FAIL)\s+(?:ACS for |Kernel iommu_group for |All ConnectX DMA )"),
    Kind("nvidia-version", "nvidia-version", r"cat /proc/driver/nvidia/version\b",
         r"^NVRM version: +NVIDIA "),
    Kind("ibstatus", "ibstatus", r"ibstatus\b", r"^Infiniband device '[^']+' port \d+ status:|"
         r"^Fatal error: +(?:No devices$|device '\*': sys files not found)"),
    Kind("rdma-link", "rdma-link", r"rdma(?: -\w+)* link\b",
         r"^(?:link |\d+/\d+: )\S+/\d+:? (?:subnet_prefix \S+ lid \d|state [A-Z_]+ )|"
         r"^\[\s*\{\s*\"ifindex\": ?\d+,\s*\"(?:ifname\": ?\"[^\"]+\",\s*\")?port\": ?\d"),
    Kind("show-gids", "show-gids", r"show_gids\b", r"^DEV\s+PORT\s+INDEX\s+GID\s"),
    Kind("systemctl-status", "systemctl-status",
         r"systemctl (?:-\S+ )*(?:status|list-units|show|--failed|(?:re)?start)\b",
         r"^[ \t]*(?:\S[ \t]+)?[\w@.:-]+\.service[ \t]+(?:loaded|masked|not-found|bad-setting)"
         r"\s+(?:active|inactive|failed|activating|deactivating|reloading)\s+[a-z-]+\b|"
         r"^Unit \S+\.service could not be found\.$|^Job for \S+\.service failed |"
         r"^[ \t]*(?:\S )?[\w@.:-]+\.service(?: - .*)?\n(?:[ \t].*\n){0,3}?[ \t]*Loaded: "),
    Kind("fi-info", "fi-info", r"fi_info\b", r"^fi_getinfo: |^provider: \S",
         r"fi_getinfo: |provider: \S.*\n\s+fabric: "),
    Kind("gdsio", "gdsio", r"\S*gdsio\b", r"^IoType: \w+ XferType: "),
    Kind("fabricmanager-log", "fabricmanager-log", r"(?:cat|tail|less) .*fabricmanager\.log\b",
         r"^\[\w{3} \d\d \d{4} [\d:]{8}\] \[(?:INFO|WARNING|ERROR|CRITICAL)\] \[tid \d+\]"
         r"|\bnv(?:idia)?-fabricmanager(?:-start\.sh)?\[\d+\]: "
         r"|^(?:fabric manager (?:NVIDIA GPU driver interface version |config file item: )"
         r"|request to query NVSwitch )",
         r"\[\w{3} \d\d \d{4} [\d:]{8}\] \[[A-Z]+\] \[tid \d+\]"
         r"|.*\bnv(?:idia)?-fabricmanager(?:-start\.sh)?\[\d+\]: "),
    Kind("peermem-container", "peermem-container", "",
         r"^(?:\S+ )?(?:waiting for mellanox ofed and nvidia drivers|(?:successfully loaded|"
         r"failed to load) nvidia-peermem module)"),
    Kind("driver-container", "driver-container", "",
         r"^(?:\[\d\d-[A-Z][a-z]{2}-\d\d_[\d:]{8}\] |=+ NVIDIA Software (?:Installer|Updater) =+"
         r"|(?:Uns|S)etting driver ready|Could not unload NVIDIA driver|Done, now waiting for sign"
         r"|(?:Unl|L)oading NVIDIA driver kernel|subscription-manager is operating in container"
         r"|nvidia driver module is already loaded|(?:time=\S+ level=\w+ msg=\"?)?(?:Gett"
         r"ing c|C)urrent value of (?:the )?['\"]nvidia\.com/gpu\.deploy\.)"),
    Kind("nvidia-smi-csv", "nvidia-smi-csv", r"nvidia-smi --query-gpu=",
         r"^(?=.*\b(?:pci\.bus_id|driver_version|name|uuid)\b)[\w.]+(?: \[[^]]*\])?(?:, ?[\w.]+"
         r"(?: \[[^]]*\])?){2,}$"),
    Kind("dmidecode", "dmidecode", r"dmidecode(?! \d)", r"^# dmidecode \d|^SMBIOS [\d.]+ present"),
    Kind("setpci", "setpci-said", r"(?:for\b.*\b)?setpci\b",
         rf"^[ \t]*{_PCI}[ :]*(?:\(ecap 000d @\w+\) @\w+|E?CAP_?ACS\S*)?[ :=]+[0-9a-f]{{4}}[ \t]*$"
         rf"|^setpci: (?:{_PCI}: Instance|Warning: No devices selected)"),
    Kind("nvidia-params", "nvidia-params",
         r"(?:cat|[ef]?grep\b.*) /proc/driver/nvidia/(?:\./)?params\b",
         r"^(?:ResmanDebugLevel|EnableStreamMemOPs|EnableResizableBar|EnablePCIERelaxedOrderingMode"
         r"|NvLinkDisable|DmaRemapPeerMmio|ImexChannelCount|GrdmaPciTopoCheckOverride"
         r"|CoherentGPUMemoryMode|RegistryDwords): (?:\d+$|\")"),
    Kind("modprobe-d", "modprobe-d-said",
         r"(?:cat|head|tail|[ef]?grep)\b.* \S*/modprobe\.d\b|modprobe (?:-c|--showconfig)\b",
         r"^(?:\S*/modprobe\.d/[^\s:]+:(?:\d+:)?)?[ \t]*(?:blacklist|options|install|softdep) "
         r"+(?:nvidia|nouveau|nv_peer_mem|gdrdrv|mlx[45]|ib_|rdma_)\S*(?: |$)"),
    Kind("kallsyms", "kallsyms-said", r"(?:cat|[ef]?grep\b.*) /proc/kallsyms\b",
         r"^(?:\d+:)?[0-9a-f]{8,16} [A-Za-z] \S+[ \t]+\[\w+\][ \t]*$"),
    Kind("openibd", "openibd-said", r"(?:service )?openibd (?:force-)?(?:re)?(?:start|stop)\b",
         r"^(?:(?:Unl|L)oading (?:Mellanox \S+ )?HCA driver\b.*|Failed loading kernel module .*"
         r"|Module \S+ (?:does not exist|(?:does not )?belongs? to) .*)"
         r"\[ *(?:OK|FAILED|WARNING|done) *[\]\[]"),
    Kind("rdma-system", "rdma-system", r"rdma(?: -\w+)* sys\w*\b",
         r"^netns (?:shared|exclusive)\b|^\[\s*\{\s*\"netns\": ?\""),
    Kind("infiniband-nodes", "rdma-nodes-said", r"(?:ls|find)\b.* /dev/infiniband\b",
         r"^(?:c[rwxst-]{9}\S* .* |/dev/infiniband/)(?:(?:uverbs|umad|issm|ucm)\d+|rdma_cm)$"
         r"|^ls: (?:cannot access )?'?/dev/infiniband\b|^(?:(?:by-\w+|rdma_cm)[ \t]+)*(?:uverbs"
         r"|umad|issm)\d+(?:[ \t]+(?:(?:uverbs|umad|issm|ucm)\d+|rdma_cm|by-\w+))*[ \t]*$"),
    Kind("mlxfwmanager", "mlxfwmanager", r"(?:mlxfwmanager|mlxup)\b",
         r"^Querying Mellanox devices firmware|^Device #\d+: *\n\s*(?:-+\s*)?Device Type: "),
    Kind("lspci-tree", "lspci-tree", r"lspci(?: -\w+)*? -\w*t", r"^[ \t]*-[+-]?-?\[[0-9a-f]{4}:"),
    Kind("iommu-groups", "iommu-groups-list", "", rf"^IOMMU Group \d+:?\s+{_PCI} "),
    Kind("lspci", "lspci", r"lspci\b", rf"^{_PCI} (?:\"|.*(?::|\]) )|"
         r"^[ \t]*(?:ACSC(?:tl|ap):\s+SrcValid[+-]|Lnk(?:Cap|Sta):\s+(?:Port #\d+, )?Speed "
         r"|Region \d: Memory at )",
         rf"{_PCI} (?:\"|[A-Z0-9][\w /-]+(?: \[[0-9a-f]{{4}}\])?: )|"
         r"[ \t]*(?:ACSC(?:tl|ap):\s+SrcValid[+-]|Lnk(?:Cap|Sta):\s+(?:Port #\d+, )?Speed "
         r"|Region \d: Memory at )"),
    Kind("ibstat", "ibstat", r"ibstat\b", r"^CA '[^']+'$"),
    Kind("ibv-devinfo", "ibv-devinfo", r"(?:(?:docker|podman|srun|kubectl) .* )?ibv_devinfo\b",
         r"^hca_id:\s|^No IB devices found$|^libibverbs: Warning: no userspace device-specific "),
    Kind("ibdev2netdev", "ibdev2netdev", r"ibdev2netdev\b", r"^\S+ +port +\d+ +==> "),
    Kind("gdscheck", "gdscheck", r"\S*gdscheck\b",
         r"^[ \t]*(?:GDS release version\b|DRIVER CONFIGURATION:$)"),
    Kind("cufile-log", "cufile-log", "", r"^[ \t]*[\d-]{10} [\d:]{10,12} \[pid=\d+ tid=\d+\] "),
    Kind("cuda-said", "cuda-said", "",
         rf"^{CUDA_802}"),
    Kind("gdrcopy-sanity", "gdrcopy-sanity", r"\S*(?:gdrcopy_)?(?:sanity|copybw)\b",
         r"^Total: \d+, Passed: \d+, Failed: \d+|^write BW: [\d.]+ ?MB/s$|^&&&& (?:RUNNING|PASSED"
         r"|FAILED|WAIVED) \w+$|^gdr_open error: "
         r"|^Assertion \".{0,300}?\b(?:g|gdr_\w{1,60})\b.{0,300}?\" failed at ", ""),
    Kind("nccl-tests", "nccl-tests", r"\S*(?:all_reduce|all_gather|alltoall|broadcast|sendrecv|"
         r"reduce_scatter)_perf\b", r"^# nThread \d|\bout-of-place\b.*\bin-place\b|"
         r"^#? ?Avg bus bandwidth|\"average_bus_bandwidth\"|^[ \t]*\d+\s+\d+\s+(?:u?int(?:8|32|64)|"
         r"half|float|double|bfloat16)\s+(?:sum|prod|min|max|avg|none)\s+-?\d+\s+[\d.]+\s",
         r"(?:\[\d+,\d+\]<\w+>: ?| ?\d+: (?=\s|#))?(?:# (?:nThread \d|nccl-tests version|"
         r"Collective test|Avg bus|Out of bounds)|#\s+out-of-place\s+in-place|"
         r"[ \t]+\d+\s+\d+\s+\w+\s+\w+\s+-?\d+\s+[\d.]+\s)"),
    Kind("perftest", "perftest-run", r"ib_(?:write|read|send|atomic)_(?:bw|lat)\b",
         r"\b(?:RDMA_(?:Write|Read)|Send|Atomic\w*) (?:BW|Latency|Bidirectional BW) Test|"
         r"^[ \t]*#bytes\s+(?:#sl\s+)?#iterations\s|\"test\": ?\"(?:RDMA_|Send_|Atomic_)\w*Test\""
         rf"|^{_CUDA_OF_PERFTEST}",
         r"(?:-{20,}\s*\n)?[ \t]+(?:RDMA_(?:Write|Read)|Send|Atomic\w*) .*Test\b|"
         rf"[ \t]*#bytes\s+#iterations\s|{_CUDA_OF_PERFTEST}"),
    Kind("ucx-perftest", "ucx-perftest", r"ucx_perftest\b", r"bandwidth \(MB/s\).*message rate",
         r"\+-+\+-+\+.*\n\|.*(?:overhead|latency) \(usec\)"),
    Kind("ucx-info", "ucx-info", r"ucx_info\b", r"^#\s+(?:Transport:|Memory domain:|component:)"),
    Kind("mst-status", "mst-status", r"mst status\b", r"^MST modules:$"),
    Kind("grub-default", "grub-default", r"cat /etc/default/grub\b", r"^GRUB_CMDLINE_LINUX",
         r"GRUB_(?:DEFAULT|TIMEOUT|CMDLINE_LINUX)\w*="),
    Kind("os-release", "os-release", r"cat /etc/os-release\b",
         r"^(?:ID|PRETTY_NAME|VERSION_ID)=",
         r"(?:PRETTY_NAME|VERSION_ID|ID_LIKE|NAME)=\"?[\w\"]"),
    Kind("mokutil", "mokutil", r"mokutil\b", r"^SecureBoot (?:enabled|disabled)\b"),
    Kind("modprobe", "modprobe-said", r"(?:modprobe|insmod) (?!-c)",
         r"^[ \t]*(?:modprobe|insmod): "
         r"|^(?:FATAL|WARNING|ERROR): (?:Error inserting|Module \S+ not found)"
         r"|^.*\bsystemd-modules-load\[\d+\]: |^depmod: WARNING: \S+\.ko\S* (?:needs|disagrees) "),
    Kind("modinfo", "modinfo-said", r"modinfo\b", r"^filename:\s+\S+\.ko|^[\w-]+\.ko(?:\.\w+)?:\s"),
    Kind("dmesg", "dmesg", r"(?:dmesg|journalctl(?= .*(?:-\w*k|--dmesg)))\b",
         rf"^(?:{_DMESG}|{_BARE})"),
    Kind("make-log", "make-log", r"cat \S*make\.log\b", r"^(?:DKMS make\.log|Error! Bad return "
         r"status for module build|Building (?:initial )?module|warning: the compiler differs|"
         r"make(?:\[\d+\])?: |(?:WARNING|ERROR): modpost: |DKMS: \w+ completed|"
         r"dkms autoinstall on \S+ \w+ for |Failed to build MLNX_OFED_LINUX for |"
         r"Warning: .* BUILD_EXCLUSIVE |Module \S+ already installed on kernel )|: error: "
         # but not below a list of dkms status
         r"|\A(?![\s\S]*?^[\w.+-]+/[^,\n/]+(?:, [^,\n]+, \w+)?: (?:added|built|installed|"
         r"broken)\b)[\s\S]*?^Error! ",
         r"DKMS make\.log for |Building (?:initial )?module|make\[\d+\]: Entering|warning: the comp"
         r"iler differs|Error! Bad return |Loading new \S+ DKMS files|Setting up \S+-dkms "),
    # NVSHMEM's lines, libfabric's, and those of programs that name the call of verbs that failed.
    Kind("verbs-log", "verbs-log", "", rf"^{VERBS_LINE}"),
    Kind("dkms", "dkms-status", r"dkms status\b", r"^[\w.+-]+(?:, |/)[^,\n/]+(?:, [^,\n]+, \w+)?: "
         r"(?:added|built|installed|broken)\b",
         r"[\w.+-]+(?:, |/)[^,\n/]+(?:, [^,\n]+, \w+)?: (?:added|built|installed|broken)\b"),
    Kind("ofed-info", "ofed-info", r"ofed_info\b", r"^(?:MLNX_OFED_LINUX|OFED-internal|DOCA\w*)-"),
    Kind("lsmod", "lsmod", r"(?:lsmod|cat /proc/modules)\b", r"^Module\s+Size\s+Used by|"
         rf"^{_PROC_MODULE}|^[ \t]*[a-z]\w*\s+\d{{4,}}\s+\d+(?:\s+[\w,-]+)?$",
         rf"Module\s+Size\s+Used by|{_PROC_MODULE}|(?:nvidia|mlx[45]|ib_|rdma)\w*\s+\d{{4,}}\s+\d+"
         r"(?:\s|\Z)"),
    Kind("uname", "uname", r"uname(?: -\w*[ar]\w*)+\b|cat /proc/version\b",
         r"^(?:uname: )?Linux \S+ \d+\.\d+\.\S+ #\d+|^Linux version \d+\.\d+\S* \(|"
         r"^[3-9]\.\d+\.\d+-[\w.+-]*[a-z][\w.+-]*\s*$", None, 1),
    Kind("cmdline", "cmdline", r"cat /proc/cmdline\b", r"\A\s*(?:BOOT_IMAGE=|initrd=|(?:ro|rw) |"
         r"(?:\S+ )*root=)\S*[^\n]*\s*\Z",
         r"BOOT_IMAGE=", 1),
    Kind("kubectl-node", "kubectl-node", r"kubectl describe nodes?\b",
         r"^Name: +\S+\n(?:.*\n)*?Capacity: *$|^Capacity: *\n(?:.*\n)*?Allocatable: *$",
         r"Name: +\S+\s*\nRoles: "),
    Kind("kubectl-pod", "kubectl-pod",
         r"kubectl (?:-\S+ \S+ )?(?:describe pods?\b"
         r"|get pods? (?:.* )?(?:-o|--output)[ =]?(?:yaml|json))",
         r"^Name: +\S+ *\nNamespace: +\S+ *\n(?:.*\n){0,9}?Node: "
         r"|^kind: Pod$|^[ \t]*\"kind\": \"Pod\",?$"
         r"|^(?:.*[ \t])?Warning[ \t]+(?:FailedScheduling|UnexpectedAdmissionError|FailedMount"
         r"|FailedCreatePodSandBox|FailedAttachVolume|FailedPrepareDynamicResources)[ \t]",
         r"Name: +\S+ *\nNamespace: +\S+ *\n(?:.*\n){0,9}?Node: "),
    Kind("kubectl-pods", "kubectl-pods",
         r"(?:kubectl|oc) (?:-\S+ \S+ )*get (?:po|pods?|all)\b",
         r"^(?:NAMESPACE +)?NAME +READY +STATUS +RESTARTS +AGE\b"
         r"|^(?:[a-z0-9-]+ +)?(?:pod/)?[a-z0-9][a-z0-9.-]+ +\d+/\d+ +[A-Z]\S+ +\d+(?: \([^)\n]*\))?"
         r" +\d+[smhdy]\w*(?: |$)"),
    Kind("device-plugin-log", "device-plugin-log", "",
         r"^.*(?:error creating new device: \"|Starting K8s RDMA Shared Device Plugin"
         r"|no devices in device pool, |no Rdma Devices were found for resource "
         r"|exposing \"\d+\" devices|device plugin endpoint (?:at|started)|New resource server is "
         r"created for \S+ ResourcePool|No devices found\. Waiting indefinitely"
         r"|Registered device plugin (?:for '|with Kubelet)|device: \S+,uverbs\d+,/sys/"
         r"|No valid EFA devices found|\] No devices found\.$|AddTargetDevices\(\): device found: "
         r"|RDMA resources for \S+ not found|' device marked unhealthy: |XidCriticalError: Xid="
         r"|(?:\]|\d) Failed to initialize NVML: |If this is a GPU node, did you )"),
    Kind("container-inspect", "container-inspect",
         r"(?:docker|podman|nerdctl) (?:container )?inspect\b",
         r"\A\s*\[\s*\{[\s\S]*^[ \t]*\"HostConfig\": \{", ""),
    Kind("ibv-devices", "ibv-devices", r"ibv_devices\b", r"^[ \t]+device[ \t]+node GUID[ \t]*$"),
    Kind("rdma-dev", "rdma-dev", r"rdma(?: -\w+)* (?:dev|res\w*)\b",
         r"^\d+: \S+: (?:node_type \w+ (?:protocol|fw|node_guid) |pd \d+ cq \d+ qp \d+)"),
    Kind("limits", "limits-said",
         r"(?:\S.*[\s'\"])?ulimit -[HS]*[al]|prlimit\b|(?:cat|grep) .*(?:/proc/\S+/limits|limits\.)"
         r"|(?:grep|systemctl show) .*(?:memlock|MEMLOCK)",
         r"^(?:max locked memory +\(k|-l: (?:locked-in-memory size|locked memory) |memorylocked +\S"
         r"|locked memory\(kbytes\)|Maximum size that may be locked into memory |Max locked memory "
         r"|MEMLOCK +max locked-in-memory|(?:\S+:)?[ \t]*[^\s#]\S*[ \t]+(?:soft|hard|-)\s+memlock"
         r"\s+\S|(?:\S+:)?(?:Default)?LimitMEMLOCK(?:Soft)?=\S)"),
    Kind("mlxlink", "mlxlink", r"mlxlink\b", r"^(?:PCIe )?Operational (?:\(Enabled\) )?Info *$|"
         r"\A\s*\{(?=[\s\S]*\"(?:PCIe )?Operational (?:\(Enabled\) )?Info\")"),
    Kind("mlxconfig", "mlxconfig", r"(?:mst)?(?:mlx|mst)config\b",
         r"^Device #\d+: *$(?!\s*-+\s*Device Type: )|\A\s*\{\s*\"Device #\d+\"\s*:"),
    Kind("mlnx-qos", "mlnx-qos-said", r"mlnx_qos\b", r"^Priority trust (?:state|mode): "),
    Kind("ethtool", "ethtool", r"ethtool\b", r"^driver: \S+\nversion: |^NIC statistics: *$|"
         r"^[ \t]*Identifier\s+: 0x[0-9a-f]{2} \("),
    Kind("bios-registry", "bmc-bios-registry", "", r"\A\s*\{(?=[\s\S]*\"#AttributeRegistry\.)", ""),
    Kind("bios", "bmc-bios", "", r"\A\s*\{(?=[\s\S]*\"@odata\.)(?=[\s\S]*[Bb]ios)|^[ \t]*<BiosCfg>",
         ""),
)  # fmt: skip
BY_NAME = {kind.name: kind for kind in KINDS}
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_BEFORE = re.compile(r"^(?:sudo(?: -\w+)*|time|[A-Z_]+=\S+)\s+")
_FOLDER = re.compile(r"^\.{0,2}/(?:\S*/)?")  # of the program
_LOOKED_AT = 200_000  # characters in which a shape must show
_PARTED_AT = 8_000_000  # characters in which another kind may begin; a longer text is one log
# Where a text is of no known kind yet: all take as long as a third of the judgement's others.
_compiled = cache(re.compile)


@cache
def _opens() -> re.Pattern[str]:
    every = (
        f"(?P<k{number}>{kind.shape if kind.opens is None else kind.opens})"
        for number, kind in enumerate(KINDS)
        if kind.opens != ""
    )
    return re.compile("|".join(every), re.MULTILINE)


def named(name: str) -> Kind:
    """The kind that an operator names; the name of its frame will do as well.

    :raises UsageError: where there is none of that name.
    """
    for kind in KINDS:
        if name in (kind.name, kind.frame):
            return kind
    every = ", ".join(sorted(BY_NAME))
    raise UsageError(f"{name!r} is no kind of evidence", hint=f"the kinds are {every}")


def plain(text: str) -> str:
    """Without what terminals and web pages put into a text; the evidence keeps it."""
    text = text.replace("\u00a0", " ")
    return _ESCAPE.sub("", text) if "\x1b" in text else text


def recognise(text: str) -> Kind | None:
    """What sort of text this is, by its shape; None where it is none that we know."""
    looked_at = plain(text[:_LOOKED_AT])
    return next((e for e in KINDS if _compiled(e.shape, re.MULTILINE).search(looked_at)), None)


def parted(text: str, first: Kind | None = None) -> list[tuple[Kind | None, str]]:
    """The text from each head of a kind to the next of another; one part where none is there.

    :param first: the kind that it begins with, where that is known.
    :returns: the parts with their kind, None for one that has no head.
    """
    parts: list[tuple[Kind | None, list[str]]] = [(first, [])]
    shown, at, opens = plain(text[:_PARTED_AT]), 0, _opens()
    for line in text.split("\n"):
        found = opens.match(shown, at) if at < len(shown) else None
        end = shown.find("\n", at)
        at = end + 1 if end >= 0 else len(shown)
        opened = KINDS[int(str(found.lastgroup)[1:])] if found else None
        now, lines = parts[-1]
        if opened is not None and opened is not now:
            parts.append((opened, []))
        elif now is not None and now.lines and sum(map(bool, map(str.strip, lines))) >= now.lines:
            parts.append((None, []))
        parts[-1][1].append(line)
    return [(kind, "\n".join(lines)) for kind, lines in parts if any(map(str.strip, lines))]


def commanded(command: str) -> Kind | None:
    """What the command prints; None for one that we do not know."""
    while (shorter := _BEFORE.sub("", command)) != command:
        command = shorter
    command = _FOLDER.sub("", command)
    return next((e for e in KINDS if e.command and _compiled(e.command).match(command)), None)
