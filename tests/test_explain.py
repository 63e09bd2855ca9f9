"""`explain`: what it says of a cube is so, it refuses what `solve` refuses, and reads little."""

from __future__ import annotations

import inspect
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import torch
import xarray as xr
from click.testing import CliRunner

import xr_lstsq
from xr_lstsq import outputs, runs
from xr_lstsq.cli import main
from xr_lstsq.design.matrix import from_term
from xr_lstsq.errors import ChunkError, DeviceError, LabelError
from xr_lstsq.preview import explanation, sample
from xr_lstsq.solvers import least_squares
from xr_lstsq.solvers.factor import factorise
from xr_lstsq.solvers.least_squares import Lane
from xr_lstsq.solvers.problem import Problem, weigh
from xr_lstsq.solvers.shared import share

if TYPE_CHECKING:
    import distributed

DESIGN = "polynomial(1) + harmonics(1, 2)"


def make_cube(n: int = 40, y: int = 12, x: int = 15) -> xr.DataArray:
    """Make a cube whose pixels start in many lanes: gaps from none to all."""
    rng = np.random.default_rng(7)
    values = rng.normal(size=(n, y, x)).astype(np.float32)
    values[rng.random(values.shape) < np.linspace(0.0, 1.0, x) ** 2] = np.nan
    values[:, 0, :3] = np.nan
    times = np.datetime64("2015-01-05", "ns") + np.arange(n) * np.timedelta64(31, "D")
    return xr.DataArray(values, {"time": times}, ("time", "y", "x"), name="ndvi")


def chosen(cube: xr.DataArray, design: str = DESIGN) -> dict[str, int]:
    """Return the lanes of all pixels of a cube in memory, found without the device room."""
    term = xr_lstsq.design.parse(design)
    matrix = from_term(term, cube["time"], "time", "param").array.values
    samples = weigh(torch.from_numpy(cube.values.reshape(cube.sizes["time"], -1)))
    problem = Problem(
        samples.y,
        samples.weights,
        samples.nobs,
        samples.square,
        flags=True,
        design=share(factorise(matrix, None, None), torch.device("cpu")),
    )
    lanes = least_squares.choose(problem).numpy()
    return {lane.name.lower(): int((lanes == lane).sum()) for lane in Lane if (lanes == lane).any()}


def explained(cube: xr.DataArray, design: Any = DESIGN, **options: Any) -> xr_lstsq.Explanation:
    found = cube.lstsq.explain(design, **{"device": "cpu", **options})
    assert isinstance(found, xr_lstsq.Explanation)
    return found


def test_lanes_of_a_small_cube_are_those_the_solver_chooses() -> None:
    cube = make_cube()
    found = explained(cube)
    assert len(found.lanes) > 3
    assert found.lanes == chosen(cube)
    assert (found.sampled, found.pixels, found.samples, found.params) == (180, 180, 40, 6)
    assert found.seconds > 0
    assert found.device == "cpu"
    assert found.precision == "float64"


@pytest.mark.parametrize("order", [("y", "x", "time"), ("x", "time", "y")])
def test_lanes_do_not_depend_on_the_order_of_dims_or_on_chunks(order: tuple[str, ...]) -> None:
    cube = make_cube()
    for turned in (cube.transpose(*order), cube.transpose(*order).chunk(y=6, time=-1)):
        assert explained(turned).lanes == chosen(cube)


def test_a_large_cube_is_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    cube = make_cube(y=40)
    every = chosen(cube)
    monkeypatch.setattr(sample, "MOST_PIXELS", 200)
    found = explained(cube)
    assert found.sampled == 200
    assert found.pixels == 600
    assert sum(found.lanes.values()) == 600
    for lane, number in found.lanes.items():
        # 4 standard errors of a share
        assert number == pytest.approx(every[lane], abs=600 * 4 * 0.5 / 200**0.5)
    assert found.lanes == explained(cube).lanes  # the same draw every time
    assert "from a sample of 200 pixels" in str(found)


def test_costly_pixels_make_a_smaller_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "MOST_WORK", 100 * 40 * 6**2)
    assert explained(make_cube()).sampled == 100


def test_samples_that_do_not_count_are_known() -> None:
    cube = make_cube()
    hidden = xr.ones_like(cube, dtype=bool) & (cube["time"] > cube["time"][3])
    want = chosen(cube.where(hidden))
    assert explained(cube, valid=hidden).lanes == want
    assert explained(cube, valid=hidden.isel(y=0, x=0)).lanes == want
    filled = cube.fillna(-9999.0)
    assert explained(filled).lanes == {"complete": 180}
    assert explained(filled, nodata=-9999.0).lanes == chosen(cube)
    # Also where the cube is cut up for its sample
    marked = filled.assign_attrs(missing_value=-9999.0).chunk(y=6)
    assert explained(marked).lanes == chosen(cube)


def test_weights_of_each_sample_need_the_gram_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    cube = make_cube().fillna(0.0)
    weights = xr.ones_like(cube) + xr.DataArray(np.linspace(0, 1, 12), dims="y")
    shared = xr.DataArray(np.linspace(1, 2, 40), dims="time")
    for most in (4096, 50):
        monkeypatch.setattr(sample, "MOST_PIXELS", most)
        assert explained(cube, weights=weights).lanes == {"gram": 180}
        assert explained(cube, weights=weights.isel(x=0)).lanes == {"gram": 180}
        assert explained(cube, weights=weights.isel(x=0).chunk(y=5)).lanes == {"gram": 180}
        assert explained(cube, weights=shared).lanes == {"complete": 180}


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("most", [4096, 50])
def test_a_design_per_pixel(lazy: bool, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "MOST_PIXELS", most)
    cube = make_cube().fillna(1.0)
    rows = np.random.default_rng(0).normal(size=(40, 3, 12))
    rows[:, 2, 0] = rows[:, 1, 0]  # the first row of pixels is short of rank
    design = xr.DataArray(rows, dims=("time", "param", "y"))
    found = explained(cube.chunk(y=12) if lazy else cube, design, dim="time")
    assert found.lanes == {"own_design": 180}
    assert found.params == 3
    if most > 180:
        assert found.again == {"own_design": 15}
        assert "(15 solved again)" in str(found)


def test_pixels_that_their_lane_cannot_keep_are_counted_however_many() -> None:
    # Two coefficients that only the second half tells apart
    half = np.arange(40) >= 20
    cube = make_cube().fillna(0.0)
    design = np.c_[np.ones(40), half, np.linspace(-1, 1, 40)].astype(float)
    # few, which are collected, and most, which are solved at once
    for short in (slice(0, 1), slice(0, 9)):
        cut = cube.copy()
        cut[20:, short] = np.nan
        found = explained(cut, design, dim="time")
        assert sum(found.again.values()) == short.stop * 15
        assert found.again["complete"] == 0


def test_every_pixel_of_a_design_short_of_rank_of_all_samples() -> None:
    design = np.c_[np.ones(40), np.zeros(40)]
    found = explained(make_cube(), design, dim="time", rcond=0.5)
    assert set(found.lanes) <= {lane.name.lower() for lane in Lane}
    assert sum(found.lanes.values()) == 180


