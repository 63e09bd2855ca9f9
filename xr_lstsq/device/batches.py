"""Cut the pixels of a block into batches that fit into a device, or into smaller ones."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

import torch

from xr_lstsq.device.lease import Lease
from xr_lstsq.errors import DeviceError

__all__ = ["in_batches"]

T = TypeVar("T")


def in_batches(
    work: Callable[[slice, int], T],
    b: int,
    pixel_bytes: int,
    max_bytes: int | None,
    held: Lease,
) -> list[T]:
    """Call ``work(pixels, bytes)`` on slices of the pixels until all are done.

    Parameters
    ----------
    work : callable
        Solves a slice of the pixels within so many bytes. It may run again for pixels for which
        memory ran out.
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
        What each call returned.

    Raises
    ------
    DeviceError
        When a single pixel does not fit.
    """
    results: list[T] = []
    most, start = b, 0
    while start < b:
        allowed = held.allowed_bytes(max_bytes)
        if pixel_bytes > allowed:
            msg = (
                f"one pixel needs about {pixel_bytes:,} bytes on {held.device}, and {allowed:,} "
                "are allowed for a batch. Pass a larger max_memory."
            )
            raise DeviceError(msg)
        size = min(most, allowed // pixel_bytes, b - start)
        done = _try(work, slice(start, start + size), allowed, held)
        if done is None:
            most = size // 2
        else:
            results += done
            start += size
    return results


def _try(
    work: Callable[[slice, int], T], here: slice, allowed: int, held: Lease
) -> tuple[T] | None:
    """Do the work on a slice and return its result; None when memory ran out."""
    try:
        with held.batch():
            return (work(here, allowed),)
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
