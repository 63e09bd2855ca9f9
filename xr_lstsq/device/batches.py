"""Cut the pixels of a block into batches that fit into a device, or into smaller ones."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from xr_lstsq.device.lease import Lease
from xr_lstsq.device.scratch import Scratch
from xr_lstsq.errors import DeviceError

__all__ = ["in_batches"]

T = TypeVar("T")


def in_batches(
    work: Callable[[slice, Scratch], T],
    b: int,
    pixel_bytes: int,
    max_bytes: int | None,
    held: Lease,
) -> list[T]:
    """Call ``work(pixels, scratch)`` until all pixels are done, side by side where there are cores.

    Parameters
    ----------
    work : callable
        Solves a slice of the pixels in the memory of its worker. It may run again for pixels for
        which memory ran out.
    b : int
        Number of pixels.
    pixel_bytes : int
        Working memory that one pixel takes.
    max_bytes : int, optional
        Working memory of all blocks in flight.
    held : Lease
        The device.

    Returns
    -------
    list
        What each call returned, in no order.

    Raises
    ------
    DeviceError
        When a single pixel does not fit.
    """
    if not b:
        return []
    allowed = held.allowed_bytes(max_bytes)
    if pixel_bytes > allowed:
        msg = (
            f"one pixel needs about {pixel_bytes:,} bytes on {held.device}, and {allowed:,} are "
            "allowed for a batch. Pass a larger max_memory."
        )
        raise DeviceError(msg)
    queue = _Queue(b, allowed // pixel_bytes)

    def drain() -> list[T]:
        results: list[T] = []
        try:
            with held.scratch(allowed) as scratch:
                while (here := queue.take()) is not None:
                    done = _fits(work, here, scratch, held)
                    if done is None:
                        queue.put_back(here)
                    else:
                        results += done
        except BaseException:
            queue.clear()  # the others stop too, after the batch that they are at
            raise
        return results

    workers = min(held.workers(), -(-b // queue.most))
    if workers == 1:
        return drain()
    with ThreadPoolExecutor(workers, thread_name_prefix="lstsq") as pool:
        futures = [pool.submit(drain) for _ in range(workers)]
        return [result for future in futures for result in future.result()]


class _Queue:
    """The pixels that are still to be solved, handed out in slices."""

    def __init__(self, b: int, most: int) -> None:
        self.most = most
        self.left = [slice(0, b)]
        self.lock = threading.Lock()

    def take(self) -> slice | None:
        """Return the next slice, or None when there is no more."""
        with self.lock:
            if not self.left:
                return None
            first = self.left.pop()
            here = slice(first.start, min(first.stop, first.start + self.most))
            if here.stop < first.stop:
                self.left.append(slice(here.stop, first.stop))
            return here

    def clear(self) -> None:
        """Hand out no more."""
        with self.lock:
            self.left.clear()

    def put_back(self, here: slice) -> None:
        """Take back a slice that was too large; from now on slices have at most half its size."""
        with self.lock:
            self.most = min(self.most, (here.stop - here.start) // 2)
            self.left.append(here)


def _fits(
    work: Callable[[slice, Scratch], T], here: slice, scratch: Scratch, held: Lease
) -> tuple[T] | None:
    """Do the work on a slice and return its result; None when memory ran out."""
    try:
        with held.batch(), scratch.batch():
            return (work(here, scratch),)
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        if here.stop - here.start == 1:
            msg = (
                f"{held.device} ran out of memory on a single pixel: {error}. "
                "Free memory on it, or pass device='cpu'."
            )
            raise DeviceError(msg) from error
    # Only here, outside the handler, does nothing hold on to the batch's tensors any more.
    gc.collect()
    if held.device.type == "cuda":
        torch.cuda.empty_cache()
    return None


def _is_out_of_memory(error: BaseException) -> bool:
    """Tell a want of memory from every other fault; torch has no class for the CPU's."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return "can't allocate memory" in str(error) or "not enough memory" in str(error)