def test_precision_and_sizes_follow_the_dtype() -> None:
    cube = make_cube()
    single, double = explained(cube, dtype="float32"), explained(cube)
    assert single.precision == "float32"
    assert single.batch_bytes < double.batch_bytes
    assert single.output_bytes["coef"] * 2 == double.output_bytes["coef"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bytes_of_the_answer_are_those_of_the_fit(dtype: str) -> None:
    cube = make_cube().assign_attrs(units="radians")
    some = ("dof", "rss", "rmse", "residual", "fitted")
    ways: list[dict[str, Any]] = [
        {},
        {"stats": some},
        {"stats": outputs.STATS},
        {"stats": some, "noise": "ar1"},
        {"stats": ("dof", "cov", "conf_int"), "cov_type": "ar1"},
    ]
    for way in ways:
        fit = cube.lstsq.solve(DESIGN, dtype=dtype, **way)
        want = {str(name): array.nbytes for name, array in fit.data_vars.items()}
        assert explained(cube, dtype=dtype, **way).output_bytes == want
    assert want["dof"] == 180 * (4 if dtype == "float32" else 8)  # a real number of samples
    assert want["cov"] == 6 * want["coef"]


def test_a_pixel_of_many_statistics_takes_more_memory() -> None:
    cube = make_cube()
    sizes = [
        explained(cube, **way).batch_bytes
        for way in ({}, {"stats": "stderr"}, {"stats": ("stderr", "cov", "leverage", "cond")})
    ]
    assert sizes == sorted(set(sizes))
    with pytest.raises(DeviceError, match="one pixel needs"):
        explained(cube, max_memory=sizes[0] // 180, stats=("cov", "leverage"))
    whitened = explained(cube, noise="ar1")  # a design for each pixel
    assert whitened.batch_bytes > sizes[0] + 180 * 2 * 40 * 6 * 8


def test_a_batch_fits_into_the_memory_that_is_given() -> None:
    cube = make_cube()
    free, tight = explained(cube), explained(cube, max_memory="200 kB")
    assert free.batch_pixels == 180
    assert 0 < tight.batch_pixels < 180
    assert tight.batch_bytes <= 200_000
    assert explained(cube.chunk(y=4, x=5)).batch_pixels == 20
    with pytest.raises(DeviceError, match="one pixel needs"):
        explained(cube, max_memory=100)


def test_the_time_is_that_of_a_pixel_times_pixels_over_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import dataclasses

    from xr_lstsq import device

    real = device.survey

    def set_numbers(*arrays: Any, **options: Any) -> device.Survey:
        found = real(*arrays, **options)
        return dataclasses.replace(found, seconds=0.5, cores=4, batch_pixels=100)

    monkeypatch.setattr(device, "survey", set_numbers)
    cube = make_cube()
    assert explained(cube).seconds == 0.5 * 180 / 2  # two batches keep two cores busy
    assert explained(cube.chunk(y=2)).seconds == 0.5 * 180 / 4
    assert "about 45 s, without reading and writing" in str(explained(cube))


def counted(cube: xr.DataArray, chunks: tuple[Any, ...]) -> tuple[xr.DataArray, list[Any]]:
    """Return a lazy cube, and a list that gets one entry for each chunk that is made."""
    made: list[Any] = []
    lock = threading.Lock()

    def make(block: np.ndarray[Any, Any], block_info: Any = None) -> np.ndarray[Any, Any]:
        with lock:
            made.append(block_info[0]["chunk-location"])
        return block

    lazy = da.from_array(cube.values, chunks=chunks).map_blocks(
        make, dtype=cube.dtype, meta=cube.values[:0]
    )
    return cube.copy(data=lazy), made


def test_few_chunks_of_a_lazy_cube_are_read() -> None:
    lazy, made = counted(make_cube(y=60, x=45), (40, 5, 9))
    found = explained(lazy)
    assert 2 <= len(made) <= 3
    assert len({place[1] for place in made}) > 1  # spread over the cube
    assert found.sampled == len(made) * 45
    assert found.pixels == sum(found.lanes.values()) == 2700


def test_a_piece_of_a_large_chunk_is_contiguous_and_within_bounds() -> None:
    lazy, made = counted(make_cube(n=12, y=130, x=200), (12, 65, 200))
    found = explained(lazy, "polynomial(1)")
    assert len(made) == 2
    assert 1024 < found.sampled <= 4096
    assert found.batch_pixels <= 65 * 200


def test_lazy_chunks_along_the_samples() -> None:
    cut = make_cube().chunk(time=10)
    with pytest.raises(ChunkError, match="rechunk=True"):
        explained(cut)
    assert explained(cut, rechunk=True).lanes == chosen(make_cube())


def test_on_a_cluster_a_worker_looks_at_the_sample(cluster: distributed.Client) -> None:
    assert cluster.scheduler_info()["workers"]
    assert explained(make_cube().chunk(y=4)).lanes == chosen(make_cube())


def test_a_dataset_has_one_table_a_variable() -> None:
    cube = make_cube()
    cubes = xr.Dataset({"ndvi": cube, "evi": cube.fillna(0.0), "w": xr.ones_like(cube)})
    found = cubes.lstsq.explain(DESIGN, weights="w", data=["ndvi", "evi"], device="cpu")
    assert isinstance(found, xr_lstsq.Explanations)
    assert list(found) == ["ndvi", "evi"]
    assert found["evi"].lanes == {"gram": 180}
    assert found.seconds == found["ndvi"].seconds + found["evi"].seconds
    first, second, last = str(found).split("\n\n")
    assert first.startswith("ndvi: 180 pixels of 40 samples, 6 params\n")
    assert second.startswith("evi: ")
    assert last.startswith("all together: about ")
    assert repr(found) == str(found)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_cubes_without_samples_or_pixels(shape: tuple[int, int]) -> None:
    found = explained(
        xr.DataArray(np.zeros(shape), dims=("t", "x")), np.ones((shape[0], 1)), dim="t"
    )
    assert found.lanes == ({"none": 4} if shape[1] else {})
    assert found.output_bytes["coef"] == 8 * shape[1]
    assert str(found)


def test_a_cube_of_one_pixel() -> None:
    found = explained(xr.DataArray(np.arange(5.0), dims="t"), np.ones((5, 1)), dim="t")
    assert found.lanes == {"complete": 1}
    assert "1 pixel of 5 samples, 1 param" in str(found)


@pytest.mark.parametrize(
    "bad",
    [
        {"design": "polynomal(1)"},
        {"dim": "tme"},
        {"weights": "w"},
        {"weights": xr.DataArray([-1.0] * 40, dims="time")},
        {"valid": xr.DataArray([0.5] * 40, dims="time")},
        {"stats": "rsquare"},
        {"min_obs": 0},
        {"deficient": "zero"},
        {"rcond": 2.0},
        {"dtype": "float16"},
        {"device": "tpu"},
        {"max_memory": "much"},
        {"data": "ndvi"},
        {"mask": 1},
        {"param_dim": "y"},
        {"nodata": "none"},
    ],
    ids=lambda bad: next(iter(bad)),
)
def test_what_solve_refuses_is_refused_in_the_same_words(bad: dict[str, Any]) -> None:
    arguments = {"design": DESIGN, **bad}
    with pytest.raises((ValueError, TypeError, RuntimeError)) as solving:
        make_cube().lstsq.solve(**arguments)
    with pytest.raises(type(solving.value)) as explaining:
        make_cube().lstsq.explain(**arguments)
    assert str(explaining.value) == str(solving.value)


def test_too_few_arguments() -> None:
    with pytest.raises(TypeError, match="design"):
        make_cube().lstsq.explain()


@pytest.mark.parametrize("kind", [xr.DataArray, xr.Dataset], ids=lambda kind: kind.__name__)
def test_explain_takes_exactly_the_arguments_of_solve(kind: type) -> None:
    cube = make_cube() if kind is xr.DataArray else make_cube().to_dataset()
    for solve, explain in (
        (xr_lstsq.solve, xr_lstsq.explain),
        (cube.lstsq.solve, cube.lstsq.explain),
    ):
        ours = inspect.signature(explain).parameters
        assert list(ours.values()) == list(inspect.signature(solve).parameters.values())


def test_the_warning_of_what_is_not_fitted_points_at_the_caller() -> None:
    cubes = xr.Dataset({"ndvi": make_cube(), "height": make_cube().isel(time=0, drop=True)})
    for function in (xr_lstsq.solve, xr_lstsq.explain):
        with pytest.warns(UserWarning, match="Not fitted: height") as caught:
            function(cubes, DESIGN)
        assert caught[0].filename == __file__


def test_every_lane_has_its_words() -> None:
    assert set(explanation.LANES) == {lane.name.lower() for lane in Lane}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.00123, "1.2 ms"), (0.5, "500 ms"), (12.34, "12 s"), (600, "10 min"), (1e5, "28 h")],
)
def test_times_are_read_easily(seconds: float, text: str) -> None:
    assert explanation._time(seconds) == text


