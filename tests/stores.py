"""Cubes, fits and folders for tests of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

DESIGN = "polynomial(1) + harmonics(1)"
STATS = ("rss", "stderr", "residual")


def make_cube(shape: tuple[int, int, int] = (12, 12, 10), seed: int = 0) -> xr.Dataset:
    """Make a noisy cube with gaps, weights, a grid mapping, and a pixel without samples."""
    rng = np.random.default_rng(seed)
    time = np.datetime64("2015-01-05", "ns") + np.arange(shape[0]) * np.timedelta64(31, "D")
    values = rng.normal(0.5, 0.2, size=shape).astype(np.float32)
    values[rng.random(shape) < 0.2] = np.nan
    values[:, 0, 0] = np.nan
    cube = xr.Dataset(
        {
            "h": (("time", "y", "x"), values, {"units": "m"}),
            "w": (("time", "y", "x"), rng.uniform(0.5, 2.0, size=shape)),
        },
        coords={
            "time": time,
            "y": 5e6 - 10.0 * np.arange(shape[1]),
            "x": 4e5 + 10.0 * np.arange(shape[2]),
            "spatial_ref": ((), 0, {"grid_mapping_name": "transverse_mercator"}),
        },
        attrs={"title": "made up"},
    )
    for name in ("h", "w"):
        cube[name].encoding = {"grid_mapping": "spatial_ref"}
    return cube


def make_fit(chunks: dict[str, int] | None = None, seed: int = 0) -> xr.Dataset:
    """Make what a fit may hold: floats with gaps, counts, flags, booleans, texts, times, a CRS."""
    rng = np.random.default_rng(seed)
    shape = (12, 9)
    coef = rng.normal(size=(2, *shape))
    coef[:, 3, 4] = np.nan
    status = rng.integers(0, 4, size=shape).astype(np.int8)
    status[:5, :4] = 0
    flags = {"flag_values": np.arange(4, dtype=np.int8), "flag_meanings": "solved a b c"}
    fit = xr.Dataset(
        {
            "coef": (("param", "y", "x"), coef, {"lstsq": json.dumps({"format": 1})}),
            "nobs": (("y", "x"), rng.integers(0, 7, size=shape).astype(np.int32)),
            "status": (("y", "x"), status, flags),
            "good": (("y", "x"), status == 0),
            "residual": (("time", "y", "x"), rng.normal(size=(7, *shape)), {"units": "m"}),
            "scale": ((), 4.5),
        },
        coords={
            "param": ["intercept", "slope µ"],
            "param_units": ("param", ["m", "m year-1"]),
            "time": np.datetime64("2015-07-11T10:00:08", "ns")
            + np.arange(7) * np.timedelta64(5 * 86400 + 1, "s"),
            "y": ("y", 5e6 - 10.0 * np.arange(shape[0]), {"units": "m"}),
            "x": ("x", 4e5 + 10.0 * np.arange(shape[1])),
            "lat": (("y", "x"), rng.normal(size=shape), {"units": "degrees_north"}),
            "spatial_ref": ((), 0, {"grid_mapping_name": "transverse_mercator"}),
        },
        attrs={"title": "made up", "history": "before"},
    )
    for name in ("coef", "nobs", "status", "good", "residual"):
        fit[name].encoding = {"grid_mapping": "spatial_ref"}
    return fit if chunks is None else fit.chunk(chunks)


def tree(root: Path) -> dict[str, bytes]:
    """Return every file of a folder, with its content."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def listed(folder: Path) -> list[str]:
    """Return the names in a folder, also hidden ones."""
    return sorted(path.name for path in folder.iterdir())


def plain(dataset: xr.Dataset) -> xr.Dataset:
    """Return a Dataset with attributes as JSON has them, and without those every file gets."""

    def attrs(given: dict[Any, Any]) -> dict[Any, Any]:
        dropped = {"history", "Conventions"}
        listed = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in given.items()}
        return {key: value for key, value in listed.items() if key not in dropped}

    dataset = dataset.copy()
    dataset.attrs = attrs(dataset.attrs)
    for variable in dataset.variables.values():
        variable.attrs = attrs(variable.attrs)
    return dataset
