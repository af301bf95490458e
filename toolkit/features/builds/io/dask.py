"""A Dask cluster as the executor of builds. Only this file knows of Dask."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct

from toolkit import __version__
from toolkit.errors import TransportError, UsageError
from toolkit.features.builds.io.executor import Crew, WorkerLost

P = ParamSpec("P")
R = TypeVar("R")

_PATIENCE_S = 10
_OTHERS_TLS = (
    "is it started with TLS, and by the authority that distributed.comm.tls.ca-file names?"
)


def version_here() -> str:
    """Runs on every worker: which toolkit does it have?"""
    return __version__


@contextlib.contextmanager
def open_dask(address: str, jobs: int, *, encrypted: bool = False) -> Iterator[Crew]:
    """The executor of a running scheduler. Workers that die are replaced by its own rules.

    :param address: HOST:PORT.
    :param jobs: at once; 0 for one a worker.
    :param encrypted: by TLS, with the certificates that Dask's own settings name
        (distributed.comm.tls); nobody without one of the same authority is listened to.
    :raises UsageError: the package is not installed, or there are no such certificates.
    :raises TransportError: nobody answers, there are no workers, or theirs is another toolkit.
    """
    try:
        distributed = importlib.import_module("distributed")
    except ImportError as why:
        raise UsageError(
            "--executor on Dask needs the package distributed, and it is not installed",
            hint="pip install distributed",
        ) from why
    for name in ("distributed", *logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":  # they would talk over our lines
            logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module="distributed")
    url = f"{'tls' if encrypted else 'tcp'}://{address}"
    by = _certificates(distributed.Security) if encrypted else _Plain()
    try:
        asyncio.run(_greet(distributed.rpc, url, by.arguments))
        client = distributed.Client(
            url, timeout=_PATIENCE_S, set_as_default=False, security=by.security
        )
    except Exception as why:  # of any kind, a MemoryError among them, where sshd answers
        raise TransportError(
            f"no Dask scheduler answers at {address}",
            hint=_OTHERS_TLS
            if encrypted
            else "start one: dask scheduler; and workers: dask worker tcp://HOST:8786",
        ) from why
    with client:
        versions = client.run(version_here, on_error="return")
        _refuse_strangers(versions, address)
        yield Crew(DaskCluster(client, distributed.KilledWorker), jobs or len(versions))


class _Plain(Struct, frozen=True):
    """How a scheduler is spoken to. Any: Dask ships no types for it."""

    security: Any = None
    arguments: Any = None


def _certificates(security: Any) -> _Plain:  # noqa: ANN401 a class of Dask's
    """What Dask's settings say of TLS."""
    made = security(require_encryption=True)
    where = "Dask's settings distributed.comm.tls: ca-file, client.cert and client.key"
    if not (made.tls_ca_file and made.tls_client_cert):
        raise UsageError(
            "--executor tls://... needs the certificates of the cluster, and no setting names them",
            hint=f"name them in {where}",
        )
    try:
        return _Plain(made, made.get_connection_args("client"))
    except (OSError, ValueError) as why:  # SSLError is an OSError
        raise UsageError(
            f"the certificates of the Dask cluster cannot be used: {why}", hint=f"see {where}"
        ) from why


async def _greet(rpc: Any, url: str, arguments: Any) -> None:  # noqa: ANN401 of Dask's
    """Make sure that a scheduler answers, before there is a client.

    A client waits without limit for one that accepts and says nothing. And one that failed is
    closed when the garbage collector finds it: within the start of another, it would wait for a
    lock that its own thread holds.

    :raises Exception: it does not, in time; or what answers is something else.
    """
    async with asyncio.timeout(_PATIENCE_S):
        scheduler = rpc(url, connection_args=arguments)
        try:
            await scheduler.identity()
        finally:
            await scheduler.close_rpc()


class DaskCluster(Executor):
    """The workers of one scheduler.

    :param client: Any: Dask ships no types for it.
    :param killed: what Dask raises for a job that took one worker after the other with it.
    """

    def __init__(self, client: Any, killed: type[Exception]) -> None:  # noqa: ANN401 see above
        self._client, self._killed = client, killed

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        ours: Future[R] = Future()
        ours.set_running_or_notify_cancel()
        try:
            theirs = self._client.submit(partial(fn, *args, **kwargs), pure=False)
        except Exception as why:  # of many kinds, once the scheduler is gone
            ours.set_exception(_out_of_reach(why))
        else:
            theirs.add_done_callback(partial(self._ended, ours))
        return ours

    def _ended(self, ours: Future[R], theirs: Any) -> None:  # noqa: ANN401 a future of Dask's
        try:
            ours.set_result(theirs.result())
        except self._killed as why:
            ours.set_exception(
                WorkerLost(
                    f"it took one Dask worker after the other with it: {why}",
                    hint="look for 'Out of memory' in dmesg of the workers",
                )
            )
        except CancelledError as why:  # we cancel nothing: the connection was lost
            ours.set_exception(_out_of_reach(why))
        except BaseException as why:
            ours.set_exception(why)


def _out_of_reach(why: Exception) -> TransportError:
    lost = TransportError(
        "the connection to the Dask scheduler was lost",
        hint="start it again, and then this run: what was built is in the cache",
    )
    lost.__cause__ = why
    return lost


def _refuse_strangers(versions: dict[str, object], address: str) -> None:
    """Jobs are sent by name: a worker with another toolkit would build something else."""
    if not versions:
        raise TransportError(
            f"the Dask scheduler at {address} has no workers",
            hint=f"start some: dask worker tcp://{address}",
        )
    for worker, version in sorted(versions.items()):
        if version != __version__:
            said = f"gdr-toolkit {version}" if isinstance(version, str) else f"none: {version}"
            raise TransportError(
                f"the Dask worker {worker} has {said}; here it is {__version__}",
                hint=f"install there the wheel that is installed here, gdr_toolkit-{__version__}",
            )