# --------------------------------------------------------------------------------------- the shell


def call(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["explain", *arguments])


def test_the_shell_prints_the_table_of_the_sample_cube(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [str(runs.sample_path()), "--design", DESIGN, "--var", "ndvi", "--valid", "valid"]
    result = call(*arguments, "--stats", "rmse", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0] == "ndvi: 10,100 pixels of 68 samples, 6 params"
    assert lines[1].split()[:2] == ["device", "cpu,"]
    assert any(line.split() == ["rmse", "78.9", "KiB"] for line in lines)
    assert "from a sample of 2,550 pixels" in result.stdout
    assert not any(tmp_path.iterdir())


def test_the_file_and_the_cube_in_memory_agree(tmp_path: Path) -> None:
    cube = make_cube()
    cube.to_netcdf(tmp_path / "in.nc")
    found = runs.explain_file(tmp_path / "in.nc", DESIGN, stats="rss", device="cpu")
    want = explained(cube, stats="rss")
    assert found.lanes == want.lanes
    assert found.output_bytes == want.output_bytes


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "--design"),
        (["--design", "poly(1)", "--var", "ndvi"], 2, "poly"),
        (["--design", DESIGN, "--var", "ndwi"], 2, "var='ndwi' is not a variable of the file"),
        (["--design", DESIGN, "--var", "ndvi", "--chunks", "time=5"], 2, "chunks cuts 'time'"),
        (["--design", DESIGN, "--var", "ndvi", "--device", "cuda:99"], 1, "cuda:99"),
        (["--design", DESIGN, "--store", "float32"], 2, "--store"),
    ],
)
def test_an_error_has_its_exit_code(arguments: list[str], code: int, message: str) -> None:
    result = call(str(runs.sample_path()), *arguments)
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert result.stdout == ""


def test_a_name_that_the_file_does_not_have() -> None:
    with pytest.raises(LabelError, match="valid='clear' is not a variable"):
        runs.explain_file(runs.sample_path(), DESIGN, var="ndvi", valid="clear")
