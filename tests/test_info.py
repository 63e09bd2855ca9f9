from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

import xr_lstsq
from xr_lstsq import runs
from xr_lstsq.cli import main
from xr_lstsq.formats import windows


@pytest.fixture
def cube() -> xr.Dataset:
    rng = np.random.default_rng(3)
    values = rng.normal(5, 1, (20, 6, 7))
    values[:, 0, :3] = np.nan
    values[1:, 1, 0] = np.nan  # one sample does not tell two params
    time = np.datetime64("2015-01-01", "ns") + np.arange(20) * np.timedelta64(100, "D")
    return xr.Dataset(
        {"h": (("time", "y", "x"), values, {"units": "m"}), "w": ("time", np.arange(1.0, 21.0))},
        coords={"time": time},
    )


def test_a_fit_says_what_it_is_made_of(cube: xr.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "fit.nc"
    cube["h"].lstsq.solve(
        "polynomial(1, unit=day)", weights=cube["w"], min_obs=1, stats=("stderr", "rss")
    ).lstsq.to_netcdf(path)
    found = runs.info_file(path)
    (one,) = found.variables
    assert one.name == "h"
    assert one.terms.startswith("polynomial(1, unit=day, origin=2000-01-01,")
    assert one.samples == "time, 2015-01-01 to 2020-03-15"
    assert one.sizes == {"y": 6, "x": 7}
    assert one.params == {
        "intercept": ("m", "value at 2000-01-01"),
        "slope": ("m day-1", "rate of change"),
    }
    assert one.arguments["weights"] == "w"
    assert one.arguments["min_obs"] == 1
    assert "valid" not in one.arguments
    assert one.version == xr_lstsq.__version__
    assert {n: c for n, c in one.statuses.items() if c} == {
        "solved": 38,
        "no_data": 3,
        "rank_deficient": 1,
    }
    assert found.disk_bytes == path.stat().st_size
    assert {"coef", "stderr", "rss", "status"} <= {*found.contents}
    assert "to_netcdf" in found.history


def test_the_shell_shows_it_as_a_table(cube: xr.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "fit.nc"
    cube["h"].lstsq.solve("polynomial(1)").lstsq.to_netcdf(path)
    result = CliRunner().invoke(main, ["info", str(path)])
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.output.splitlines()]
    assert ["pixels", "42", "(y", "6,", "x", "7)"] in lines
    assert any(line[:2] == ["terms", "polynomial(1,"] for line in lines)
    assert ["slope", "m", "year-1", "rate", "of", "change"] in lines
    assert ["no_data", "3", "7.1%"] in lines
    assert not any(line[:1] == ["failed"] for line in lines)


def test_statuses_are_counted_in_pieces(
    cube: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fit.nc"
    cube["h"].lstsq.solve("polynomial(1)").lstsq.to_netcdf(path)
    whole = runs.info_file(path).variables[0].statuses
    monkeypatch.setattr(windows, "SLAB_BYTES", 12)
    sizes: list[int] = []
    original = xr.Variable.to_numpy

    def count(variable: xr.Variable) -> object:
        sizes.append(variable.size)
        return original(variable)

    monkeypatch.setattr(xr.Variable, "to_numpy", count)
    assert runs.info_file(path).variables[0].statuses == whole
    assert max(sizes) <= 12


def test_the_fits_of_a_dataset_and_of_a_matrix_are_told(cube: xr.Dataset, tmp_path: Path) -> None:
    two = cube[["h"]].assign(g=cube["h"] * 2)
    two.lstsq.solve("polynomial(0)").lstsq.to_netcdf(tmp_path / "two.nc")
    assert [one.name for one in runs.info_file(tmp_path / "two.nc").variables] == ["h", "g"]
    matrix = np.stack([np.ones(20), np.arange(20.0)], axis=1)
    cube["h"].lstsq.solve(matrix, "time").drop_vars("status").to_netcdf(tmp_path / "m.nc")
    (one,) = runs.info_file(tmp_path / "m.nc").variables
    assert one.terms == "given as a matrix"
    assert len(one.params) == 2
    assert one.statuses == {}
    assert "not in the file" in str(runs.info_file(tmp_path / "m.nc"))


def test_a_file_without_a_fit_is_refused(cube: xr.Dataset, tmp_path: Path) -> None:
    cube.to_netcdf(tmp_path / "cube.nc")
    with pytest.raises(ValueError, match=r"cube\.nc' holds no fit: .*\(h, w\)"):
        runs.info_file(tmp_path / "cube.nc")
    result = CliRunner().invoke(main, ["info", str(tmp_path / "no.nc")])
    assert result.exit_code == 1
    assert "does not exist" in result.stderr
