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


def matrix(kind: str) -> np.ndarray:
    """Return a design (N, p) as a plain matrix."""
    rng = np.random.default_rng(4)
    t = np.arange(N) / 10
    columns = [np.ones(N), t, rng.normal(size=N)]
    if kind == "short":
        columns.append(2 * t - 1)
    elif kind == "mixed units":
        columns = [columns[0], 1e-9 * t, 1e12 * columns[2]]
    elif kind == "short, mixed units":
        columns = [columns[0], 1e-4 * t, 1e4 * columns[2], 3 - t]
    elif kind == "degree 8":
        columns = [(t - 3) ** k for k in range(9)]
    return np.stack(columns, axis=1)


COV_TYPES = ("nonrobust", "HC0", "HC1", "HC2", "HC3", "HAC", "ar1")


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("kind", ["short", "mixed units", "short, mixed units", "degree 8"])
def test_true_fits_pass_on_designs_that_are_hard(kind: str, offset: float) -> None:
    cube = hard_cube(offset)
    for dtype in ("float64", "float32"):
        for weights in (None, heavy_weights(cube)):
            fit = cube.lstsq.solve(matrix(kind), stats=EVERY, weights=weights, dtype=dtype)
            assert fit.lstsq.validate(cube, weights=weights).passed


@pytest.mark.parametrize("irregular", [False, True])
@pytest.mark.parametrize("cov_type", COV_TYPES)
def test_true_fits_pass_with_weights_over_12_decades(cov_type: str, irregular: bool) -> None:
    cube = hard_cube(10.0)
    if irregular:
        days = np.cumsum(np.random.default_rng(0).integers(3, 30, N))
        cube["time"] = TIME[0] + days * np.timedelta64(1, "D")
    weights = heavy_weights(cube)
    fit = cube.lstsq.solve(TERMS, stats=NO_F, weights=weights, cov_type=cov_type)
    assert fit.lstsq.validate(cube, weights=weights).passed


@pytest.mark.parametrize("options", [{}, {"noise": "ar1"}, {"cov_type": "ar1"}], ids=str)
def test_true_fits_pass_where_residuals_are_rounding(options: dict[str, Any]) -> None:
    cube = xr.ones_like(hard_cube()) * 1e4 / 3 + xr.DataArray(np.arange(5.0), dims="y") / 7
    cube[:, 3] = 0.0
    found = cube.lstsq.solve(TERMS, stats=NO_F, **options).lstsq.validate(cube)
    assert found.passed
    assert (found.unsettled > 0) == (options == {"noise": "ar1"})


def altered(fit: xr.Dataset, name: str) -> xr.Dataset:
    """Return the fullest pixel of a fit, the largest value of a variable a millionth larger."""
    pixel = fit["nobs"].argmax(("y", "x"))
    one = fit.isel({dim: [int(index)] for dim, index in pixel.items()}).copy(deep=True)
    values = one[name].values
    values.flat[np.nanargmax(np.abs(values))] *= 1 + 1e-6
    return one


METHODS = [*({"cov_type": kind} for kind in COV_TYPES), {"noise": "ar1"}, {"absolute_sigma": True}]


@pytest.mark.parametrize("options", METHODS, ids=str)
def test_any_float_that_is_altered_by_a_millionth_is_found(options: dict[str, Any]) -> None:
    noise = np.random.default_rng(2).normal(size=N)
    for i in range(1, N):
        noise[i] += 0.7 * noise[i - 1]
    cube = hard_cube(3.0) + xr.DataArray(noise, dims="time")
    plain = options.get("cov_type", "nonrobust") == "nonrobust" and "absolute_sigma" not in options
    fit = cube.lstsq.solve(TERMS, stats=EVERY if plain else NO_F, **options)
    assert fit.lstsq.validate(cube).passed
    for name in fit.data_vars:
        if fit[name].dtype.kind == "f":
            with pytest.raises(ValidationError, match=f"(?s){name} .*NOT what the cube gives"):
                altered(fit, str(name)).lstsq.validate(cube)


def test_a_fit_in_float32_is_held_to_its_own_rounding() -> None:
    cube = hard_cube(3.0)
    fit = cube.lstsq.solve(TERMS, stats=("stderr", "residual"), dtype="float32")
    found = fit.lstsq.validate(cube)
    assert found.passed
    assert found.differences["coef"].absolute > 1e-9
    fit["stderr"].values[:, 3, 4] *= 1.01
    with pytest.raises(ValidationError, match="stderr"):
        fit.lstsq.validate(cube)


def test_a_rank_at_its_cut_off_is_no_error() -> None:
    cube = hard_cube()
    design = matrix("plain")
    twin = design[:, 1] * (1 + 2e-14 * np.random.default_rng(0).normal(size=N))
    fit = cube.lstsq.solve(np.column_stack([design, twin]))
    fit["status"] = 3 - fit["status"]  # nobody can tell
    found = fit.isel(y=[3]).lstsq.validate(cube)
    assert found.unsettled == 8
    assert "8 of them are a matter of rounding" in str(found)
    assert found.differences["coef"].values == 0


