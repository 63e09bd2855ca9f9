"""Runs from file to file: open, cut into chunks, solve, write, count."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from xr_lstsq import pipeline
from xr_lstsq.arguments import shared_dims
from xr_lstsq.blocks import scheduler_name
from xr_lstsq.errors import LabelError
from xr_lstsq.formats import chunks as file_chunks
from xr_lstsq.formats import netcdf, target
from xr_lstsq.labels import choose, find_dim

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RunSummary", "sample_path", "solve_file", "write_fit"]

FORMATS = {".nc": netcdf, ".nc4": netcdf, ".cdf": netcdf}
"""Format of a file by its suffix."""


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


def sample_path() -> Path:
    """Return the path of the sample cube that the package ships.

    Returns
    -------
    Path
        netCDF: ``ndvi`` and ``valid`` with the dims time (68 dates of 2015 to 2017), y (101) and
        x (100); Sentinel-2, Slovenia. Source and licence stand beside it.

    Examples
    --------
    >>> sample_path().name
    's2_slovenia_ndvi.nc'
    """
    return Path(str(resources.files("xr_lstsq") / "data" / "s2_slovenia_ndvi.nc"))


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
    file_format = _format(output)
    _refuse_processes()
    with netcdf.open(source) as probe:
        beside = shared_dims(design, options.get("param_dim", "param"))
        var, names = _variables(probe, var, dim, beside, weights=weights, valid=valid)
        dim = find_dim(probe[var], dim, beside)
        plan = file_chunks.plan(probe[var], dim, [probe[name] for name in names.values()], chunks)
    with netcdf.open(source, chunks=plan) as opened:
        options |= {argument: opened[name] for argument, name in names.items()}
        fit = pipeline.solve(opened[var], design, dim, **options)
        fit.attrs = {**opened.attrs, **fit.attrs}
        counter = _Counter(fit["status"], progress)
        given = {"var": var, "dim": dim, "design": design, **options, **names}
        with _read_errors(source):
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
    file_format = _format(path)
    if any(variable.chunks is not None for variable in fit.variables.values()):
        _refuse_processes()
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


def _format(path: str | os.PathLike[str]) -> Any:
    """Return the module for the format that the suffix of a path names."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        msg = f"'{path}' has the suffix {suffix!r}, and a fit is written as netCDF."
        raise ValueError(msg + f" Use one of {', '.join(FORMATS)}.")
    return FORMATS[suffix]


def _refuse_processes() -> None:
    if scheduler_name() == "processes":
        msg = (
            "dask's process scheduler is in force, which would copy every chunk between processes "
            "to write it. Call dask.config.set(scheduler='threads'), or start a "
            "distributed.Client."
        )
        raise ValueError(msg)


def _variables(
    dataset: xr.Dataset,
    var: str | None,
    dim: Hashable | None,
    beside: tuple[Hashable, ...] | None,
    **named: str | None,
) -> tuple[str, dict[str, str]]:
    """Return the variable to fit and those named in arguments, all of which must be there."""
    names = {argument: name for argument, name in named.items() if name is not None}
    for argument, name in {"var": var, **names}.items():
        if name is not None and name not in dataset.variables:
            known = ", ".join(map(str, dataset.variables))
            msg = f"{argument}={name!r} is not a variable of the file, which has {known}."
            raise LabelError(msg)
    if var is None:
        chosen = choose(dataset, find_dim(dataset, dim, beside), None, names.values())
        cubes = [str(name) for name in chosen.fitted if dataset[name].ndim > 1]
        if len(cubes) != 1:
            listed = ", ".join(cubes) or "none"
            msg = f"The file has {len(cubes)} variables that can be fitted ({listed})."
            raise LabelError(msg + " Say which one: var='NAME', or --var NAME in the shell.")
        var = cubes[0]
    return var, names


@contextmanager
def _read_errors(source: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what netCDF4 raises for a damaged chunk, a RuntimeError, into an OSError with a name."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("NetCDF:"):
            raise
        msg = f"Reading '{source}' failed part-way ({error}); the file is damaged."
        raise OSError(msg + " Nothing was written.") from error


def _history(action: str, given: Mapping[str, Any]) -> str:
    """Return the program, its version and what it was asked to do, in one line."""
    words = []
    for name, value in given.items():
        if value is None or (isinstance(value, Collection) and not len(value)):
            continue
        plain = isinstance(value, (str, int, float, list, tuple)) or hasattr(value, "to_json")
        words.append(f"{name}={value!r}" if plain else f"{name}=<{type(value).__name__}>")
    return " ".join([f"xr_lstsq {metadata.version('xr_lstsq')}:", action, *words])
