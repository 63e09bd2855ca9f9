"""GeoTIFF files of a Dataset: one a variable, its layers as bands, written window by window."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import xarray as xr

from xr_lstsq import clock
from xr_lstsq.formats import grid as grids
from xr_lstsq.formats import listing as listings
from xr_lstsq.formats.bands import require_rasterio
from xr_lstsq.formats.cf import dated
from xr_lstsq.formats.layers import layers, refuse_unstorable
from xr_lstsq.formats.raster_file import RasterFile
from xr_lstsq.formats.regions import Block, computed, write_behind
from xr_lstsq.formats.target import (
    partial_files,
    refuse_sources,
    refuse_type,
    resolve,
    sources_of,
)
from xr_lstsq.formats.windows import groups

__all__ = ["check_target", "targets", "write"]

# Of GDAL, while files are written: tiles come whole, so that keeping many of them helps nobody.
CACHE_BYTES = 64 * 2**20
SUFFIXES = (".tif", ".tiff")


def check_target(path: str | os.PathLike[str], sources: Iterable[str | os.PathLike[str]]) -> Path:
    """Return the absolute path that stands for the files to write, or say why it cannot.

    Parameters
    ----------
    path : str or path-like
        ``OUT.tif``, see `write`.
    sources : iterable of str or path-like
        Files that are read, which it may not name. Whether one of them is a file that is
        written, such as ``OUT_coef.tif``, `write` finds before it computes anything.

    Raises
    ------
    WriteError
        When its directory is missing, or it is a directory.
    ValueError
        When it is one of `sources`, or has another suffix than .tif or .tiff.
    ImportError
        When rasterio or rioxarray is missing.
    """
    require_rasterio()
    target = resolve(path)
    _refuse_suffix(target)
    refuse_sources(target, sources)
    return target


def targets(dataset: xr.Dataset, path: str | os.PathLike[str]) -> dict[str, Path]:
    """Return the file of each variable: ``OUT_coef.tif`` for ``OUT.tif``.

    Parameters
    ----------
    dataset : xarray.Dataset
        What is written.
    path : str or path-like
        Target as given to `write`.

    Raises
    ------
    ValueError
        When it has another suffix than .tif or .tiff.
    """
    target = Path(path)
    _refuse_suffix(target)
    return {
        str(name): target.with_name(f"{target.stem}_{name}{target.suffix}")
        for name in dataset.data_vars
    }


def write(
    dataset: xr.Dataset,
    path: str | os.PathLike[str],
    *,
    sources: Iterable[str | os.PathLike[str]] = (),
    store: Literal["float32", "float64"] | None = None,
    history: str | None = None,
    on_block: Callable[[xr.Dataset], None] | None = None,
    cog: bool = False,
) -> list[Path]:
    """Write the variables of a Dataset to GeoTIFF files, window by window.

    Parameters
    ----------
    dataset : xarray.Dataset
        Eager or lazy. Lazy variables that are cut into the same chunks are computed together, a
        few chunks at a time, so whatever they share is computed once.
    path : str or path-like
        ``OUT.tif`` stands for ``OUT_coef.tif``, ``OUT_status.tif`` and so on, one file a variable.
        Files of these names are replaced, at the very end and all together.
    sources : iterable of str or path-like
        Files, patterns and tables from which `dataset` is computed; no file of them may be a
        target. What the encoding of the dataset names is refused as well.
    store : {"float32", "float64"}, optional
        Type of floats in the files; None keeps their own.
    history : str, optional
        Program and arguments, for a new line of the tag ``history``.
    on_block : callable, optional
        Called with each computed block (a Dataset without coordinates) once it is written.
    cog : bool
        Make cloud optimized GeoTIFF files, with overviews. Each file is then written twice.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    WriteError
        When a target cannot be created, or the disk takes no more.
    ValueError
        When a target is a source or no .tif, or for what a GeoTIFF cannot hold: more than one dim
        besides rows and columns, a grid that no transform describes, text and dates.
    ImportError
        When rasterio or rioxarray is missing.

    Notes
    -----
    A band a label of the third dim (param, time), with the label as its description and the
    coordinates along that dim as tags and units. CRS and transform are those of the dataset. Floats
    have the nodata value NaN; integers and flags have none, since each of their values means
    something. Booleans are 0 and 1. Attributes become tags; coordinates of two dims are left out.

    Files are tiled, and compressed by deflate with a predictor. Each is filled under the name
    ``.NAME.XXXXXXXX.partial``, and read back and compared before it takes its place: GDAL does not
    report all errors of a disk. Memory is that of one window besides what computing it takes.
    """
    refuse_type(store)
    require_rasterio()
    refuse_unstorable(dataset)
    grid = grids.find(dataset)
    named = {name: resolve(file) for name, file in targets(dataset, path).items()}
    read = [os.fspath(one) for one in (*sources, *sources_of(dataset))]
    read = [file for one in read for file in listings.expand(one)]
    for target in named.values():
        refuse_sources(target, read)
    planned = layers(dataset, store, dated(history))
    import rasterio

    with rasterio.Env(GDAL_CACHEMAX=CACHE_BYTES), partial_files([*named.values()]) as partials:
        files = {
            name: RasterFile(partial, named[name], planned[name], grid)
            for name, partial in zip(named, partials, strict=True)
        }
        _fill(files, dataset, on_block)
        with clock.stage("write"):
            for file in files.values():
                if cog:
                    file.optimize()
                file.check()
    return [*targets(dataset, path).values()]


def _refuse_suffix(target: Path) -> None:
    if target.suffix.lower() not in SUFFIXES:
        msg = f"'{target}' has the suffix '{target.suffix}', and GeoTIFF files are written."
        raise ValueError(f"{msg} Use {' or '.join(SUFFIXES)}.")


def _fill(
    files: Mapping[str, RasterFile],
    dataset: xr.Dataset,
    on_block: Callable[[xr.Dataset], None] | None,
) -> None:
    """Compute the variables and write them, each window while the next is computed."""
    with ExitStack() as stack:
        opened = {name: stack.enter_context(file.opened()) for name, file in files.items()}

        def write(window: list[Block]) -> None:
            with clock.stage("write"):
                for region, block in window:
                    for name, variable in block.variables.items():
                        files[str(name)].write(opened[str(name)], variable, region.window)

        for names, chunks in groups(dataset, files):
            group = xr.Dataset({name: dataset.variables[name] for name in names})
            write_behind(computed(group, chunks), write, on_block)
