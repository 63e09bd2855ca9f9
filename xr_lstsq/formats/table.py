"""Which module reads and writes which files, by their suffix."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

from xr_lstsq.formats import netcdf

__all__ = ["FORMATS", "by_suffix", "to_read"]

FORMATS: dict[str, ModuleType] = {
    ".nc": netcdf,
    ".nc4": netcdf,
    ".cdf": netcdf,
}
"""Module of a suffix, with ``open(path, chunks=)`` and ``write(dataset, path, ...)``."""


def by_suffix(path: str | os.PathLike[str]) -> ModuleType:
    """Return the module for the format that the suffix of a path names.

    Parameters
    ----------
    path : str or path-like
        File to write.

    Raises
    ------
    ValueError
        For a suffix that no format has.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        msg = f"'{path}' has the suffix {suffix!r}. Use one of {', '.join(FORMATS)}."
        raise ValueError(msg)
    return FORMATS[suffix]


def to_read(path: str | os.PathLike[str]) -> ModuleType:
    """Return the module that opens a file: netCDF unless the suffix names another.

    netCDF files go by many names (.h5, .hdf, none at all), and its reader says what is
    wrong with a file that is none.

    Parameters
    ----------
    path : str or path-like
        File to read.
    """
    return FORMATS.get(Path(path).suffix.lower(), netcdf)
