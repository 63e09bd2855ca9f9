"""Memory for the temporaries of a batch, which the next batch writes over.

Fresh memory is dear: the system hands it out zeroed, page by page, and on a CPU that costs several
times what filling it with numbers does. Threads pay most, since pages are handed out one at a time.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["Workspace"]

ALIGNED = 64
"""Bytes at a multiple of which every tensor starts: a cache line."""


class Workspace:
    """One piece of memory, from which tensors are cut until it is cleared.

    Parameters
    ----------
    nbytes : int
        Size. What no longer fits is allocated in the ordinary way; 0 allocates everything so, as
        is right on devices whose allocator keeps what it was given back.
    device : torch.device, optional
        Where it lies; the CPU when not given.
    """

    def __init__(self, nbytes: int = 0, device: torch.device | None = None) -> None:
        self.device = torch.device("cpu") if device is None else device
        self._bytes = torch.empty(nbytes, dtype=torch.uint8, device=self.device)
        self._used = 0

    def empty(self, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return a tensor with any content; it may be used until `clear`."""
        size = math.prod(shape) * dtype.itemsize
        start, end = self._used, self._used + size
        if end > self._bytes.numel():
            return torch.empty(shape, dtype=dtype, device=self.device)
        self._used = -(-end // ALIGNED) * ALIGNED
        return self._bytes[start:end].view(dtype).view(shape)

    def clear(self) -> None:
        """Let everything that was cut from it be written over."""
        self._used = 0
