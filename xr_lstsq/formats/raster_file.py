"""One GeoTIFF file while it is written: created, filled, made a COG, read back and compared."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from xr_lstsq.formats.grid import Grid
from xr_lstsq.formats.layers import Layer
from xr_lstsq.formats.target import disk_errors

if TYPE_CHECKING:
    from rasterio.io import DatasetWriter

__all__ = ["RasterFile"]

COG_TILE = 512


@dataclass(eq=False)
class RasterFile:
    """One file while it is written.

    Attributes
    ----------
    partial, target : Path
        Where it is now, and what it will be, for errors.
    layer : Layer
        Its bands.
    grid : Grid
        Its place.
    sums : dict of tuple to int
        Checksum of each window that was written.
    """

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


@contextmanager
def _quiet() -> Iterator[None]:
    """Let rasters have no place: the identity is what their input had."""
    from rasterio.errors import NotGeoreferencedWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield
