"""GeoTIFF files of a Dataset: one a variable, its layers as bands, written window by window."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import xarray as xr

from xr_lstsq.formats import grid as grids
from xr_lstsq.formats import listing as listings
from xr_lstsq.formats.bands import require_rasterio
from xr_lstsq.formats.grid import Grid
from xr_lstsq.formats.layers import Layer, layers, refuse_unstorable
from xr_lstsq.formats.target import disk_errors, partial_files, refuse_sources, resolve
from xr_lstsq.formats.windows import blocks_at_once, groups, windows

if TYPE_CHECKING:
    from rasterio.io import DatasetWriter

__all__ = ["targets", "write"]

# Of GDAL, while files are written: tiles come whole, so that keeping many of them helps nobody.
CACHE_BYTES = 64 * 2**20
COG_TILE = 512
SUFFIXES = (".tif", ".tiff")


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
    if target.suffix.lower() not in SUFFIXES:
        msg = f"'{target}' has the suffix '{target.suffix}', and GeoTIFF files are written."
        raise ValueError(f"{msg} Use {' or '.join(SUFFIXES)}.")
    return {
        str(name): target.with_name(f"{target.stem}_{name}{target.suffix}")
        for name in dataset.data_vars
    }


def write(
    dataset: xr.Dataset,
    path: str | os.PathLike[str],
    *,
    source: str | os.PathLike[str] | None = None,
    store: Literal["float32", "float64"] | None = None,
    history: str | None = None,
    on_block: Callable[[xr.Dataset], None] | None = None,
    cog: bool = False,
) -> None:
    """Write the variables of a Dataset to GeoTIFF files, window by window.

    Parameters
    ----------
    dataset : xarray.Dataset
        Eager or lazy. Lazy variables that are cut into the same chunks are computed together, a
        few chunks at a time, so whatever they share is computed once.
    path : str or path-like
        ``OUT.tif`` stands for ``OUT_coef.tif``, ``OUT_status.tif`` and so on, one file a variable.
        Files of these names are replaced, at the very end and all together.
    source : str or path-like, optional
        File, pattern or table from which `dataset` is computed; no file of it may be a target. What
        the encoding of the dataset names is refused as well.
    store : {"float32", "float64"}, optional
        Type of floats in the files; None keeps their own.
    history : str, optional
        Program and arguments, for a new line of the tag ``history``.
    on_block : callable, optional
        Called with each computed block (a Dataset without coordinates) once it is written.
    cog : bool
        Make cloud optimized GeoTIFF files, with overviews. Each file is then written twice.

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
    if store not in (None, "float32", "float64"):
        msg = f"store={store!r} is not a type of the file. Use 'float32', 'float64' or None."
        raise ValueError(msg)
    require_rasterio()
    refuse_unstorable(dataset)
    grid = grids.find(dataset)
    named = {name: resolve(file) for name, file in targets(dataset, path).items()}
    sources = _sources(dataset, source)
    for target in named.values():
        refuse_sources(target, sources)
    planned = layers(
        dataset, store, history and f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {history}"
    )
    import rasterio

    with rasterio.Env(GDAL_CACHEMAX=CACHE_BYTES), partial_files([*named.values()]) as partials:
        files = {
            name: _File(partial, named[name], planned[name], grid)
            for name, partial in zip(named, partials, strict=True)
        }
        _fill(files, dataset, on_block)
        for file in files.values():
            if cog:
                file.optimize()
            file.check()


