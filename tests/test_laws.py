"""Laws that any least-squares fit of a cube with gaps obeys, whatever computes it.

Tolerances come from the oracle: eps times condition of each pixel. A pixel that has a singular
value within a factor 10 of the rank cut-off is left out, its rank is a matter of rounding.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import xr_lstsq
import xr_lstsq.device  # not imported by the package itself before the first solve
from tests import oracle, strategies

if TYPE_CHECKING:
    from collections.abc import Callable

    import distributed

    from tests.strategies import Problem

STATS = ("dof", "rss", "rmse", "residual", "fitted")
EXACT = ("nobs", "rank", "status", "dof")
DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.gpu))
SOLVED, NO_DATA, TOO_FEW_OBS, RANK_DEFICIENT, FAILED = 0, 1, 2, 3, 5


def solve(problem: Problem, **changes: Any) -> xr.Dataset:
    arguments = {**problem.arguments(), "stats": STATS, "device": "cpu", **changes}
    return xr_lstsq.solve(arguments.pop("cube", problem.cube), **arguments)


def reference(problem: Problem) -> xr.Dataset:
    """Fit each pixel by the oracle; tolerances and margin are variables of the result."""
    cube = problem.cube
    dims = cube.dims[1:]
    full = {
        "design": problem.design.broadcast_like(cube).transpose("sample", "param", *dims),
        "weights": problem.weights,
        "valid": problem.valid,
    }
    for name in ("weights", "valid"):
        if full[name] is not None:
            full[name] = full[name].broadcast_like(cube).transpose("sample", *dims)
    fits = [
        oracle.fit(
            *(
                None if array is None else array.values[(..., *pixel)]
                for array in (cube, full["design"], full["weights"], full["valid"])
            )
        )
        for pixel in np.ndindex(cube.shape[1:])
    ]
    leading = {"coef": "param", "coef_tol": "param"}
    leading |= dict.fromkeys(("fitted", "fitted_tol", "residual"), "sample")
    variables = {}
    for name in oracle.Fit.__dataclass_fields__:
        stack = np.stack([getattr(fit, name) for fit in fits], axis=-1)
        stack = stack.reshape(stack.shape[:-1] + cube.shape[1:])
        variables[name] = ((leading[name], *dims) if name in leading else dims, stack)
    result = xr.Dataset(variables)
    short = (result["rank"] < problem.design.sizes["param"]) & (result["nobs"] > 0)
    status = xr.where(short, RANK_DEFICIENT, SOLVED)
    result["status"] = xr.where(result["nobs"] == 0, NO_DATA, status)
    return result


def assert_same(got: xr.Dataset, want: xr.Dataset, limits: xr.Dataset, *names: str) -> None:
    """Compare variables within the tolerances of `limits`; counts and codes exactly."""
    clear = limits["margin"] > 10
    tolerances = {
        "coef": limits["coef_tol"],
        "fitted": limits["fitted_tol"],
        "residual": limits["fitted_tol"],
        "rss": limits["rss_tol"],
    }
    for name in names or ("coef", *EXACT, *STATS):
        a, b = (strip(x[name]).where(clear) for x in (got, want))
        if name == "rmse":  # the square root has no bounded slope at 0
            a, b = a**2 * limits["nobs"], b**2 * limits["nobs"]
            tolerance = 2 * limits["rss_tol"] + 4 * oracle.EPS * limits["rss"]
        else:
            tolerance = tolerances.get(name, xr.zeros_like(b))
        b, tolerance = b.transpose(*a.dims), tolerance.broadcast_like(b).transpose(*a.dims)
        assert a.shape == b.shape, name
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b), err_msg=name)
        off = abs(a - b) - tolerance
        assert not (off > 0).any(), f"{name} is off by {float(abs(a - b).max())}:\n{off.values}"


def strip(array: xr.DataArray) -> xr.DataArray:
    return array.reset_coords(drop=True).drop_vars(list(array.coords))


# --------------------------------------------------------------------------------------------
# Gaps, weights, order and units


@pytest.mark.parametrize("device", DEVICES)
@given(problem=strategies.problems())
@settings(max_examples=150)
def test_every_pixel_equals_the_oracle_that_drops_its_gaps(problem: Problem, device: str) -> None:
    want = reference(problem)
    assert_same(solve(problem, device=device), want, want)


@given(problem=strategies.problems(), seed=st.integers(0, 2**20))
def test_a_gap_is_a_dropped_row_is_weight_zero_is_a_sample_not_valid(
    problem: Problem, seed: int
) -> None:
    gone = np.random.default_rng(seed).random(problem.cube.sizes["sample"]) < 0.3
    assume(not gone.all())
    away = xr.DataArray(gone, dims="sample")
    kept = np.flatnonzero(~gone)
    ones = xr.ones_like(problem.cube)
    weights = ones if problem.weights is None else problem.weights
    valid = ones.astype(bool) if problem.valid is None else problem.valid

    def rows(array: xr.DataArray | None) -> xr.DataArray | None:
        return array.isel(sample=kept) if array is not None and "sample" in array.dims else array

    gap = solve(problem, cube=problem.cube.where(~away))
    limits = reference(replace(problem, cube=problem.cube.where(~away)))
    others = {
        "weight zero": solve(problem, weights=xr.where(away, 0.0, weights)),
        "weight NaN": solve(problem, weights=xr.where(away, np.nan, weights)),
        "not valid": solve(problem, valid=valid & ~away),
        "row of the design NaN": solve(problem, design=problem.design.where(~away)),
    }
    names = ("coef", *EXACT, "rss", "rmse", "residual")
    for other in others.values():
        assert_same(other, gap, limits, *names)
    dropped = solve(
        problem,
        cube=rows(problem.cube),
        design=rows(problem.design),
        weights=rows(problem.weights),
        valid=rows(problem.valid),
    )
    assert_same(dropped, gap, limits, "coef", *EXACT, "rss", "rmse")


@given(problem=strategies.problems(weighted=True), seed=st.integers(0, 2**20))
def test_a_row_that_stands_twice_is_a_row_of_twice_the_weight(problem: Problem, seed: int) -> None:
    twice = np.random.default_rng(seed).random(problem.cube.sizes["sample"]) < 0.4
    order = np.concatenate([np.arange(twice.size), np.flatnonzero(twice)])

    def repeat(array: xr.DataArray | None) -> xr.DataArray | None:
        return None if array is None else array.isel(sample=order)

    repeated = solve(
        problem,
        cube=repeat(problem.cube),
        design=repeat(problem.design),
        weights=repeat(problem.weights),
        valid=repeat(problem.valid),
    )
    assert problem.weights is not None
    heavy = solve(problem, weights=problem.weights * xr.DataArray(1.0 + twice, dims="sample"))
    assert_same(repeated, heavy, 4 * reference(problem), "coef", "rank", "rss")


@given(problem=strategies.problems(weighted=True), factor=st.sampled_from([3.0, 1e-12, 1e12]))
def test_weights_times_a_constant_scale_rss_and_nothing_else(
    problem: Problem, factor: float
) -> None:
    assert problem.weights is not None
    one, many = solve(problem), solve(problem, weights=problem.weights * factor)
    many["rss"] = many["rss"] / factor
    assert_same(many, one, 2 * reference(problem), "coef", *EXACT, "rss", "fitted", "residual")


@given(problem=strategies.problems(), seed=st.integers(0, 2**20))
def test_the_order_of_samples_and_pixels_does_not_matter(problem: Problem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    order = {dim: rng.permutation(size) for dim, size in problem.cube.sizes.items()}

    def shuffle(array: xr.DataArray | None) -> xr.DataArray | None:
        return None if array is None else array.isel(order, missing_dims="ignore")

    shuffled = solve(
        problem,
        cube=shuffle(problem.cube),
        design=shuffle(problem.design),
        weights=shuffle(problem.weights),
        valid=shuffle(problem.valid),
    )
    straight = solve(problem).isel(order, missing_dims="ignore")
    limits = reference(problem).isel(order, missing_dims="ignore")
    assert_same(shuffled, straight, 2 * limits)


@given(problem=strategies.problems(max_pixels=3), order=st.permutations(range(4)))
def test_the_order_of_dims_does_not_matter(problem: Problem, order: list[int]) -> None:
    dims = [problem.cube.dims[i] for i in order if i < problem.cube.ndim]
    fit = solve(problem, cube=problem.cube.transpose(*dims))
    pixel_dims = tuple(dim for dim in dims if dim != "sample")
    assert fit["coef"].dims == ("param", *pixel_dims)
    assert fit["rank"].dims == pixel_dims
    assert fit["residual"].dims == fit["fitted"].dims == tuple(dims)
    assert_same(fit, solve(problem), 2 * reference(problem))


@given(problem=strategies.problems())
def test_the_weighted_residual_is_orthogonal_to_the_design(problem: Problem) -> None:
    fit, limits = solve(problem), reference(problem)
    weights = 1.0 if problem.weights is None else problem.weights
    columns = problem.design * np.sqrt(weights)
    counts = fit["residual"].notnull()
    columns = columns.where(counts, 0.0)
    size = np.sqrt((columns**2).sum("sample"))
    product = abs((columns * (np.sqrt(weights) * fit["residual"]).where(counts, 0.0)).sum("sample"))
    # |a| times an error of the residual.
    root = np.sqrt(limits["rss"].fillna(0.0) + limits["rss_tol"])
    unit = 16 * oracle.EPS * max(problem.design.sizes.values())
    target = np.sqrt((weights * problem.cube**2).where(counts, 0.0).sum("sample"))
    share = np.sqrt((size**2 * limits["coef"] ** 2).sum("param"))
    bound = size * unit * (limits["cond"] * root + target + share)
    clear = limits["margin"] > 10
    assert not (product > bound).where(clear, False).any()


@given(
    problem=strategies.problems(pixelwise=False),
    factor=st.sampled_from([1e-9, 0.3, 365.25, 1e18]),
    seed=st.integers(0, 100),
)
def test_a_regressor_in_other_units_changes_its_own_coefficient_only(
    problem: Problem, factor: float, seed: int
) -> None:
    column = seed % problem.design.sizes["param"]
    scale = xr.ones_like(problem.design.isel(sample=0, drop=True))
    scale[column] = factor
    one, limits = solve(problem), reference(problem)
    other = solve(problem, design=problem.design * scale)
    # In its gaps the fit of a short rank follows the coefficients, which are the shortest in their
    # own units; on the samples that count it does not move.
    counts = one["residual"].notnull()
    for fit in (one, other):
        fit["fitted"] = fit["fitted"].where(counts)
    assert_same(other, one, 2 * limits, *EXACT, "rss", "rmse", "fitted", "residual")
    full = limits["rank"] == problem.design.sizes["param"]
    limits["margin"] = limits["margin"].where(full, 1.0)
    other["coef"] = other["coef"] * strip(scale)
    assert_same(other, one, 2 * limits, "coef")


# --------------------------------------------------------------------------------------------
# What stands in a gap, and who the neighbours are


@given(problem=strategies.problems(), seed=st.integers(0, 2**20))
def test_what_stands_in_a_gap_changes_no_bit(problem: Problem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    hidden = xr.DataArray(rng.random(problem.cube.shape) < 0.3, dims=problem.cube.dims)
    valid = ~hidden if problem.valid is None else problem.valid & ~hidden
    clean = solve(problem, valid=valid, cube=problem.cube.where(valid))
    for poison in (np.nan, np.inf, -np.inf, 1e30, -9999.0, 0.0):
        fit = solve(problem, valid=valid, cube=problem.cube.where(valid, poison))
        xr.testing.assert_identical(fit.drop_attrs(), clean.drop_attrs())


BAD_PIXELS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "all missing": lambda y: np.full_like(y, np.nan),
    "all infinite": lambda y: np.full_like(y, np.inf),
    "one sample": lambda y: np.where(np.arange(y.size) == 1, y, np.nan),
    "rank short": lambda y: np.where(np.arange(y.size) % 3 == 0, y, np.nan),
    "all zero": np.zeros_like,
    "1e20 times larger": lambda y: y * 1e20,
    "1e-20 times smaller": lambda y: y * 1e-20,
    "so large that squares overflow": lambda y: y * 1e200,
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bad", BAD_PIXELS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_a_bad_pixel_never_disturbs_its_neighbours(bad: str, weighted: bool, device: str) -> None:
    rng = np.random.default_rng(5)
    n, pixels = 24, 40
    t = np.linspace(-1.0, 1.0, n)
    # Every third sample sees the last column as the first one again: rank short there.
    last = np.where(np.arange(n) % 3 == 0, 1.0, np.cos(7 * t))
    design = xr.DataArray(np.c_[np.ones(n), t, last], dims=("sample", "param"))
    y = rng.normal(size=(n, pixels)) + 2.0
    y[rng.random(y.shape) < 0.25] = np.nan
    weights = xr.DataArray(rng.uniform(0.5, 2.0, y.shape), dims=("sample", "x"))
    good = strategies.Problem(
        xr.DataArray(y, dims=("sample", "x")), design, weights if weighted else None, None, "good"
    )
    spoilt = y.copy()
    spoilt[:, 17] = BAD_PIXELS[bad](np.nan_to_num(y[:, 17]))
    others = [i for i in range(pixels) if i != 17]
    both = [
        solve(good, cube=xr.DataArray(values, dims=("sample", "x")), device=device).isel(x=others)
        for values in (spoilt, y)
    ]
    with_bad, without = both
    limits = reference(good).isel(x=others)
    assert_same(with_bad, without, 2 * limits)
    assert_same(with_bad, limits, limits)


@pytest.mark.parametrize("lazy", ["cube", "weights", "both"])
def test_a_negative_weight_in_a_lazy_array_fails_its_pixel_alone(lazy: str) -> None:
    rng = np.random.default_rng(6)
    y = xr.DataArray(rng.normal(size=(9, 6)), dims=("sample", "x"))
    weights = xr.DataArray(rng.uniform(0.5, 2.0, (9, 6)), dims=("sample", "x"))
    design = xr.DataArray(rng.normal(size=(9, 2)), dims=("sample", "param"))
    problem = strategies.Problem(y, design, weights, None, "generic")
    spoilt = weights.copy()
    spoilt[4, 3] = -1.0
    changes = {"weights": spoilt}
    if lazy in {"cube", "both"}:
        changes["cube"] = y.chunk(x=4)
    if lazy in {"weights", "both"}:
        changes["weights"] = spoilt.chunk(x=5)
    else:
        with pytest.raises(ValueError, match=r"weights has 1 values? below 0"):
            solve(problem, **changes)
        return
    fit = solve(problem, **changes).compute()
    assert fit["status"].values.tolist() == [0, 0, 0, FAILED, 0, 0]
    assert fit["coef"].isel(x=3).isnull().all()
    others = [0, 1, 2, 4, 5]
    limits = reference(problem).isel(x=others)
    assert_same(fit.isel(x=others), limits, limits)


# --------------------------------------------------------------------------------------------
# Chunks, batches, schedulers


@given(problem=strategies.problems(), data=st.data())
@settings(max_examples=40)
def test_any_chunking_gives_the_same_answer(problem: Problem, data: st.DataObject) -> None:
    chunks = data.draw(strategies.chunkings(problem.cube))
    changes: dict[str, Any] = {"cube": problem.cube.chunk(chunks)}
    for name in ("weights", "valid", "design"):
        array = getattr(problem, name)
        if array is not None and data.draw(st.booleans(), label=f"{name} lazy"):
            # Cut otherwise than the cube, as they come out of other files.
            changes[name] = array.chunk({"sample": 3, "x": 2} if "x" in array.dims else 3)
    lazy = solve(problem, **changes)
    scheduler = data.draw(st.sampled_from(["synchronous", "threads"]))
    assert all(variable.chunks is not None for variable in lazy.data_vars.values() if
               variable.name != "design_matrix" and variable.ndim)  # fmt: skip
    assert_same(lazy.compute(scheduler=scheduler), solve(problem), 2 * reference(problem))


@pytest.fixture(scope="module")
def network() -> Problem:
    """Return 3000 pixels of a network with gaps: full and short ranks side by side."""
    rng = np.random.default_rng(8)
    design = strategies._network(rng, 30, 12)
    y = design @ rng.normal(size=(12, 3000)) + rng.normal(size=(30, 3000))
    y[rng.random(y.shape) < rng.uniform(0.0, 0.8, 3000)] = np.nan
    cube = xr.DataArray(y.reshape(30, 50, 60), dims=("sample", "y", "x"), name="phase")
    weights = xr.DataArray(rng.uniform(0.1, 10.0, cube.shape), dims=cube.dims)
    return strategies.Problem(
        cube, xr.DataArray(design, dims=("sample", "param")), weights, None, "network"
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("memory", [3_000_000, 30_000_000, 3_000_000_000])
def test_any_batch_size_gives_the_same_answer(network: Problem, memory: int, device: str) -> None:
    limits = reference(network)
    assert_same(solve(network, max_memory=memory, device=device), limits, limits)


def test_the_process_scheduler_gives_the_same_answer(network: Problem) -> None:
    limits = reference(network)
    lazy = solve(network, cube=network.cube.chunk(y=20, x=35))
    assert_same(lazy.compute(scheduler="processes", num_workers=2), limits, limits)


def test_a_cluster_of_two_processes_gives_the_same_answer(
    network: Problem, cluster: distributed.Client
) -> None:
    limits = reference(network)
    # With weights cut otherwise, which workers have to exchange.
    weights = network.weights.chunk(sample=7, y=25, x=30)
    lazy = solve(network, cube=network.cube.chunk(y=20, x=35), weights=weights)
    assert lazy["coef"].chunks is not None
    assert_same(cluster.compute(lazy).result(), limits, limits)


class Reads:
    """A chunked array that counts how often each of its chunks is read."""

    def __init__(self, array: xr.DataArray, chunks: dict[str, int]) -> None:
        self.counts: dict[tuple[int, ...], int] = {}
        self._lock = threading.Lock()
        lazy = array.chunk(chunks)
        self.array = lazy.copy(
            data=da.map_blocks(
                self._read, lazy.data, dtype=array.dtype, meta=np.empty((0,) * array.ndim)
            )
        )

    def _read(self, block: np.ndarray, block_info: Any = None) -> np.ndarray:
        location = tuple(block_info[0]["chunk-location"])
        with self._lock:
            self.counts[location] = self.counts.get(location, 0) + 1
        return block


def refuse_to_compute(*_: Any, **__: Any) -> None:
    msg = "something was computed while the fit was built"
    raise AssertionError(msg)


@pytest.mark.parametrize("lazy", ["cube", "weights", "valid", "design", "all"])
def test_building_a_fit_computes_nothing(network: Problem, lazy: str) -> None:
    changes = {
        "cube": network.cube.chunk(y=20, x=35),
        "weights": network.weights.chunk(y=25, x=30),
        "valid": network.cube.notnull().chunk(y=25, x=30),
        "design": network.design.expand_dims(y=50).chunk(y=10),
    }
    with dask.config.set(scheduler=refuse_to_compute):
        fit = solve(network, **(changes if lazy == "all" else {lazy: changes[lazy]}))
    for name in ("coef", "nobs", "rank", "status", *STATS):
        assert fit[name].chunks is not None, name
    assert fit["coef"].shape == (12, 50, 60)
    assert fit["coef"].dtype == fit["rss"].dtype == fit["fitted"].dtype == np.float64
    assert fit["rank"].dtype == fit["nobs"].dtype == fit["dof"].dtype == np.int32
    assert fit["status"].dtype == np.int8


def test_computing_a_fit_reads_each_chunk_once_and_solves_it_once(
    network: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    cube = Reads(network.cube, {"y": 20, "x": 35})
    weights = Reads(network.weights, {"y": 20, "x": 35})
    fit = solve(network, cube=cube.array, weights=weights.array)
    shapes: list[tuple[int, ...]] = []
    solve_block = xr_lstsq.device.solve_block

    def counted(block: np.ndarray, *args: Any, **kwargs: Any) -> Any:
        shapes.append(block.shape)
        return solve_block(block, *args, **kwargs)

    monkeypatch.setattr(xr_lstsq.device, "solve_block", counted)
    fit.compute(scheduler="threads")
    assert set(cube.counts.values()) == {1}
    assert len(cube.counts) == 3 * 2
    assert cube.counts == weights.counts
    pixels = [(20, 35), (20, 25), (20, 35), (20, 25), (10, 35), (10, 25)]
    assert sorted(shapes) == sorted((30, *shape) for shape in pixels)


def test_the_pixel_chunks_of_the_cube_are_the_chunks_of_the_fit(network: Problem) -> None:
    cube = network.cube.chunk(y=(7, 30, 13), x=(60,))
    fit = solve(network, cube=cube, weights=network.weights.chunk(y=25, x=30))
    assert fit["coef"].chunks == ((12,), (7, 30, 13), (60,))
    assert fit["rss"].chunks == ((7, 30, 13), (60,))
    assert fit["residual"].chunks == cube.chunks


# --------------------------------------------------------------------------------------------
# Labels off and on again


def labelled() -> xr.DataArray:
    rng = np.random.default_rng(11)
    return xr.DataArray(
        rng.normal(size=(3, 6, 4)),
        dims=("y", "time", "x"),
        coords={
            "y": ("y", [30.0, 20.0, 10.0], {"axis": "Y"}),
            "x": [1.5, 2.5, 3.5, 4.5],
            "time": np.arange(np.datetime64("2020-01-01"), np.datetime64("2020-01-07")),
            "orbit": ("time", np.arange(6)),
            "lon": (("y", "x"), rng.normal(size=(3, 4)), {"units": "degrees_east"}),
            "zone": ("x", list("abcd")),
            "spatial_ref": ((), 0, {"crs_wkt": "LOCAL_CS[]"}),
            "angle": (("time", "y"), rng.normal(size=(6, 3))),
        },
        attrs={"units": "mm", "grid_mapping": "spatial_ref"},
    )


def shapes() -> dict[str, xr.DataArray]:
    cube = labelled()
    named = cube.rename("los")
    return {
        "unnamed": cube,
        "named": named,
        "time first": named.transpose("time", "y", "x"),
        "time last": named.transpose("x", "y", "time"),
        "no index on pixels": named.drop_vars(["x", "y"]),
        "stacked pixels": named.stack(pixel=("y", "x")),
        "one pixel": named.isel(y=1, x=2),
        "one dim": named.isel(y=1),
        "ascending": named.sortby("y"),
        "lazy": named.chunk(y=2, x=3),
    }


@pytest.mark.parametrize("shape", shapes())
def test_fitted_plus_residual_has_every_label_of_the_cube(shape: str) -> None:
    cube = shapes()[shape]
    fit = cube.lstsq.solve("polynomial(1)", stats=("fitted", "residual"), device="cpu")
    for name in ("fitted", "residual"):
        restored = fit[name].copy(data=cube.data).rename(cube.name)
        xr.testing.assert_identical(restored.drop_attrs(deep=False), cube.drop_attrs(deep=False))
    np.testing.assert_allclose(fit["fitted"] + fit["residual"], cube, rtol=1e-12)


@pytest.mark.parametrize("shape", shapes())
def test_coefficients_have_every_label_that_does_not_stand_along_the_samples(shape: str) -> None:
    cube = shapes()[shape]
    fit = cube.lstsq.solve("polynomial(1)", stats="rss", device="cpu")
    kept = cube.isel(time=0, drop=True).drop_vars(["orbit", "angle"], errors="ignore")
    for variable in (fit["coef"].isel(param=0, drop=True), fit["rss"], fit["status"]):
        bare = variable.drop_vars(["param_units"], errors="ignore")
        template = bare.copy(data=kept.data).rename(kept.name)
        xr.testing.assert_identical(template.drop_attrs(deep=False), kept.drop_attrs(deep=False))
