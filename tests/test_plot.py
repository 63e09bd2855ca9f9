from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import xr_lstsq
from xr_lstsq import plot
from xr_lstsq.errors import WriteError

DESIGN = "polynomial(1) + harmonics(1, 2)"


@pytest.fixture(scope="module")
def cube() -> xr.Dataset:
    """Make a cube with a known amplitude and slope, noise, gaps, and one pixel without samples."""
    rng = np.random.default_rng(0)
    times = np.datetime64("2015-01-05", "ns") + np.arange(60) * np.timedelta64(12, "D")
    years = (times - np.datetime64("2000-01-01", "ns")) / np.timedelta64(1, "D") / 365.25
    amplitude = np.linspace(0.1, 0.4, 8)
    signal = 0.02 * years[:, None, None] + amplitude * np.cos(2 * np.pi * years)[:, None, None]
    ndvi = signal + rng.normal(0, 0.01, size=(60, 6, 8))
    valid = rng.random((60, 6, 8)) < 0.7
    valid[20:30] = False
    valid[:, 0, 0] = False
    return xr.Dataset(
        {
            "ndvi": (("time", "y", "x"), ndvi, {"units": "1", "long_name": "an index"}),
            "valid": (("time", "y", "x"), valid),
        },
        coords={
            "time": times,
            "y": 5e6 - 10.0 * np.arange(6),
            "x": 4e5 + 10.0 * np.arange(8),
            "spatial_ref": ((), 0, {"grid_mapping_name": "transverse_mercator"}),
        },
    )


@pytest.fixture(scope="module")
def fit(cube: xr.Dataset) -> xr.Dataset:
    return xr_lstsq.solve(cube["ndvi"], DESIGN, valid=cube["valid"], stats=("fitted",))


def test_the_curve_is_the_fit_at_the_dates_of_the_cube(cube: xr.Dataset, fit: xr.Dataset) -> None:
    pixel = {"y": 3, "x": 4}
    got = plot.curve(fit, cube["time"], pixel)
    np.testing.assert_allclose(got, fit["fitted"].isel(pixel), rtol=1e-10, atol=1e-12)
    assert plot.curve(fit, cube["time"], {"y": 0, "x": 0}).isnull().all()


def test_the_picture_shows_the_numbers_of_the_fit(cube: xr.Dataset, fit: xr.Dataset) -> None:
    figure = plot.overview(fit, cube["ndvi"], valid=cube["valid"])
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[:3] == [
        "Annual amplitude (NDVI)",
        "Slope (NDVI per year)",
        "Samples that count (nobs)",
    ]
    amplitude, slope, nobs = (axes.collections[0].get_array() for axes in figure.axes[:3])
    want = np.hypot(fit["coef"].sel(param="cos_1"), fit["coef"].sel(param="sin_1"))
    np.testing.assert_array_equal(amplitude[~amplitude.mask], want.values[np.isfinite(want)])
    assert amplitude.mask[0, 0]
    assert abs(float(slope[3, 4]) - 0.02) < 0.02
    np.testing.assert_array_equal(nobs, fit["nobs"])
    low, high = figure.axes[1].collections[0].get_clim()
    assert low == -high


def test_the_series_shows_gaps_and_what_is_left_out(cube: xr.Dataset, fit: xr.Dataset) -> None:
    pixel = {"y": 2, "x": 5}
    figure = plot.overview(fit, cube["ndvi"], valid=cube["valid"], pixel=pixel)
    series = figure.axes[3]
    assert series.get_title(loc="left") == "Ringed pixel: easting 400.05 km, northing 4999.98 km"
    curve, left_out, counts = series.lines
    number = int(cube["valid"].isel(pixel).sum())
    assert len(counts.get_xdata()) == number == int(fit["nobs"][2, 5])
    assert len(left_out.get_xdata()) == 60 - number
    assert len(curve.get_xdata()) >= 500
    assert len(series.patches) >= 1
    labels = [text.get_text() for text in series.get_legend().get_texts()]
    assert labels[0] == "no sample for over 40 days"
    assert labels[-1] == f"samples that count ({number})"


def test_the_map_has_kilometres_and_a_scale_bar(cube: xr.Dataset, fit: xr.Dataset) -> None:
    axes = plot.overview(fit, cube["ndvi"]).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Easting (km)", "Northing (km)")
    assert axes.get_xlim() == pytest.approx((399.995, 400.075))
    assert [text.get_text() for text in axes.texts] == ["20 m"]


def test_degrees_are_shown_as_they_are(cube: xr.Dataset, fit: xr.Dataset) -> None:
    def as_degrees(data: xr.Dataset) -> xr.Dataset:
        return data.drop_vars("spatial_ref").assign_coords(
            x=("x", 15 + 0.01 * np.arange(8), {"units": "degrees_east"}),
            y=("y", 46 - 0.01 * np.arange(6), {"units": "degrees_north"}),
        )

    figure = plot.overview(as_degrees(fit), as_degrees(cube)["ndvi"])
    assert figure.axes[0].get_xlabel() == "x (degrees_east)"
    assert not figure.axes[0].texts
    assert "x 15." in figure.axes[3].get_title(loc="left")


def test_the_picture_is_saved_whole(cube: xr.Dataset, fit: xr.Dataset, tmp_path: Path) -> None:
    figure = plot.overview(fit, cube["ndvi"], valid=cube["valid"])
    plot.save(figure, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["map.png"]
    with pytest.raises(WriteError, match="is not a directory"):
        plot.save(figure, tmp_path / "no" / "map.png")


def test_a_fit_by_a_matrix_has_no_curve(cube: xr.Dataset) -> None:
    fit = xr_lstsq.solve(cube["ndvi"], np.ones((60, 1)), dim="time")
    with pytest.raises(ValueError, match="matrix"):
        plot.curve(fit, cube["time"], {"y": 0, "x": 1})