SHAPES = {
    "in another order": lambda c: c.transpose("x", "time", "y"),
    "one series": lambda c: c[:, 3, 4],
    "pixels stacked": lambda c: c.stack(pixel=("y", "x")),
    "no labels of pixels": lambda c: c.drop_vars(("y", "x")),
    "labels that stand twice": lambda c: c.assign_coords(x=[0, 0, 1, 1, 2, 2, 3, 3]),
    "samples from last to first": lambda c: c[::-1],
    "integers": lambda c: (100 * c).fillna(-1).astype("int16").assign_attrs(_FillValue=-1),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_cubes_of_any_shape_are_validated(shape: str) -> None:
    cube = SHAPES[shape](hard_cube(10.0))
    fit = cube.lstsq.solve(TERMS, stats=("residual", "conf_int", "cov"))
    found = fit.lstsq.validate(cube)
    assert found.passed
    assert found.pixels == found.total == cube.size // N
    fit["residual"][{name: 0 for name in cube.dims if name != "time"}] += 1.0
    fit["coef"][{name: -1 for name in cube.dims if name != "time"}] += 1.0
    with pytest.raises(ValidationError, match="coef"):
        fit.lstsq.validate(cube)


def test_samples_and_pixels_are_matched_by_their_labels() -> None:
    cube = hard_cube(10.0)
    fit = cube.lstsq.solve(TERMS, stats=("residual", "fitted"))
    assert fit.isel(y=[4, 1], x=slice(None, None, -1)).lstsq.validate(cube).passed
    assert fit.lstsq.validate(cube.isel(time=slice(None, None, -1))).passed
    shifted = cube.assign_coords(x=cube.x + 1e-3)  # a grid rebuilt from its transform
    assert fit.lstsq.validate(shifted).passed


def test_only_chunks_with_drawn_pixels_are_read() -> None:
    cube = hard_cube(10.0)
    fit = cube.lstsq.solve(TERMS)
    read: list[int] = []

    def seen(block: np.ndarray) -> np.ndarray:
        read.append(block.size)
        return block

    data = cube.chunk(y=1, x=1).data.map_blocks(seen, dtype=cube.dtype, meta=np.empty((0, 0, 0)))
    assert fit.lstsq.validate(cube.copy(data=data), n=3).passed
    assert read == [N, N, N]


def test_weights_and_flags_may_be_names_of_a_dataset() -> None:
    cube = hard_cube(10.0)
    clear = (xr.ones_like(cube, dtype=np.int8) * (cube.y != 2)).drop_attrs()
    cubes = xr.Dataset({"h": cube, "w": heavy_weights(cube), "clear": clear.astype(np.int8)})
    names = {"weights": "w", "valid": "clear"}
    fit = cubes.lstsq.solve(TERMS, stats="stderr", **names)
    assert fit.lstsq.validate(cubes, **names).passed
    with pytest.raises(ValueError, match=r"was fitted with weights called 'w'\. Pass weights="):
        fit.lstsq.validate(cubes, valid="clear")
    with pytest.raises(ValueError, match=r"valid is given, and h was fitted without\. Drop valid="):
        cubes.lstsq.solve(TERMS, data="h").lstsq.validate(cubes, valid="clear")


def test_a_lazy_negative_weight_fails_its_pixel_here_too() -> None:
    cube = hard_cube(10.0)
    weights = heavy_weights(cube)
    weights[3, 2, 2] = -1.0
    lazy = weights.chunk(x=2)
    fit = cube.lstsq.solve(TERMS, weights=lazy, stats="stderr").compute()
    assert fit["status"][2, 2] == 5
    assert fit.lstsq.validate(cube, weights=lazy).passed


REFUSED = {
    "of several variables": (
        lambda: xr.Dataset({"a": hard_cube(), "b": hard_cube()}).lstsq.solve(TERMS),
        hard_cube, r"one of \['a', 'b'\], and cube is a DataArray",
    ),
    "of another variable": (
        lambda: hard_cube().to_dataset().lstsq.solve(TERMS),
        lambda: hard_cube().rename("g").to_dataset(), r"variable 'h', and the Dataset has \['g'\]",
    ),
    "of part of its params": (
        lambda: hard_cube().lstsq.solve(TERMS).isel(param=[0]),
        hard_cube, "Validate it before selecting along 'param'",
    ),
    "without its design": (
        lambda: hard_cube().lstsq.solve(matrix("plain")).drop_vars("design_matrix"),
        hard_cube, "the fit has lost 'design_matrix'",
    ),
    "of more samples": (
        lambda: hard_cube().lstsq.solve(matrix("plain")),
        lambda: hard_cube()[:9], "has 50 rows, and 'h' has 9 samples",
    ),
    "of other pixels": (
        lambda: hard_cube().lstsq.solve(TERMS),
        lambda: hard_cube().assign_coords(x=np.arange(8.0) + 100),
        "along 'x' the fit is not one of 'h'",
    ),
    "of other dims": (
        lambda: hard_cube().lstsq.solve(TERMS),
        lambda: hard_cube()[:, 0], r"of pixels along \('y', 'x'\)",
    ),
    "of no cube": (lambda: hard_cube().lstsq.solve(TERMS), lambda: 1, "cube is a int"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_fit_that_is_not_one_of_the_cube_is_refused(what: str) -> None:
    fit, cube, message = REFUSED[what]
    with pytest.raises((ValueError, TypeError), match=message):
        fit().lstsq.validate(cube())


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
