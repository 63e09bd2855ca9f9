"""Answers of MintPy on the real stacks: ``python -m tests.mintpy_answers`` writes them.

MintPy 1.6.4 needs many packages that nothing else here does, so that its answers are kept in
tests/data/expected, as float32, which is what it gives.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

FOLDER = Path(__file__).parent / "data"
STACKS = ("mexico_s1", "sydney_c")
LEAST = (0, 1)


def real(name: str) -> xr.DataArray:
    """Return the phase of a real stack."""
    with xr.open_dataset(FOLDER / "cubes" / f"insar_{name}.nc") as opened:
        stack: xr.DataArray = opened["unw"].load()
    return stack.rename(first_date="reference", second_date="secondary")


def network_of(stack: xr.DataArray) -> tuple[list[tuple[int, int]], Any]:
    """Return pairs as places of dates, and the years since the first."""
    ends = np.stack([stack["reference"].values, stack["secondary"].values])
    dates = np.unique(ends)
    pairs = [tuple(pair) for pair in np.searchsorted(dates, ends).T.tolist()]
    return pairs, (dates - dates[0]) / np.timedelta64(1, "D") / 365.25


def some_of(stack: xr.DataArray) -> tuple[Any, list[int]]:
    """Return a real stack as (pair, pixel), and pixels to look at: many of those with gaps."""
    flat = stack.stack(pixel=("y", "x")).transpose("pair", "pixel").values.astype(np.float64)
    gaps = np.isnan(flat)
    gappy = np.flatnonzero(gaps.any(axis=0) & ~gaps.all(axis=0))
    assert gappy.size
    return flat, sorted({*range(0, flat.shape[1], 40), *gappy[:200].tolist()})


def answers(name: str, least: int) -> dict[str, Any]:
    """Return MintPy's answers for some pixels: series (date, k), coherence and pairs (k,)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports
        from mintpy import ifgram_inversion
        from mintpy.objects import ifgramStack
    stack = real(name)
    days = (np.datetime_as_string(stack[end], "D") for end in ("reference", "secondary"))
    names = ["_".join(pair).replace("-", "") for pair in zip(*days, strict=True)]
    a, b = ifgramStack.get_design_matrix4timeseries(names)
    _, years = network_of(stack)
    steps = np.diff(years.astype(np.float32))[:, None]  # as in its design
    flat, pixels = some_of(stack)
    series = np.zeros((len(years), len(pixels)), np.float32)
    coherence = np.zeros(len(pixels), np.float32)
    counts = np.zeros(len(pixels), np.int16)
    for k, pixel in enumerate(pixels):
        y = flat[:, [pixel]]
        if np.isfinite(y).any():
            found = ifgram_inversion.estimate_timeseries(
                a, b, y, steps, min_redundancy=least, print_msg=False
            )
            series[:, k], coherence[k], counts[k] = found[0][:, 0], *np.ravel(found[1:3])
    return {"series": series, "coherence": coherence, "counts": counts, "pixels": pixels}


def path(name: str, least: int) -> Path:
    """Return where the answers are kept."""
    return FOLDER / "expected" / f"mintpy_{name}_{least}.npz"


if __name__ == "__main__":
    for stack_name in STACKS:
        for fewest in LEAST:
            np.savez_compressed(path(stack_name, fewest), **answers(stack_name, fewest))
