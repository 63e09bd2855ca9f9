"""Rasters for tests, written and read with rasterio alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine

RASTERS = Path(__file__).parent / "data" / "rasters"
UTM = Affine(30.0, 0.0, 399960.0, 0.0, -30.0, 4300020.0)


def place(transform: Affine, column: float, row: float) -> list[float]:
    """Return x and y of a place in a raster."""
    a, b, c, d, e, f = transform[:6]
    return [a * column + b * row + c, d * column + e * row + f]


def put(path: Path, values: np.ndarray, **profile: Any) -> Path:
    """Write a raster with rasterio alone."""
    values = values.reshape(-1, *values.shape[-2:])
    count, height, width = values.shape
    extra = {k: profile.pop(k) for k in ("scales", "offsets", "descriptions") if k in profile}
    given = {"crs": "EPSG:32633", "transform": UTM, "dtype": values.dtype, **profile}
    path.parent.mkdir(parents=True, exist_ok=True)
    with rasterio.open(
        path, "w", driver="GTiff", count=count, height=height, width=width, **given
    ) as file:
        file.write(values)
        for key, value in extra.items():
            setattr(file, key, value)
    return path


def plain(path: Path) -> dict[str, Any]:
    """Read with rasterio alone."""
    with rasterio.open(path) as file:
        return {
            "values": file.read(),
            "crs": file.crs,
            "transform": file.transform,
            "nodata": file.nodatavals,
            "descriptions": file.descriptions,
            "units": file.units,
            "tags": file.tags(),
            "band_tags": [file.tags(number) for number in file.indexes],
            "profile": file.profile,
        }


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
