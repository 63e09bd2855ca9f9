"""Fits into files: open, cut into chunks, solve, write, count."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr

from xr_lstsq import pipeline
from xr_lstsq.formats import target
from xr_lstsq.formats.table import by_suffix
from xr_lstsq.runs.source import open_cube, read_errors, refuse_processes

__all__ = ["RunSummary", "solve_file", "write_fit"]


@dataclass(frozen=True)
class RunSummary:
    """What a run has done.

    Attributes
    ----------
    output : Path
        The file written.
    pixels : int
        Number of pixels.
    statuses : dict of str to int
        Number of pixels of each status; statuses that no pixel has are in it with 0.
    seconds : float
        Wall-clock time.
    """

    output: Path
    pixels: int
    statuses: dict[str, int]
    seconds: float


def solve_file(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    design: Any,
    *,
    var: str | None = None,
    dim: Hashable | None = None,
    weights: str | None = None,
    valid: str | None = None,
    store: Literal["float32", "float64"] | None = None,
    chunks: Mapping[str, int] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> RunSummary:
    """Fit a cube in a file and write the fit to a file, in bounded memory.

    Parameters
    ----------
    source : str or path-like
        File of the cube.
    output : str or path-like
        File of the fit. It appears when the fit is complete, and replaces one of that name.
    design : str, Term, DataArray or array
        As in `xr_lstsq.solve`.
    var : str, optional
        Variable to fit. None takes the only one that can be fitted.
    dim : hashable, optional
        Sample dim. None as in `xr_lstsq.solve`.
    weights, valid : str, optional
        Names of variables of the file, as in `xr_lstsq.solve`.
    store : {"float32", "float64"}, optional
        Type of the floats in the file; the fit itself is computed in ``dtype``.
    chunks : mapping of str to int, optional
        Pixels of a chunk along each pixel dim. None follows the storage of the file.
    progress : callable, optional
        Called with the numbers of pixels done and in all, first with 0 done.
    **options
        Further arguments of `xr_lstsq.solve`, such as ``stats`` or ``nodata``.

    Returns
    -------
    RunSummary
        Counts by status and the time taken.

    Raises
    ------
    LabelError, ChunkError, DtypeError, ValueError
        An argument that does not fit, before any work.
    FileNotFoundError, OSError
        A file that cannot be read.
    WriteError
        A file that cannot be written; nothing of it is left.

    Notes
    -----
    A chunk holds all samples of its pixels, about 64 MiB of cube, in whole storage chunks of the
    file where these allow it. A file that stores whole maps is read once for every chunk.
    """
    started = time.perf_counter()
    target.refuse_sources(target.resolve(output), [source])
    file_format = by_suffix(output)
    refuse_processes()
    with open_cube(
        source,
        design,
        var=var,
        dim=dim,
        weights=weights,
        valid=valid,
        chunks=chunks,
        param_dim=options.get("param_dim", "param"),
    ) as found:
        fit = pipeline.solve(found.cube, design, found.dim, **options, **found.samples())
        fit.attrs = {**found.dataset.attrs, **fit.attrs}
        counter = _Counter(fit["status"], progress)
        given = {"var": found.var, "dim": found.dim, "design": design, **options, **found.names}
        with read_errors(source):
            file_format.write(
                fit,
                output,
                source=source,
                store=store,
                history=_history(f"solve '{source}'", given),
                on_block=counter.add,
            )
    seconds = time.perf_counter() - started
    return RunSummary(Path(output), counter.total, counter.by_status(), seconds)


def write_fit(
    fit: xr.Dataset,
    path: str | os.PathLike[str],
    *,
    store: Literal["float32", "float64"] | None = None,
) -> None:
    """Write a fit, eager or lazy, to a file; a lazy one in bounded memory.

    Parameters
    ----------
    fit : xarray.Dataset
        The fit.
    path : str or path-like
        File to write. It appears when it is complete, and replaces one of that name.
    store : {"float32", "float64"}, optional
        Type of the floats in the file; None keeps theirs.

    Raises
    ------
    WriteError
        A file that cannot be written; nothing of it is left.
    ValueError
        A path that is read by the fit or has another suffix than .nc, a fit that netCDF cannot
        hold, or dask's process scheduler.
    """
    file_format = by_suffix(path)
    if any(variable.chunks is not None for variable in fit.variables.values()):
        refuse_processes()
    file_format.write(fit, path, store=store, history=_history("to_netcdf", {}))


class _Counter:
    """Counts the pixels of the blocks that are written."""

    def __init__(self, status: xr.DataArray, progress: Callable[[int, int], None] | None) -> None:
        self.name = status.name
        self.total = status.size
        self.meanings = str(status.attrs["flag_meanings"]).split()
        self.values = np.atleast_1d(status.attrs["flag_values"])
        self.counts = np.zeros(len(self.values), dtype=np.int64)
        self.progress = progress
        self.add(xr.Dataset())

    def add(self, block: xr.Dataset) -> None:
        if self.name in block:
            found = block[self.name].to_numpy().ravel()
            self.counts += np.array([np.count_nonzero(found == value) for value in self.values])
        if self.progress is not None:
            self.progress(int(self.counts.sum()), self.total)

    def by_status(self) -> dict[str, int]:
        return dict(zip(self.meanings, self.counts.tolist(), strict=True))


def _history(action: str, given: Mapping[str, Any]) -> str:
    """Return the program, its version and what it was asked to do, in one line."""
    words = []
    for name, value in given.items():
        if value is None or (isinstance(value, Collection) and not len(value)):
            continue
        plain = isinstance(value, (str, int, float, list, tuple)) or hasattr(value, "to_json")
        words.append(f"{name}={value!r}" if plain else f"{name}=<{type(value).__name__}>")
    return " ".join([f"xr_lstsq {metadata.version('xr_lstsq')}:", action, *words])
