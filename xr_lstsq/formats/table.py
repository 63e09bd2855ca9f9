"""Which module reads and writes which files, by their suffix."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from xr_lstsq.formats import geotiff, netcdf, zarr

__all__ = ["FORMATS", "Format", "by_name", "by_suffix", "to_read"]


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes
    ----------
    name : str
        As users know it.
    module : module
        With ``open(path, chunks=)``, ``files(path)``, ``check_target(path, sources)`` and
        ``write(dataset, path, ...)``.
    suffixes : tuple of str
        By which its files are known.
    reads : tuple of str
        Further arguments of ``open``.
    writes : tuple of str
        Further arguments of ``write``.
    """

    name: str
    module: ModuleType
    suffixes: tuple[str, ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


FORMATS = (
    Format("netCDF", netcdf, (".nc", ".nc4", ".cdf"), ("group",), ("complevel",)),
    Format("GeoTIFF", geotiff, (".tif", ".tiff", ".vrt", ".csv"), ("band",), ("cog",)),
    Format("Zarr", zarr, (".zarr",), ("group",), ("resume", "fingerprint", "shown")),
)


def by_name(name: str) -> Format:
    """Return a format by its name."""
    return next(one for one in FORMATS if one.name == name)


def by_suffix(path: str | os.PathLike[str]) -> Format:
    """Return the format that the suffix of a path names.

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
    found = _of(suffix)
    if found is None:
        known = ", ".join(own for one in FORMATS for own in one.suffixes)
        msg = f"'{path}' has the suffix {suffix!r}, which names no format. Use one of {known}."
        raise ValueError(msg)
    return found


def to_read(path: str | os.PathLike[str]) -> Format:
    """Return the format in which a file is: netCDF unless it is a folder or its suffix says else.

    netCDF files go by many names (.h5, .hdf, none at all), and its reader says what is
    wrong with a file that is none.

    Parameters
    ----------
    path : str or path-like
        File or folder to read.
    """
    if Path(path).is_dir():
        return by_name("Zarr")
    return _of(Path(path).suffix.lower()) or by_name("netCDF")


def _of(suffix: str) -> Format | None:
    return next((one for one in FORMATS if suffix in one.suffixes), None)
