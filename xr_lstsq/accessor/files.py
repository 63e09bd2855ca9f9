"""Methods of `.lstsq` that write a fit to files."""

from __future__ import annotations

from os import PathLike
from typing import Literal

from xr_lstsq import runs
from xr_lstsq.accessor.maps import MapMethods

__all__ = ["FileMethods"]


class FileMethods(MapMethods):
    """Writes a fit; a lazy one chunk by chunk, in bounded memory."""

    def to_netcdf(
        self,
        path: str | PathLike[str],
        *,
        store: Literal["float32", "float64"] | None = None,
        complevel: int = 0,
        progress: bool = False,
    ) -> None:
        """Write this fit to a netCDF file; a lazy one chunk by chunk, in bounded memory.

        The file appears under its name when it is complete.

        Parameters
        ----------
        path : str or path-like
            File to write, with the suffix .nc, .nc4 or .cdf.
        store : {"float32", "float64"}, optional
            Type of the floats in the file; None keeps theirs.
        complevel : int
            Level of zlib for floats, 0 (none) to 9. Integers are always compressed.
        progress : bool
            Whether a bar of pixels done, their rate and the time left is shown.

        Raises
        ------
        WriteError
            For a file that cannot be written; nothing of it is left.
        ValueError
            When this is no fit, `path` is read by it, netCDF cannot hold it, or dask's process
            scheduler is in force.
        """
        runs.write_fit(
            self._fit("to_netcdf"),
            path,
            "netCDF",
            store=store,
            progress=progress,
            complevel=complevel,
        )

    def to_zarr(
        self,
        path: str | PathLike[str],
        *,
        store: Literal["float32", "float64"] | None = None,
        progress: bool = False,
    ) -> None:
        """Write this fit to a Zarr store; a lazy one chunk by chunk, in bounded memory.

        The store appears under its name when it is complete, and replaces one of that name. Each
        pixel chunk is a region, written while the next ones are solved. `runs.solve_file` and the
        shell also go on with a run that was interrupted.

        Parameters
        ----------
        path : str or path-like
            Directory to write, with the suffix .zarr.
        store : {"float32", "float64"}, optional
            Type of the floats in the store; None keeps theirs.
        progress : bool
            Whether a bar of pixels done, their rate and the time left is shown.

        Raises
        ------
        WriteError
            For a store that cannot be written; nothing of it is left.
        ValueError
            When this is no fit, `path` is read by it, Zarr cannot hold it, or dask's process
            scheduler is in force.
        ChunkError
            For pixel chunks of several sizes, since storage chunks have one.
        ImportError
            Without the package zarr.
        """
        runs.write_fit(self._fit("to_zarr"), path, "Zarr", store=store, progress=progress)

    def to_geotiff(
        self,
        path: str | PathLike[str],
        *,
        store: Literal["float32", "float64"] | None = None,
        cog: bool = False,
        progress: bool = False,
    ) -> None:
        """Write this fit to GeoTIFF files, one a variable; a lazy one in bounded memory.

        The files appear under their names together, when all of them are complete. A band a param,
        with its name as the description; floats have the nodata value NaN; CRS and transform are
        those of the cube.

        Parameters
        ----------
        path : str or path-like
            ``OUT.tif`` stands for ``OUT_coef.tif``, ``OUT_status.tif`` and so on.
        store : {"float32", "float64"}, optional
            Type of the floats in the files; None keeps theirs.
        cog : bool
            Make cloud optimized GeoTIFF files, with overviews.
        progress : bool
            Whether a bar of pixels done, their rate and the time left is shown.

        Raises
        ------
        WriteError
            For files that cannot be written; nothing of them is left.
        ValueError
            When this is no fit, a file is read by it, dask's process scheduler is in force, or for
            what a GeoTIFF cannot hold, such as ``cov``; the error says how to go on.
        ImportError
            Without the packages rasterio and rioxarray.
        """
        runs.write_fit(
            self._fit("to_geotiff"), path, "GeoTIFF", store=store, progress=progress, cog=cog
        )
