"""Where the chunks of a run are solved: threads of this process, or workers of a cluster."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import dask
from dask.system import CPU_COUNT

from xr_lstsq import clock
from xr_lstsq.blocks import ONCE, held, scheduler_name

if TYPE_CHECKING:
    import distributed
    import xarray as xr

__all__ = ["Stages", "cluster_errors", "connected", "in_flight", "shared", "worker_memory"]

WAIT_SECONDS = 60
"""How long to wait for a scheduler, and for its first worker."""
USED = 0.6
"""Share of its memory up to which a worker of dask neither spills nor pauses."""


@contextmanager
def connected(address: str | None, wait: float = WAIT_SECONDS) -> Iterator[None]:
    """Run all that is inside on the cluster of a scheduler.

    Parameters
    ----------
    address : str, optional
        Such as ``"tcp://10.0.0.1:8786"``. None changes nothing.
    wait : float
        Seconds to wait for the scheduler and for its first worker.

    Raises
    ------
    ImportError
        Without the package distributed.
    OSError
        When there is no scheduler, or it has no worker.
    """
    if address is None:
        yield
        return
    if find_spec("distributed") is None:
        msg = 'A scheduler needs the package distributed. Type: pip install "xr_lstsq[distributed]"'
        raise ImportError(msg)
    import distributed

    try:
        # One that is made the default stays so when it fails to connect
        client = distributed.Client(  # type: ignore[no-untyped-call]
            address, timeout=wait, set_as_default=False
        )
    except (OSError, ValueError, TypeError) as error:
        msg = (
            f"No scheduler answers at {address!r} ({type(error).__name__}: {error}). Start one "
            "by `dask scheduler`, and give the address that it prints, such as tcp://10.0.0.1:8786."
        )
        raise ConnectionError(msg) from error
    with client, client.as_current(), dask.config.set(scheduler="dask.distributed"):
        try:
            client.wait_for_workers(1, timeout=wait)
        except TimeoutError as error:
            msg = (
                f"The scheduler at {address!r} has no worker after {wait:g} s. Start some with "
                f"`dask worker {address}`."
            )
            raise ConnectionError(msg) from error
        yield


@contextmanager
def cluster_errors() -> Iterator[None]:
    """Turn what a cluster raises when it fails, instead of a task, into errors that say so."""
    if scheduler_name() != "distributed":
        yield
        return
    import distributed
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker

    try:
        yield
    except KilledWorker as error:
        msg = (
            f"A chunk was lost with its worker again and again, last on {error.last_worker.address}"
            ". As a rule these ran out of memory: give workers more memory or fewer threads, or "
            "take smaller chunks."
        )
        raise _with_notes(RuntimeError(msg), error) from error
    except (distributed.CancelledError, CommClosedError) as error:
        msg = f"The connection to the scheduler was lost ({type(error).__name__}: {error})."
        raise _with_notes(ConnectionError(msg), error) from error


def _with_notes(error: Exception, cause: BaseException) -> Exception:
    """Return an error with the notes of its cause, which say what is left of the work."""
    for note in getattr(cause, "__notes__", ()):
        error.add_note(note)
    return error


def shared(fit: xr.Dataset) -> xr.Dataset:
    """Return a lazy fit in which what all chunks share is computed, and is on every worker.

    A scheduler gives tasks to those workers that have what these need, and so all of them to the
    one that has made it.
    """
    fit = held(fit)
    graph = fit.__dask_graph__()
    if graph is not None and scheduler_name() == "distributed":
        from distributed import futures_of

        done = [dict(one) for name, one in graph.layers.items() if name.startswith(ONCE)]
        _client().replicate(futures_of(done))  # type: ignore[no-untyped-call]
    return fit


def in_flight() -> int:
    """Return how many chunks are solved at the same time."""
    name = scheduler_name()
    if name == "distributed":
        return max(1, sum(int(worker["nthreads"]) for worker in _workers()))
    if name == "sync":
        return 1
    return int(dask.config.get("num_workers", None) or CPU_COUNT)


def worker_memory() -> tuple[int, int] | None:
    """Return memory and threads of the worker with the least memory a thread.

    None where there is no cluster, or its workers have no limit.
    """
    if scheduler_name() != "distributed":
        return None
    limited = [
        (int(worker["memory_limit"] * USED), worker["nthreads"])
        for worker in _workers()
        if worker["memory_limit"]
    ]
    return min(limited, key=lambda one: one[0] / one[1]) if limited else None


class Stages:
    """Seconds of each stage since this was made, in this process and in all workers."""

    def __init__(self) -> None:
        self.before = _totals()

    def __call__(self) -> dict[str, float]:
        """Return them; those of workers that are gone are not known."""
        spent: dict[str, float] = {}
        for process, seconds in _totals().items():
            before = self.before.get(process, {})
            for stage, value in seconds.items():
                spent[stage] = spent.get(stage, 0.0) + value - before.get(stage, 0.0)
        return {stage: spent[stage] for stage in clock.STAGES if spent.get(stage, 0) > 0}


def _totals() -> dict[str, dict[str, float]]:
    """Return the seconds of each stage in each process."""
    here = {"here": clock.totals()}
    if scheduler_name() != "distributed":
        return here
    # Workers that live in this process have its clock
    workers = _client().run(_told, on_error="ignore")
    own = _process()
    return here | {name: told[1] for name, told in workers.items() if told and told[0] != own}


def _told() -> tuple[str, dict[str, float]]:
    return _process(), clock.totals()


def _process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _client() -> distributed.Client:
    import distributed

    return distributed.get_client()


def _workers() -> list[dict[str, Any]]:
    # -1: of all workers, not of the first few
    return list(_client().scheduler_info(n_workers=-1)["workers"].values())
