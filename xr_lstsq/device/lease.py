"""Devices: their names, and their use by the blocks of this process."""

from __future__ import annotations

import functools
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from xr_lstsq.device.scratch import Scratch
from xr_lstsq.errors import DeviceError

__all__ = ["Lease", "check_name", "lease", "resolve", "slow_in_float64"]

CPU_BATCH_BYTES = 64 * 2**20
"""Working memory of a batch on a CPU: larger falls out of the cache, smaller pays per call."""
IDLE_BYTES = 2**28
"""Working memory that a process keeps between blocks, which costs less than to ask for it anew."""
OVERLAPPED = 2
"""Batches in flight on a GPU."""
SLOW = 4.0
"""How many times longer float64 takes than float32 where it is called slow."""
FREE_SHARE = 0.5
"""Share of a GPU's free memory that a block may take when `max_bytes` is not given."""


def check_name(device: str) -> None:
    """Refuse a device name that no machine could have.

    Raises
    ------
    DeviceError
        When the name is not one of auto, cpu, cuda, cuda:N.
    """
    kind, _, index = str(device).partition(":")
    if (kind in {"auto", "cpu"} and not _) or (kind == "cuda" and (not _ or index.isdecimal())):
        return
    msg = f"device={device!r} is not known. Pass 'auto', 'cpu', 'cuda' or 'cuda:1'."
    raise DeviceError(msg)


def resolve(device: str) -> torch.device:
    """Return the torch device of a name, on this machine.

    Raises
    ------
    DeviceError
        When the name is not known, or this machine has no such device.
    """
    check_name(device)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        return torch.device("cuda" if count else "cpu")
    found = torch.device(device)
    if found.type == "cuda" and (found.index or 0) >= count:
        msg = (
            f"device={device!r} is not there: torch {torch.__version__} sees {count} CUDA devices. "
            "Pass device='cpu', or 'auto' to take what there is."
        )
        raise DeviceError(msg)
    return found


class Lease:
    """The use of one device by the blocks of this process.

    A GPU is used by one block at a time, two batches at a time: one is copied while the other is
    solved. On a CPU any number of blocks may be
    in flight, as many as the caller has threads. Each cuts its pixels into batches, each batch
    runs on one core (small tensors leave torch's own threads little to share), and all batches of
    all blocks together never take more than the cores.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.block = threading.Lock()
        self.turn = threading.Condition()
        self.active = 0
        self.busy = 0
        self.idle: list[Scratch] = []
        self.cores = _cores() if device.type == "cpu" else OVERLAPPED

    def workers(self) -> int:
        """Return how many batches of one block may run side by side."""
        return max(1, self.cores // max(1, self.active))

    def allowed_bytes(self, max_bytes: int | None) -> int:
        """Return the working memory that each batch of one block may take."""
        if self.device.type == "cpu":
            if max_bytes is None:
                return CPU_BATCH_BYTES
            side_by_side = max(1, self.active) * self.workers()
            return min(CPU_BATCH_BYTES, max_bytes // side_by_side)
        free, _ = torch.cuda.mem_get_info(self.device)
        whole = int(free * FREE_SHARE) if max_bytes is None else max_bytes
        return whole // OVERLAPPED

    @contextmanager
    def scratch(self, nbytes: int) -> Iterator[Scratch]:
        """Lend a worker memory that others have used before, or new one."""
        with self.turn:
            fitting = [one for one in self.idle if one.nbytes == nbytes]
            if fitting:
                self.idle.remove(fitting[0])
        scratch = fitting[0] if fitting else Scratch(self.device, nbytes)
        yield scratch
        # After an error it is not taken back: a traceback may still hold on to it
        if self.device.type == "cpu":
            with self.turn:
                self.idle.append(scratch)
                while sum(one.nbytes for one in self.idle) > IDLE_BYTES:
                    del self.idle[0]  # the one that has been idle for longest

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Wait until a core is free, and run a batch on it with one thread."""
        with self.turn:
            # A dask worker says that it has one core, and has as many threads as it was given.
            self.turn.wait_for(lambda: self.busy < max(self.cores, self.active))
            self.busy += 1
        before = torch.get_num_threads()  # torch counts per calling thread
        if self.device.type == "cpu":
            torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
            with self.turn:
                self.busy -= 1
                self.turn.notify_all()


_LEASES: dict[str, Lease] = {}
_LEASES_LOCK = threading.Lock()


@contextmanager
def lease(device: torch.device) -> Iterator[Lease]:
    """Hold a device for one block."""
    name = str(device) if device.index is not None else f"{device.type}:0"
    with _LEASES_LOCK:
        held = _LEASES.setdefault(name, Lease(device))
    if device.type == "cuda":
        with held.block, _full_float32():
            yield held
        return
    with held.turn:
        held.active += 1
    try:
        yield held
    finally:
        with held.turn:
            held.active -= 1
            held.turn.notify_all()


@contextmanager
def _full_float32() -> Iterator[None]:
    """Keep products of float32 from being rounded to fewer digits, as a caller may have allowed."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@functools.cache
def slow_in_float64(device: torch.device) -> bool:
    """Tell, by a measurement, whether float64 is so slow that float32 with refinement is faster."""
    if device.type == "cpu":
        return False
    spent = {}
    for dtype in (torch.float32, torch.float64):
        matrix = torch.ones(1024, 1024, dtype=dtype, device=device)
        matrix @ matrix  # the library's own start
        torch.cuda.synchronize(device)
        start = time.perf_counter()
        for _ in range(10):
            matrix @ matrix
        torch.cuda.synchronize(device)
        spent[dtype] = time.perf_counter() - start
    return spent[torch.float64] > SLOW * spent[torch.float32]


def _cores() -> int:
    """Return how many cores the blocks of this process may keep busy.

    torch's own default, which respects OMP_NUM_THREADS (a dask worker sets it to 1). A child of
    a process pool has siblings, one for each core, and so takes one.
    """
    pooled = multiprocessing.parent_process() is not None
    if pooled and "OMP_NUM_THREADS" not in os.environ:
        return 1
    return torch.get_num_threads()
