"""netCDF files, one or many, or a group of them, opened lazily as one cube."""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr

from xr_lstsq.formats.cf import above, inherit
from xr_lstsq.formats.target import reason

__all__ = ["files", "open"]

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A file, a pattern of files with ``*`` or ``?``, or a sequence of files."""


def files(path: Paths) -> list[Path]:
    """Return the files that are read.

    Parameters
    ----------
    path : str, path-like, or sequence of them
        A file, a pattern with ``*`` or ``?``, or several files.

    Raises
    ------
    FileNotFoundError
        For a pattern that no file fits, and no files at all.
    TypeError
        For a mapping of variables to files.
    """
    if isinstance(path, Mapping):
        msg = "netCDF files were given by variable (NAME=PATH), and each holds all variables."
        raise TypeError(msg + " Give a pattern or the files alone.")
    if not isinstance(path, str | os.PathLike):
        found = [Path(one) for one in path]
    elif Path(path).exists() or not {*"*?["} & {*str(path)}:
        found = [Path(path)]
    else:
        found = sorted(Path(one) for one in glob(os.fspath(path)))  # noqa: PTH207 (also absolute)
    if not found:
        msg = f"No file fits '{path}'. Check the pattern; it is looked for from '{Path.cwd()}'."
        raise FileNotFoundError(msg)
    return found


def open(
    path: Paths, *, chunks: Mapping[Any, int] | None = None, group: str | None = None
) -> xr.Dataset:
    """Open netCDF files lazily, with packing, fill values and times decoded.

    Parameters
    ----------
    path : str, path-like, or sequence of them
        File to open; or several, by a pattern with ``*`` or ``?`` or one by one, which are joined
        along the dim in whose coordinate they differ.
    chunks : mapping of dim to int, optional
        Sizes of the dask chunks. None gives lazy arrays without dask where there is one file.
    group : str, optional
        Group of the files, such as ``"science/grids"``; it has the coordinates of those above it.

    Returns
    -------
    xarray.Dataset
        Grid mapping and bounds are coordinates. Packed integers become floats, in float64 where
        the packing numbers are float64; times that datetime64 cannot hold become cftime.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    OSError
        When it cannot be read as netCDF: truncated, damaged, or of another format.
    ValueError
        For several files that do not join to one cube: other grids, or the same labels twice.
    """
    paths = files(path)
    if len(paths) == 1:
        return _open_one(paths[0], None if chunks is None else dict(chunks), group)
    opened = [_changed(_open_one(one, None, group), partial(_lazily, file=one)) for one in paths]
    try:
        joined = xr.combine_by_coords(
            opened,
            data_vars="minimal",
            coords="minimal",
            compat="equals",
            join="exact",
            combine_attrs="drop_conflicts",
        )
    except ValueError as error:
        msg = (
            f"The {len(paths)} files of '{path}' do not join to one cube: {error}. They need the "
            "same variables and pixels, and a coordinate, such as time, in which each is another."
        )
        raise ValueError(msg) from error
    assert isinstance(joined, xr.Dataset)  # of Datasets, which have no DataArray without a name
    _refuse_overlap(joined, opened)
    return joined if chunks is None else _changed(joined.chunk(chunks), _read)


def _open_one(file: Path, chunks: dict[Any, int] | None, group: str | None) -> xr.Dataset:
    """Open one file, or a group of it with the coordinates that it inherits."""
    if not file.exists():
        msg = f"'{file}' does not exist. Check the name; it is looked for from '{Path.cwd()}'."
        raise FileNotFoundError(msg)
    if file.is_dir():
        msg = f"'{file}' is a directory, and a netCDF file is needed."
        raise IsADirectoryError(msg)
    with _read_errors(file, group):
        opened = [_open_group(file, chunks, one) for one in (group, *above(group))]
        return inherit(opened[0], opened[1:])


def _refuse_overlap(joined: xr.Dataset, parts: list[xr.Dataset]) -> None:
    """Raise a ValueError for labels that are in two files, whose samples would count twice."""
    for dim, index in joined.indexes.items():
        within = sum(int(one.indexes[dim].duplicated().sum()) for one in parts)
        twice = index[index.duplicated()]
        if len(twice) > within:
            msg = (
                f"The {len(parts)} files overlap along {dim!r}: {len(twice) - within} labels are "
                f"in more than one, such as {twice[0]}."
            )
            raise ValueError(msg + " Leave out files, or cut them so that each label is in one.")


@dataclass(frozen=True, eq=False)
class _Named:
    """A variable of one file of many: a piece of it is read when it becomes an array of numpy.

    Slices stay lazy, for dask does not read a piece only where arrays are joined before they are
    cut. Errors name the file.
    """

    variable: xr.Variable
    file: Path

    @property
    def shape(self) -> tuple[int, ...]:
        return self.variable.shape

    @property
    def ndim(self) -> int:
        return self.variable.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self.variable.dtype
        return found

    def __getitem__(self, key: Any) -> _Named:
        return _Named(self.variable[key], self.file)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        try:
            return np.asarray(self.variable.to_numpy(), dtype=dtype)
        except (OSError, RuntimeError) as error:
            msg = f"'{self.file}': {reason(error)}"
            raise OSError(msg) from error


def _lazily(variable: xr.Variable, file: Path) -> Any:
    """Return the values of a variable of a file as a dask array of one chunk, which is not read."""
    return da.from_array(
        _Named(variable, file),
        chunks=-1,
        name=f"open-{uuid.uuid4().hex}",
        asarray=False,
        fancy=False,
        meta=np.empty((0,) * variable.ndim, variable.dtype),
        inline_array=True,
    )


def _read(variable: xr.Variable) -> Any:
    """Return the values of a variable as a dask array whose chunks are read."""
    return da.map_blocks(np.asarray, variable.data, dtype=variable.dtype, meta=variable.data._meta)


def _changed(dataset: xr.Dataset, values: Callable[[xr.Variable], Any]) -> xr.Dataset:
    """Return a Dataset with other values in all variables with dims that are no index."""
    changed = {
        name: variable.copy(data=values(variable))
        for name, variable in dataset.variables.items()
        if variable.ndim and name not in dataset.xindexes
    }
    coords = {name: one for name, one in changed.items() if name in dataset.coords}
    data = {name: one for name, one in changed.items() if name not in coords}
    return dataset.assign(data).assign_coords(coords)


def _open_group(file: Path, chunks: dict[Any, int] | None, group: str | None) -> xr.Dataset:
    with warnings.catch_warnings():
        # cftime is what the rest of the package reads where datetime64[ns] ends.
        warnings.filterwarnings("ignore", "Unable to decode time axis", xr.SerializationWarning)
        # Whoever gives chunks has weighed memory against storage; see chunks.py.
        warnings.filterwarnings("ignore", "The specified chunks separate", UserWarning)
        return xr.open_dataset(
            file, engine="netcdf4", group=group, chunks=chunks, decode_coords="coordinates"
        )


@contextmanager
def _read_errors(file: Path, group: str | None) -> Iterator[None]:
    """Turn what netCDF4 raises for a file that it cannot read into an error that says so."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        if group is not None and "group" in str(error):
            msg = f"'{file}' has no group {group!r} ({reason(error)}). See `ncdump -h {file}`."
        else:
            msg = (
                f"'{file}' is not a readable netCDF file ({reason(error)}). It may be truncated or "
                f"of another format; `ncdump -h {file}` shows whether other programs can read it."
            )
        raise OSError(msg) from error
