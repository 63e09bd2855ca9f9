"""Displacement between dates from a network of interferograms with gaps.

Each interferogram is the difference of two dates, so the design is an incidence matrix: -1 at the
first date, +1 at the second. It is given as a labelled array with dims (pair, date). Where gaps cut
a pixel's network in two, the offset between the parts is in no sample; such a pixel comes back with
status rank_deficient and the minimum-norm answer.

Run: python examples/interferogram_network.py
"""

from __future__ import annotations

import numpy as np
import xarray as xr

import xr_lstsq  # noqa: F401 - importing it registers .lstsq

rng = np.random.default_rng(20)
dates = np.arange("2021-01-01", "2021-08-01", 12, dtype="datetime64[D]").astype("datetime64[ns]")
first, second = np.array(
    [(i, j) for i in range(dates.size) for j in range(i + 1, min(i + 4, dates.size))]
).T
days = dates.astype("datetime64[D]").astype(str)
pair = [f"{days[i]}_{days[j]}" for i, j in zip(first, second, strict=True)]

# The first date is the reference, so it has no column: displacement is relative to it.
incidence = np.zeros((len(pair), dates.size))
incidence[np.arange(len(pair)), second] = 1
incidence[np.arange(len(pair)), first] = -1
design = xr.DataArray(
    incidence[:, 1:],
    dims=("pair", "date"),
    coords={"pair": pair, "date": days[1:]},
)

# A subsiding bowl, coherence that falls outwards, and noise and gaps where it is low.
y, x = np.meshgrid(np.linspace(-1, 1, 60), np.linspace(-1, 1, 80), indexing="ij")
elapsed = (dates - dates[0]) / np.timedelta64(1, "D")
truth = -0.2 * elapsed[:, None, None] * np.exp(-4 * (x**2 + y**2))
coherence = np.clip(1 - 0.5 * np.hypot(x, y) - 0.15 * rng.random((len(pair), 60, 80)), 0.1, 0.99)
sigma = np.sqrt((1 - coherence**2) / (2 * coherence**2))
phase = truth[second] - truth[first] + sigma * rng.standard_normal(coherence.shape)
grid = {"pair": pair, "y": y[:, 0], "x": x[0]}
stack = xr.Dataset(
    {
        "displacement": (("pair", "y", "x"), phase.astype("float32"), {"units": "mm"}),
        "weight": (("pair", "y", "x"), 1 / sigma**2),
    },
    coords=grid,
)
stack["displacement"] = stack.displacement.where(rng.random(coherence.shape) < coherence**0.5)

fit = stack.displacement.lstsq.solve(
    design, dim="pair", param_dim="date", weights=stack.weight, stats="default"
)

last = fit.coef.isel(date=-1)
error = float(fit.stderr.isel(date=-1).where(last == last.min()).max())
print(f"largest subsidence at {last.date.item()}: {float(last.min()):.1f} mm, error {error:.1f} mm")
for meaning, code in zip(fit.status.flag_meanings.split(), fit.status.flag_values, strict=True):
    print(f"{meaning:16s}{int((fit.status == code).sum()):6d} pixels")
