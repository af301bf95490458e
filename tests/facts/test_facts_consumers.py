"""Reading what there is of NCCL, UCX and perftest: one row for each shape."""

from __future__ import annotations

import pytest

from tests.evidence.healthy_consumers import LIBS, nccl, ucx_info
from toolkit.errors import Unparsable
from toolkit.facts.nccl.consumers import (
    Library,
    Perftest,
    Setting,
    Ucx,
    Verbs,
    parse_libraries,
    parse_perftest,
    parse_settings,
    parse_ucx,
    parse_verbs,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("", (), id="none"),
        pytest.param(
            nccl("2.27.3"),
            (Library("nccl", "2.27.3", f"{LIBS}/libnccl.so.2.27.3"),),
            id="package-links-and-file",
        ),
        pytest.param(
            "/opt/nccl/build/lib/libnccl.so.2\n",
            (Library("nccl", "", "/opt/nccl/build/lib/libnccl.so.2"),),
            id="copied-without-its-version",
        ),
        pytest.param(
            "/opt/conda/lib/python3.12/site-packages/nvidia_nccl_cu12-2.26.2.post1.dist-info\n",
            (
                Library(
                    "nccl",
                    "2.26.2",
                    "/opt/conda/lib/python3.12/site-packages/"
                    "nvidia_nccl_cu12-2.26.2.post1.dist-info",
                ),
            ),
            id="wheel",
        ),
        pytest.param(
            "/usr/lib/python3.12/dist-packages/libucx_cu12-1.18.1.post2.dist-info\n",
            (
                Library(
                    "ucx",
                    "1.18.1",
                    "/usr/lib/python3.12/dist-packages/libucx_cu12-1.18.1.post2.dist-info",
                ),
            ),
            id="wheel-of-ucx",
        ),
        pytest.param(
            "/usr/lib/python3.12/dist-packages/nixl_cu13-1.0.0.dist-info\n",
            (
                Library(
                    "nixl", "1.0.0", "/usr/lib/python3.12/dist-packages/nixl_cu13-1.0.0.dist-info"
                ),
            ),
            id="wheel-of-nixl",
        ),
        pytest.param(
            "/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so\n",
            (Library("nccl-plugin", "", "/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so"),),
            id="plugin",
        ),
        pytest.param(
            "/usr/lib/libucp.so.0 -> libucp.so.0.0.0\n",
            (Library("ucx", "", "/usr/lib/libucp.so.0"),),
            id="ucx-numbers-its-interface",
        ),
        pytest.param(
            "/usr/local/cuda-12/lib64/libnccl.so.2 -> /etc/alternatives/nccl\n",
            (Library("nccl", "", "/usr/local/cuda-12/lib64/libnccl.so.2"),),
            id="alternatives",
        ),
    ],
)
def test_libraries(text: str, found: tuple[Library, ...]) -> None:
    assert parse_libraries(text) == found


@pytest.mark.parametrize(
    ("text", "ucx"),
    [
        pytest.param(ucx_info("1.18.0"), Ucx("1.18.0", True), id="since-1.13"),
        pytest.param(ucx_info("1.13.1", "--without-cuda"), Ucx("1.13.1", False), id="no-cuda"),
        pytest.param(ucx_info("1.13.1", "--with-cuda=no"), Ucx("1.13.1", False), id="cuda-no"),
        pytest.param(
            "# UCT version=1.8.0 revision 8c8e1ef\n# configured with: --prefix=/usr --with-cuda\n",
            Ucx("1.8.0", True),
            id="before-1.13",
        ),
        pytest.param("# Library version: 1.17.0\n", Ucx("1.17.0", None), id="options-not-told"),
        pytest.param("# Memory domain: cuda_copy\n", Ucx("", True), id="devices-alone"),
        pytest.param("# Memory domain: mlx5_0\n", Ucx("", False), id="devices-without-cuda"),
    ],
)
def test_ucx_info(text: str, ucx: Ucx) -> None:
    assert parse_ucx(text) == ucx


@pytest.mark.parametrize(
    ("value", "number"),
    [("1", 1), ("0", 0), ("-2", -2), ("0x10", 16), ("010", 8), ("09", 0), (" 3 # on", 3),
     ("yes", 0), ("no", 0), ("", 0)],
)  # fmt: skip
def test_a_setting_as_nccl_reads_numbers(value: str, number: int) -> None:
    assert Setting("NCCL_IB_DISABLE", value, "/etc/nccl.conf").number == number


def test_small_shapes() -> None:
    assert parse_verbs("/a b/libibverbs.so.1 yes\n") == (Verbs("/a b/libibverbs.so.1", True),)
    tool = "path /usr/bin/ib_write_bw\ncuda yes\ndmabuf unreadable\n"
    assert parse_perftest(tool) == Perftest("/usr/bin/ib_write_bw", True, None)


@pytest.mark.parametrize("text", ["libnccl.so.2\n", "/usr/lib/libother.so\n", "\n", "/\n"])
def test_a_path_of_no_such_library_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match="libraries: cannot read line 1"):
        parse_libraries(text)


def test_other_shapes_are_refused() -> None:
    for parse, text in (
        (parse_verbs, "/usr/lib/libibverbs.so.1 perhaps\n"),
        (parse_perftest, "cuda yes\ndmabuf yes\n"),
        (parse_ucx, "ucx_info: command broken\n"),
    ):
        with pytest.raises(Unparsable):
            parse(text)


def test_the_environment_counts_before_nccl_conf() -> None:
    settings = parse_settings(
        "NCCL_DEBUG=WARN\nNCCL_IB_HCA = mlx5\n",
        "environment:NCCL_DEBUG=INFO # loud\nprofile.d/a.sh:  export NCCL_NET='IB'\n",
    )
    assert settings == (
        Setting("NCCL_DEBUG", "INFO", "/etc/environment"),
        Setting("NCCL_NET", "IB", "/etc/profile.d/a.sh"),
    )
