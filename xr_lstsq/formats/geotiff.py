"""GeoTIFF files and stacks of them: open a cube lazily, write a Dataset as files of bands."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr

from xr_lstsq.errors import LabelError, warn
from xr_lstsq.formats import chunks as file_chunks
from xr_lstsq.formats import grid as grids
from xr_lstsq.formats import listing as listings
from xr_lstsq.formats.bands import Band, Header, probe, require_rasterio
from xr_lstsq.formats.listing import DATA, Listing
from xr_lstsq.formats.rasters import check_target, targets, write
from xr_lstsq.formats.stacks import variable

__all__ = ["check_target", "files", "open", "open_stack", "targets", "write"]

Given = (
    str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, str | os.PathLike[str]]
)
Which = int | str | Mapping[str, int | str] | None

SHOWN = 5
"""Missing files that a warning names."""


def open(
    given: Given, *, chunks: Mapping[Any, int] | None = None, band: Which = None
) -> xr.Dataset:
    """Open raster files lazily, with gaps as NaN: `open_stack` as runs call it.

    Parameters
    ----------
    given : str, path-like or mapping of str to str
        As `files` of `open_stack`.
    chunks : mapping of dim to int, optional
        As there. None gives lazy arrays without dask.
    band : int, str or mapping of str to int or str, optional
        As there.

    Returns
    -------
    xarray.Dataset
        As of `open_stack`.
    """
    return open_stack(given, band=band, chunks=chunks)


def files(given: Given) -> list[Path]:
    """Return the files that are read, a table among them.

    Parameters
    ----------
    given : str, path-like or mapping of str to str
        As `files` of `open_stack`.

    Raises
    ------
    FileNotFoundError, ValueError
        As `open_stack`.
    """
    sources, listing = _list(given)
    tables = [one for one in dict.fromkeys(sources.values()) if _is_table(one)]
    return [Path(one) for one in (*tables, *listing.paths())]


def open_stack(
    files: Given,
    *,
    band: Which = None,
    chunks: Mapping[Any, int] | Literal["auto"] | None = "auto",
) -> xr.Dataset:
    """Open raster files of one grid as a cube, lazily, with gaps as NaN.

    Parameters
    ----------
    files : str, path-like or mapping of str to str
        Where the files are, in one of four ways.

        - A pattern with ``{time}``, or with ``{reference}`` and ``{secondary}``: a file a date, or
          a file a pair of dates. ``*`` stands for anything within a name. Dates are written
          2020-01-31, 2020-01-31T10:11:12, 20200131 or 20200131T101112.
        - A mapping of variables to patterns, for companions such as coherence. A pattern without
          fields beside others is one file: a map, such as heights.
        - A table with the suffix .csv: a row a sample, with the columns ``time``, or ``reference``
          and ``secondary``, and ``path`` or a column of paths a variable (from the folder of the
          table). ``band`` is the band of the files of a row. Other columns become coordinates.
        - One file, whose bands are the samples.
    band : int, str or mapping of str to int or str, optional
        Number (from 1) or description of the band that is read of each file, or those of each
        variable. Needed where files of a stack have several. None takes the only one.
    chunks : mapping of dim to int, "auto" or None, optional
        Sizes of the dask chunks. ``"auto"`` follows the blocks of the files, with all samples of
        a pixel in one chunk. None gives lazy arrays without dask.

    Returns
    -------
    xarray.Dataset
        Variables with the dims (``time``, ``pair`` or ``band``, y, x). Coordinates: the dates, what
        else the table tells; ``description`` and ``wavelength`` of bands, where files have them; y
        and x of pixel centres (of a rotated grid ``row`` and ``column``), and ``spatial_ref`` with
        CRS and GeoTransform. The variable of a single pattern is ``data``.

        Values: nodata, masks and transparency (alpha) are NaN, and scale and offset of each band
        are applied. Integers that need neither stay integers; scaled numbers are float64; masked
        ones float32 where that holds all of them. Units are those of the bands.

    Warns
    -----
    UserWarning
        When a sample has files of some variables only: the others are NaN there. One warning
        names the files.

    Raises
    ------
    FileNotFoundError
        When no file fits, or one of a table is not there.
    OSError
        When a file cannot be read; also while a chunk is computed, with its rows and columns.
    DtypeError
        For complex numbers.
    LabelError
        When a file has another grid than the first: another shape or CRS, or pixels that are off
        by a thousandth of their size or more. The coordinates are those of the first.
    ChunkError
        When `chunks` cuts the samples.
    ValueError
        For patterns, tables and bands that leave open what is meant.
    ImportError
        When rasterio or rioxarray is missing.
    """
    require_rasterio()
    sources, listing = _list(files)
    headers = {path: probe(path) for path in listing.paths()}
    _refuse_other_grids(headers)
    first = next(iter(headers.values()))
    if listing.dim is None:
        variables, own = _bands_as_samples(listing, headers, band)
    else:
        variables, own = _files_as_samples(listing, headers, band)
    found = xr.Dataset(
        {name: variable(b, first, dims, sources[name]) for name, (dims, b) in variables.items()},
        coords=grids.coordinates(first.grid),
    ).assign_coords(own)
    found[grids.MAPPING].encoding["sources"] = tuple(dict.fromkeys(sources.values()))
    for name in listing.files:
        _warn_of_gaps(name, listing)
    return found if chunks is None else _cut(found, {} if chunks == "auto" else chunks)


def _list(given: Given) -> tuple[dict[str, str], Listing]:
    """Return what each variable is found by, and the files."""
    if isinstance(given, Mapping):
        if not given:
            raise ValueError("the mapping of patterns is empty. Give a pattern for each variable.")
        sources = {str(name): os.fspath(pattern) for name, pattern in given.items()}
        return sources, listings.find(sources)
    if not isinstance(given, str | os.PathLike):
        msg = f"{len(given)} raster files are given, and nothing says which sample each is. Write"
        msg += " their names as a pattern with {time}, or into a table (.csv)."
        raise ValueError(msg)  # noqa: TRY004 - a sequence is what other formats take
    path = os.fspath(given)
    if _is_table(path):
        listing = listings.read_table(path)
        return dict.fromkeys(listing.files, path), listing
    return {DATA: path}, listings.find({DATA: path})


def _is_table(path: str) -> bool:
    return Path(path).suffix.lower() == ".csv"


def _refuse_other_grids(headers: Mapping[str, Header]) -> None:
    first, *others = headers
    for path in others:
        different = grids.difference(headers[path].grid, headers[first].grid)
        if different is not None:
            msg = f"'{path}' has {different}, as '{first}' has, and a cube has one grid."
            raise LabelError(msg + " Warp it to the grid of the first, for instance with gdalwarp.")


def _files_as_samples(
    listing: Listing, headers: Mapping[str, Header], band: Which
) -> tuple[dict[str, tuple[tuple[str, ...], list[Band | None]]], dict[str, Any]]:
    """Return dims and bands of variables with a file a sample, and of maps; and coordinates."""
    dim = str(listing.dim)
    found: dict[str, tuple[tuple[str, ...], list[Band | None]]] = {}
    for name, paths in listing.files.items():
        asked = _asked(band, name, listing)
        numbers: Sequence[int | str | None] = listing.bands.get(name, [asked] * len(paths))
        found[name] = (
            (dim, "y", "x"),
            [
                None if path is None else _choose(headers[path], path, number)
                for path, number in zip(paths, numbers, strict=True)
            ],
        )
    for name, path in listing.maps.items():
        found[name] = (("y", "x"), [_choose(headers[path], path, _asked(band, name, listing))])
    return found, {name: (dim, values) for name, values in listing.coords.items()}


def _bands_as_samples(
    listing: Listing, headers: Mapping[str, Header], band: Which
) -> tuple[dict[str, tuple[tuple[str, ...], list[Band | None]]], dict[str, Any]]:
    """Return dims and bands of variables that are one file each; and coordinates."""
    found: dict[str, tuple[tuple[str, ...], list[Band | None]]] = {}
    samples: tuple[Band, ...] = ()
    header = None
    for name, path in listing.maps.items():
        asked = _asked(band, name, listing)
        if asked is not None:
            found[name] = (("y", "x"), [_choose(headers[path], path, asked)])
            continue
        own = headers[path].bands
        if samples and len(own) != len(samples):
            msg = f"'{path}' has {len(own)} bands, and '{samples[0].path}' has {len(samples)}."
            raise LabelError(msg + f" Choose one as a map: band={{{name!r}: 1}}.")
        if not samples:
            samples, header = own, headers[path]
        found[name] = (("band", "y", "x"), [*own])
    coords: dict[str, Any] = {}
    if header is not None:
        coords["band"] = ("band", [one.number for one in samples])
        if any(one.description for one in samples):
            coords["description"] = ("band", [one.description for one in samples])
        if not all(np.isnan(one.wavelength) for one in samples):
            units = {"units": header.wavelength_units} if header.wavelength_units else {}
            coords["wavelength"] = ("band", [one.wavelength for one in samples], units)
    return found, coords


def _asked(band: Which, name: str, listing: Listing) -> int | str | None:
    """Return the band that is asked for of the files of a variable."""
    if isinstance(band, Mapping):
        unknown = {*band} - {*listing.files, *listing.maps}
        if unknown:
            known = ", ".join((*listing.files, *listing.maps))
            msg = f"band names {', '.join(map(repr, unknown))}; the variables are {known}."
            raise LabelError(msg)
        band = band.get(name)
    if band is not None and name in listing.bands:
        raise ValueError(f"the table has the column 'band', and band={band!r} is given as well.")
    return band


def _choose(header: Header, path: str, asked: int | str | None) -> Band:
    """Return the band of a file that is asked for, or the only one."""
    fitting = [b for b in header.bands if asked is None or asked in (b.number, b.description)]
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(f"{b.number} {b.description}".strip() for b in header.bands)
    what = "one is needed" if asked is None else f"band={asked!r} is {len(fitting)} of them"
    msg = f"'{path}' has the bands {listed}, and {what}."
    raise ValueError(msg + " Give its number or description, such as band=1.")


def _warn_of_gaps(name: str, listing: Listing) -> None:
    """Warn when a variable has no file for some samples."""
    paths = listing.files[name]
    absent = [index for index, path in enumerate(paths) if path is None]
    if not absent:
        return
    dates = [
        "/".join(np.datetime_as_string(listing.coords[f][index], "auto") for f in _fields(listing))
        for index in absent[:SHOWN]
    ]
    more = f" and {len(absent) - SHOWN} more" if len(absent) > SHOWN else ""
    msg = f"{name!r} has no file for {len(absent)} of {len(paths)} samples, where it is NaN: "
    warn(f"{msg}{', '.join(dates)}{more}.")


def _fields(listing: Listing) -> tuple[str, ...]:
    return next(own for own, dim in listings.FIELDS.items() if dim == listing.dim)


def _cut(dataset: xr.Dataset, asked: Mapping[Any, int]) -> xr.Dataset:
    """Cut a Dataset into chunks along the blocks of its files, samples whole."""
    cubes = [array for array in dataset.data_vars.values() if array.ndim == 3]
    plan: dict[Any, int] = {"y": -1, "x": -1, **asked}
    if cubes:
        plan = file_chunks.plan(cubes[0], cubes[0].dims[0], cubes[1:], asked)
    # Coordinates are in memory, and stay there.
    data = dataset.drop_vars(list(dataset.coords))
    return data.chunk(plan, name_prefix="read-geotiff-").assign_coords(dataset.coords)
