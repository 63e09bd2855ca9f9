"""A fit of a cube in a file before it is computed, cut so that it stays inside its memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dask
import xarray as xr

from xr_lstsq import pipeline
from xr_lstsq.blocks import parse_size
from xr_lstsq.formats import windows
from xr_lstsq.runs import reading
from xr_lstsq.runs.budget import BASE, COPIES, MINIMUM, Budget, resident_bytes, share_out
from xr_lstsq.runs.cluster import in_flight, worker_memory
from xr_lstsq.runs.inputs import Inputs
from xr_lstsq.runs.source import Room, Source, open_cube, warn_of_storage

__all__ = ["Job", "lazy_fit"]


@dataclass(frozen=True, eq=False)
class Job:
    """A lazy fit of a cube in an open file.

    Attributes
    ----------
    source : Source
        The cube.
    fit : Dataset
        Its fit, of which nothing is computed.
    threads : int
        Chunks in flight.
    budget : Budget or None
        The memory that it was cut for.
    """

    source: Source
    fit: xr.Dataset
    threads: int
    budget: Budget | None

    def given(self, design: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the fit by name, those that were found with them."""
        found = {"var": self.source.var, "dim": self.source.dim, "design": design}
        return found | options | self.source.names

    def facts(self) -> dict[str, Any]:
        """Return what the run is cut into, as plain data."""
        sizes = self.source.cube.chunksizes.items()
        return {
            "chunks": {str(dim): max(n) for dim, n in sizes if dim != self.source.dim},
            "threads": self.threads,
            "budget": None if self.budget is None else dict(vars(self.budget)),
        }

    @contextmanager
    def limits(self) -> Iterator[None]:
        """Hold all computing and writing inside to the budget."""
        local = worker_memory() is None
        nbytes = self.budget.window if self.budget is not None and local else None
        # Without a budget, what the caller has set is left as it is
        pool = {} if self.budget is None else {"num_workers": self.threads}
        with windows.at_most(nbytes=nbytes, threads=self.threads), dask.config.set(pool):
            yield


@contextmanager
def lazy_fit(
    inputs: Inputs,
    design: Any,
    names: dict[str, Any],
    options: dict[str, Any],
    *,
    max_memory: int | str | None,
    skip: bool,
) -> Iterator[Job]:
    """Open a cube, in chunks for which there is memory, and fit it lazily.

    Parameters
    ----------
    inputs : Inputs
        The files.
    design, max_memory
        As in `solve_file`.
    names : dict of str to object
        ``var``, ``dim``, ``weights``, ``valid`` and ``chunks``.
    options : dict of str to object
        Further arguments of `xr_lstsq.solve`.
    skip : bool
        Whether pixels that cannot be read are blanked.

    Raises
    ------
    LabelError, ChunkError, DtypeError, DeviceError, ValueError
        An argument that does not fit.
    FileNotFoundError, OSError
        A file that cannot be read.
    """
    names = {**names, "param_dim": options.get("param_dim", "param")}
    budget, threads = _budget(max_memory)
    at_once = in_flight()
    if budget is None:
        with open_cube(inputs, design, **names, skip=skip) as found:
            warn_of_storage(found, inputs)
            yield Job(found, _fit(found, design, options), at_once, None)
        return
    with open_cube(inputs, design, **names) as found:
        # A look at the fit, of which nothing is computed, to know how large results are
        fit = _fit(found, design, options)
        # They are there twice, computed and joined to be written
        beside = -(-2 * fit.nbytes // (COPIES * max(1, fit["status"].size)))
    # Only threads of this process can be made fewer
    local = worker_memory() is None
    fewest = 1 if local else threads
    room = Room(budget.chunk_bytes(threads), budget.chunk_bytes(fewest), beside)
    if _on_cpu(options.get("device", "auto")):
        options = {**options, "max_memory": budget.solver}
    with open_cube(inputs, design, **names, room=room, skip=skip) as found:
        warn_of_storage(found, inputs)
        fit = _fit(found, design, options)
        if local:
            at_once = budget.threads(found.chunk_bytes + beside * found.chunk_pixels, threads)
        yield Job(found, fit, at_once, budget)


def _fit(found: Source, design: Any, options: dict[str, Any]) -> xr.Dataset:
    fit = pipeline.solve(found.cube, design, found.dim, **options, **found.samples())
    fit.attrs = {**found.dataset.attrs, **fit.attrs}
    return reading.blank(fit, found.readable) if found.readable else fit


def _budget(max_memory: int | str | None) -> tuple[Budget | None, int]:
    """Return the memory of a process that solves, if it is limited, and its threads."""
    asked = None if max_memory is None else parse_size(max_memory)
    worker = worker_memory()
    if worker is None:
        if asked is None:
            return None, in_flight()
        import xr_lstsq.device  # noqa: F401 (loads torch, which is most of what is resident)

        threads = in_flight()
        return share_out(asked, resident_bytes(), threads), threads
    allowed, threads = worker
    if asked is None and allowed < MINIMUM:
        return None, threads
    return share_out(min(allowed, asked or allowed), BASE, threads), threads


def _on_cpu(device: str) -> bool:
    """Tell whether a fit runs on the CPU of this machine, whose memory is that of the process."""
    from xr_lstsq.device import resolve

    return resolve(device).type == "cpu"