@dataclass(eq=False)
class _File:
    """One file while it is written."""

    partial: Path
    target: Path
    layer: Layer
    grid: Grid
    sums: dict[tuple[tuple[int, int], ...], int] = field(default_factory=dict)

    @contextmanager
    def opened(self) -> Iterator[DatasetWriter]:
        """Create the file with all that is not values."""
        import rasterio

        layer, dtype = self.layer, np.dtype(self.layer.dtype)
        height, width = self.layer.tile
        with disk_errors(self.target), _quiet():
            file = rasterio.open(
                self.partial,
                "w",
                driver="GTiff",
                count=len(layer.descriptions),
                height=self.grid.height,
                width=self.grid.width,
                dtype=layer.dtype,
                crs=self.grid.crs,
                transform=self.grid.transform,
                nodata=np.nan if dtype.kind == "f" else None,
                tiled=True,
                blockysize=height,
                blockxsize=width,
                interleave="band",
                compress="deflate",
                zlevel=4,
                predictor=3 if dtype.kind == "f" else 2,
                bigtiff="if_safer",
            )
        try:
            with disk_errors(self.target):
                file.descriptions = layer.descriptions
                file.units = layer.units
                file.update_tags(**layer.tags)
                for number, tags in enumerate(layer.band_tags, start=1):
                    file.update_tags(number, **tags)
            yield file
        except BaseException:
            # On a full disk closing fails too; the first error is the one to tell.
            with suppress(OSError, RuntimeError):
                file.close()
            raise
        with disk_errors(self.target):
            file.close()

    def write(
        self, file: DatasetWriter, variable: xr.Variable, window: Mapping[Hashable, slice]
    ) -> None:
        """Write one window, and remember what it was."""
        dims = self.layer.dims
        values = variable.transpose(*dims).to_numpy().astype(self.layer.dtype, copy=False)
        values = values.reshape(-1, *values.shape[-2:])
        sizes = (len(self.layer.descriptions), self.grid.height, self.grid.width)
        whole = ("",) * (3 - len(dims)) + dims
        place = tuple(
            window.get(dim, slice(None)).indices(size)[:2]
            for dim, size in zip(whole, sizes, strict=True)
        )
        with disk_errors(self.target):
            file.write(values, range(place[0][0] + 1, place[0][1] + 1), window=place[1:])
        self.sums[place] = zlib.crc32(values.tobytes())

    def check(self) -> None:
        """Read the file back; raise a WriteError where it does not hold what was written."""
        import rasterio

        with disk_errors(self.target), _quiet(), rasterio.open(self.partial) as file:
            for (bands, rows, columns), wanted in self.sums.items():
                values = file.read(range(bands[0] + 1, bands[1] + 1), window=(rows, columns))
                if zlib.crc32(values.tobytes()) != wanted:
                    raise OSError("it does not hold what was written to it")

    def optimize(self) -> None:
        """Turn the file into a cloud optimized one."""
        import rasterio.shutil
        from rasterio._err import CPLE_BaseError  # copying raises it as it is; nothing exports it

        with disk_errors(self.target), _quiet():
            whole = self.partial.with_name(f"{self.partial.name}.tif")
            try:
                rasterio.shutil.copy(
                    self.partial,
                    whole,
                    driver="COG",
                    COMPRESS="DEFLATE",
                    PREDICTOR="YES",
                    BLOCKSIZE=COG_TILE,
                    OVERVIEW_RESAMPLING="NEAREST",
                    BIGTIFF="IF_SAFER",
                )
                whole.replace(self.partial)
            except CPLE_BaseError as error:
                raise OSError(str(error)) from error
            finally:
                whole.unlink(missing_ok=True)


def _fill(
    files: Mapping[str, _File],
    dataset: xr.Dataset,
    on_block: Callable[[xr.Dataset], None] | None,
) -> None:
    """Compute the variables and write them."""
    with ExitStack() as stack:
        opened = {name: stack.enter_context(file.opened()) for name, file in files.items()}
        for names, chunks in groups(dataset, files):
            group = xr.Dataset({name: dataset.variables[name] for name in names})
            for window in windows(chunks, blocks_at_once(group, chunks)):
                block = group.isel(window).compute()
                for name in names:
                    files[name].write(opened[name], block.variables[name], window)
                if on_block is not None:
                    on_block(block)


@contextmanager
def _quiet() -> Iterator[None]:
    """Let rasters have no place: the identity is what their input had."""
    from rasterio.errors import NotGeoreferencedWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


def _sources(dataset: xr.Dataset, source: str | os.PathLike[str] | None) -> list[str]:
    """Return the files from which a Dataset is computed, as far as they are known."""
    encodings = [dataset.encoding, *(v.encoding for v in dataset.variables.values())]
    names = [] if source is None else [os.fspath(source)]
    for encoding in encodings:
        names += [
            str(name)
            for name in (encoding.get("source"), *encoding.get("sources", ()))
            if name is not None
        ]
    return [path for name in dict.fromkeys(names) for path in listings.expand(name)]
