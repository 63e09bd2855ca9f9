"""Cubes in files: which variable is fitted, and in which chunks it is read."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import xarray as xr

from xr_lstsq.arguments import shared_dims
from xr_lstsq.blocks import scheduler_name
from xr_lstsq.errors import LabelError
from xr_lstsq.formats import chunks as file_chunks
from xr_lstsq.formats.table import to_read
from xr_lstsq.labels import choose, find_dim

__all__ = ["Source", "open_cube", "read_errors", "refuse_processes", "sample_path"]


@dataclass(frozen=True, eq=False)
class Source:
    """A cube in an open file.

    Attributes
    ----------
    dataset : Dataset
        The file, in chunks.
    var : str
        Variable to fit.
    dim : hashable
        Sample dim.
    names : dict of str to str
        Which variables are ``weights`` and ``valid``, as far as they are given.
    """

    dataset: xr.Dataset
    var: str
    dim: Hashable
    names: dict[str, str]

    @property
    def cube(self) -> xr.DataArray:
        """The variable to fit."""
        return self.dataset[self.var]

    def samples(self) -> dict[str, Any]:
        """Return the variables that are ``weights`` and ``valid``."""
        return {argument: self.dataset[name] for argument, name in self.names.items()}


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


@contextmanager
def open_cube(
    path: str | os.PathLike[str],
    design: Any,
    *,
    var: str | None,
    dim: Hashable | None,
    weights: str | None,
    valid: str | None,
    chunks: Mapping[str, int] | None,
    param_dim: str,
) -> Iterator[Source]:
    """Open the cube of a file, with all samples of a pixel in one chunk.

    Parameters
    ----------
    path : str or path-like
        The file.
    design : str, Term, DataArray or array
        As in `xr_lstsq.solve`; a labelled one may say which dim is that of the samples.
    var, dim, weights, valid, chunks : optional
        As in `solve_file`.
    param_dim : str
        Name of the param dim.

    Raises
    ------
    LabelError, ChunkError
        For names that the file does not have, and chunks that do not fit.
    FileNotFoundError, OSError
        A file that cannot be read.
    """
    with to_read(path).open(path) as probe:
        beside = shared_dims(design, param_dim)
        var, names = _variables(probe, var, dim, beside, weights=weights, valid=valid)
        dim = find_dim(probe[var], dim, beside)
        plan = file_chunks.plan(probe[var], dim, [probe[name] for name in names.values()], chunks)
    with to_read(path).open(path, chunks=plan) as opened:
        yield Source(opened, var, dim, names)


def refuse_processes() -> None:
    """Refuse the scheduler under which files are neither read nor written in bounded memory."""
    if scheduler_name() == "processes":
        msg = (
            "dask's process scheduler is in force, which would copy every chunk between processes "
            "to write it. Call dask.config.set(scheduler='threads'), or start a "
            "distributed.Client."
        )
        raise ValueError(msg)


@contextmanager
def read_errors(source: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what netCDF4 raises for a damaged chunk, a RuntimeError, into an OSError with a name."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("NetCDF:"):
            raise
        msg = f"Reading '{source}' failed part-way ({error}); the file is damaged."
        raise OSError(msg + " Nothing was written.") from error


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
