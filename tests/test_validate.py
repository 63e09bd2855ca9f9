"""The user's own trust test: true fits pass on hard data, altered ones do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

import xr_lstsq
from xr_lstsq import ValidationError, outputs

N = 50
TIME = np.datetime64("2015-01-01", "ns") + np.arange(N) * np.timedelta64(12, "D")
TERMS = "polynomial(1) + harmonics(1)"
EVERY = tuple(name for name in outputs.STATS if name != "temporal_coherence")
NO_F = tuple(name for name in EVERY if name not in ("fvalue", "f_pvalue"))


def hard_cube(offset: float = 1e4) -> xr.DataArray:
    """Return pixels with few to many gaps, one empty, one without degrees of freedom, one short."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(N, 5, 8)) + offset
    y[rng.random(y.shape) < rng.uniform(0, 0.8, (5, 8))] = np.nan
    y[:, 0, 0] = np.nan
    y[4:, 0, 1] = np.nan
    y[2:, 0, 2] = np.nan
    coords = {"time": TIME, "y": np.arange(5.0), "x": np.arange(8.0)}
    return xr.DataArray(y, coords, ("time", "y", "x"), name="h", attrs={"units": "m"})


def heavy_weights(cube: xr.DataArray) -> xr.DataArray:
    """Return weights over 12 decades."""
    return (
        xr.ones_like(cube)
        .copy(data=10 ** np.random.default_rng(1).uniform(-6, 6, cube.shape))
        .rename("w")
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"absolute_sigma": True},
        {"cov_type": "HC3"},
        {"cov_type": "HAC"},
        {"cov_type": "ar1"},
        {"noise": "ar1"},
        {"deficient": "nan", "min_obs": 6},
    ],
    ids=str,
)
def test_true_fits_pass_with_every_statistic(options: dict[str, Any], dtype: str) -> None:
    cube = hard_cube()
    plain = options.get("cov_type") is None and not options.get("absolute_sigma")
    stats = EVERY if plain else NO_F
    fit = cube.lstsq.solve(TERMS, stats=stats, dtype=dtype, **options)
    found = fit.lstsq.validate(cube)
    assert found.passed
    assert found.pixels == 40
    assert set(found.differences) == set(fit.data_vars)
    assert "all within their bounds" in str(found)


@pytest.mark.parametrize("lazy", [False, True], ids=["in memory", "lazy"])
def test_true_fits_pass_with_weights_flags_and_nodata(lazy: bool) -> None:
    cube = hard_cube(0.0).fillna(-99.0)
    weights = heavy_weights(cube)
    valid = (xr.ones_like(cube, dtype=bool) & (cube.x != 3)).rename("clear")
    if lazy:
        cube, weights = cube.chunk(x=3), weights.chunk(x=4)
    arguments = {"weights": weights, "valid": valid}
    fit = cube.lstsq.solve(TERMS, stats=("stderr", "rsquared"), nodata=-99, **arguments)
    assert fit.lstsq.validate(cube, **arguments, n=30).passed
    with pytest.raises(ValueError, match="weights"):
        fit.lstsq.validate(cube, valid=valid)


def test_a_tile_of_a_dataset_fit_read_from_a_file_passes(tmp_path: Any) -> None:
    cubes = xr.Dataset({"a": hard_cube(0.0), "b": 2 * hard_cube(5.0)})
    fit = cubes.lstsq.solve(TERMS, stats=("stderr", "rss"))
    fit.lstsq.to_netcdf(tmp_path / "fit.nc")
    with xr.open_dataset(tmp_path / "fit.nc") as stored:
        tile = stored.load().isel(x=slice(2, 6))
    found = tile.lstsq.validate(cubes)
    assert found.passed
    assert "b_stderr" in found.differences


NAMES = ("coef", "rss", "resid_std", "rsquared", "stderr", "tvalue", "pvalue", "conf_int", "cov")


@pytest.mark.parametrize("name", NAMES)
def test_a_value_that_is_altered_by_a_millionth_is_found(name: str) -> None:
    cube = hard_cube(1.0)
    fit = cube.lstsq.solve(TERMS, stats=NAMES[1:])
    values = fit[name].values
    finite = np.argwhere(np.isfinite(values) & (np.abs(values) > 1e-3))
    values[tuple(finite[len(finite) // 2])] *= 1 + 1e-6
    with pytest.raises(ValidationError, match=f"(?s){name} .*NOT what the cube gives"):
        fit.lstsq.validate(cube)


@pytest.mark.parametrize("name", ["status", "rank", "nobs"])
def test_a_count_that_is_altered_is_found(name: str) -> None:
    cube = hard_cube()
    fit = cube.lstsq.solve(TERMS)
    fit[name].values[3, 4] += 1
    with pytest.raises(ValidationError, match=name):
        fit.lstsq.validate(cube)


def test_pixels_are_drawn_by_the_seed() -> None:
    cube = hard_cube()
    fit = cube.lstsq.solve(TERMS)
    fit["coef"][0, 2, 2] += 1
    found = []
    for seed in range(12):
        try:
            assert fit.lstsq.validate(cube, n=10, seed=seed).pixels == 10
            found.append(False)
        except ValidationError:
            found.append(True)
    assert 0 < sum(found) < 12


def test_what_does_not_belong_together_is_refused() -> None:
    cube = hard_cube()
    fit = cube.lstsq.solve(TERMS)
    with pytest.raises(xr_lstsq.LabelError):
        fit.lstsq.validate(cube.isel(time=slice(5, None)).isel(x=slice(3)))
    with pytest.raises(ValueError, match="n=0"):
        fit.lstsq.validate(cube, n=0)
    own = xr.DataArray(np.ones((N, 1, 8)), dims=("time", "param", "x"))
    with pytest.raises(ValueError, match="pixel"):
        cube.lstsq.solve(own, "time").lstsq.validate(cube)
    with pytest.raises(ValueError, match="is no fit"):
        cube.to_dataset().lstsq.validate(cube)
