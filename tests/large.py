"""Large cubes in files, made piece by piece so that making one takes little memory."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np

__all__ = ["write_cube"]

ROWS = 100


def write_cube(
    path: Path,
    shape: tuple[int, int, int],
    *,
    packed: bool,
    chunks: tuple[int, int, int] | None = None,
    missing: float = 0.3,
) -> None:
    """Write a netCDF cube of NDVI every 16 days: a season with noise, and gaps.

    Parameters
    ----------
    path : Path
        The file.
    shape : tuple of int
        Dates, rows and columns.
    packed : bool
        True for int16 with a scale factor and a fill value, False for float32 with NaN.
    chunks : tuple of int, optional
        Storage chunks. None is all dates of 25 by 250 pixels.
    missing : float
        Share of the samples that are missing.
    """
    n, rows, columns = shape
    rng = np.random.default_rng(0)
    days = np.arange(n) * 16
    season = (0.5 + 0.3 * np.cos(2 * np.pi * days / 365.25)).astype("f4")[:, None, None]
    with netCDF4.Dataset(path, "w") as file:
        for name, size in zip(("time", "y", "x"), shape, strict=True):
            file.createDimension(name, size)
        time = file.createVariable("time", "i4", ("time",))
        time.units = "days since 2015-01-01"
        time[:] = days
        file.createVariable("y", "f8", ("y",))[:] = 4e6 - 10.0 * np.arange(rows)
        file.createVariable("x", "f8", ("x",))[:] = 5e5 + 10.0 * np.arange(columns)
        ndvi = file.createVariable(
            "ndvi",
            "i2" if packed else "f4",
            ("time", "y", "x"),
            chunksizes=chunks or (n, min(25, rows), min(250, columns)),
            fill_value=-32768 if packed else np.nan,
        )
        ndvi.units = "1"
        if packed:
            ndvi.scale_factor = 1e-4
        ndvi.set_auto_maskandscale(False)
        for start in range(0, rows, ROWS):
            piece = (n, min(ROWS, rows - start), columns)
            values = season + 0.05 * rng.standard_normal(piece, dtype="f4")
            gaps = rng.random(piece, dtype="f4") < missing
            if packed:
                values = np.rint(values * 1e4).astype("i2")
            values[gaps] = -32768 if packed else np.nan
            ndvi[:, start : start + piece[1]] = values
