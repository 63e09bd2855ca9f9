"""False discoveries: the answer of scipy on the finite p-values, in memory and lazily."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
import pytest
import scipy.stats
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import xr_lstsq

P_VALUES = st.one_of(
    st.just(np.nan), st.sampled_from([0.0, 0.01, 0.05, 0.5, 1.0]), st.floats(0, 1, width=64)
)


def expected(p: np.ndarray) -> np.ndarray:
    """Return adjusted p-values by scipy, NaN where a value is."""
    found = np.full(p.shape, np.nan)
    there = np.isfinite(p)
    if there.any():
        found[there] = scipy.stats.false_discovery_control(p[there])
    return found


def field() -> xr.DataArray:
    rng = np.random.default_rng(0)
    p = rng.uniform(size=(30, 40)) ** np.where(np.arange(40) < 10, 6, 1)
    p[rng.random(p.shape) < 0.1] = np.nan
    array = xr.DataArray(
        p,
        {"y": np.arange(30.0), "x": np.arange(40.0), "spatial_ref": 0},
        ("y", "x"),
        name="pvalue",
        attrs={"units": "1"},
    )
    array.encoding["grid_mapping"] = "spatial_ref"
    return array


@given(
    p=arrays.arrays(np.float64, st.integers(0, 30), elements=P_VALUES),
    alpha=st.floats(0.001, 0.999),
)
def test_it_is_what_scipy_gives_for_the_finite_ones(p: np.ndarray, alpha: float) -> None:
    array = xr.DataArray(p, dims="x")
    adjusted = xr_lstsq.fdr(array, adjusted=True)
    np.testing.assert_allclose(adjusted, expected(p), rtol=1e-14)
    found = xr_lstsq.fdr(array, alpha)
    assert found.dtype == bool
    np.testing.assert_array_equal(found, adjusted.values <= alpha)


@pytest.mark.parametrize("adjusted", [False, True])
def test_a_lazy_map_is_lazy_in_its_chunks_and_gives_the_same(adjusted: bool) -> None:
    p = field()
    want = xr_lstsq.fdr(p, adjusted=adjusted)
    assert 0 < int((want < 1).sum()) < p.size

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("computed")

    with dask.config.set(scheduler=refuse):
        lazy = xr_lstsq.fdr(p.chunk(y=7, x=13), adjusted=adjusted)
    assert lazy.chunks == p.chunk(y=7, x=13).chunks
    xr.testing.assert_identical(lazy.compute(), want)
    assert set(want.coords) == set(p.coords)
    assert want.encoding == {"grid_mapping": "spatial_ref"}


def test_a_map_of_a_fit_goes_in_as_it_is() -> None:
    rng = np.random.default_rng(1)
    time = np.arange("2000", "2030", dtype="datetime64[Y]").astype("datetime64[ns]")
    y = rng.normal(size=(30, 400)) + np.where(np.arange(400) < 100, 0.3, 0) * np.arange(30)[:, None]
    cube = xr.DataArray(y, {"time": time}, ("time", "x"))
    p = cube.chunk(x=150).lstsq.solve("polynomial(1)", stats="pvalue")["pvalue"].sel(param="slope")
    found = xr_lstsq.fdr(p).compute()
    assert found[:100].all()
    assert float(found[100:].mean()) < 0.03 < float((p[100:] < 0.05).mean())


@pytest.mark.parametrize(
    ("p", "options", "error", "message"),
    [
        (np.ones(3), {}, TypeError, "DataArray"),
        (xr.DataArray([1, 0]), {}, ValueError, "int"),
        (xr.DataArray([0.5, 1.5]), {}, ValueError, "1.5"),
        (xr.DataArray([0.5]), {"alpha": 0}, ValueError, "alpha=0"),
        (xr.DataArray([0.5]), {"alpha": 1.0}, ValueError, "alpha=1.0"),
    ],
)
def test_what_cannot_be_p_values_is_refused(
    p: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        xr_lstsq.fdr(p, **options)


def test_what_is_no_p_value_in_a_lazy_map_is_found_when_it_is_computed() -> None:
    found = xr_lstsq.fdr(xr.DataArray([0.5, -0.5], dims="x").chunk(x=1))
    with pytest.raises(ValueError, match=r"1 values outside \[0, 1\], such as -0.5"):
        found.compute()


@pytest.mark.parametrize("chunks", [{}, {"y": 8}], ids=["in memory", "lazy"])
def test_float32_is_judged_in_float64(chunks: dict[str, int]) -> None:
    p = field().astype(np.float32)
    want = expected(p.values.astype(np.float64))
    p = p.chunk(chunks) if chunks else p
    np.testing.assert_allclose(xr_lstsq.fdr(p, adjusted=True), want, rtol=1e-14)
    np.testing.assert_array_equal(xr_lstsq.fdr(p, 0.2), want <= 0.2)


def test_a_map_says_what_it_is() -> None:
    p = field().assign_attrs(long_name="p-value of slope", standard_name="no_more")
    found, adjusted = xr_lstsq.fdr(p, 0.1), xr_lstsq.fdr(p, adjusted=True)
    assert found.name == adjusted.name == "pvalue"
    assert found.attrs == {
        "long_name": "p-value of slope significant at a false discovery rate of 0.1"
    }
    assert adjusted.attrs == {
        "long_name": "p-value of slope, adjusted for the false discovery rate", "units": "1"
    }  # fmt: skip


def test_a_map_without_a_test_has_no_discovery() -> None:
    for p in (xr.DataArray([np.nan, np.nan]), xr.DataArray(np.empty((0, 3)))):
        assert not xr_lstsq.fdr(p).any()
        assert xr_lstsq.fdr(p, adjusted=True).isnull().all()
