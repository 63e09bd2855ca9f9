"""What one worker of a block keeps from batch to batch: memory, a CUDA stream, pinned copies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xr_lstsq.solvers.workspace import Workspace

__all__ = ["Scratch"]

Array = NDArray[Any]

_READ = frozenset({"bool", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"})
_KEPT = frozenset({torch.bool, torch.float32, torch.float64})


class Scratch:
    """The memory of one worker, and its way to the device and back.

    On a CPU the temporaries of every batch lie in the same memory. On CUDA every worker has a
    stream of its own and copies through pinned memory, so that the copies of one worker's batch
    run while the other's is being solved.

    Parameters
    ----------
    device : torch.device
        Where batches are solved.
    nbytes : int
        Working memory of a batch.
    """

    def __init__(self, device: torch.device, nbytes: int) -> None:
        self.device = device
        self.nbytes = nbytes
        self._cuda = device.type == "cuda"
        self.workspace = Workspace(0 if self._cuda else nbytes, device)
        self._stream = torch.cuda.Stream(device) if self._cuda else None

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Start a batch: what the one before left in the workspace is written over."""
        self.workspace.clear()
        if self._stream is None:
            yield
            return
        with torch.cuda.stream(self._stream):
            yield
            self._stream.synchronize()

    def put(self, array: Array, here: slice | Array) -> Tensor:
        """Return the pixels `here` of an array on the device, as floats or as a mask.

        Parameters
        ----------
        array : array
            (..., b), or (n, 1) for what holds for all pixels.
        here : slice or array
            Pixels to take.
        """
        part = array if array.ndim == 2 and array.shape[1] == 1 else array[..., here]
        kind = part.dtype.newbyteorder("=")
        if kind.name not in _READ:
            kind = np.dtype(np.float64)  # torch knows no long double and few wide unsigned kinds
        if part.dtype != kind or not part.flags.writeable or any(s < 0 for s in part.strides):
            part = part.astype(kind)
        tensor = torch.from_numpy(part)
        if self._cuda:
            pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            tensor = pinned.copy_(tensor).to(self.device, non_blocking=True)
        return tensor if tensor.dtype in _KEPT else tensor.to(torch.float64)

    def wait(self) -> None:
        """Return when the device has done what it was given, so that its time can be told."""
        if self._stream is not None:
            self._stream.synchronize()

    def get(self, values: Tensor) -> Array:
        """Return a tensor of the device as an array, to be copied before the next batch."""
        if self._cuda:
            pinned = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            values = pinned.copy_(values, non_blocking=True)
            torch.cuda.current_stream(self.device).synchronize()
        return np.asarray(values.numpy())
